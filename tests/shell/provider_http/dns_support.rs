//! Shared by the tests of both DNS clients: a cloud with a zone that contains other people's records.

use super::{Leadership, TOKEN, account, client, config};
use flipop::provider::CallError;
use flipop::provider::cloudflare::Cloudflare;
use flipop::provider::dns::{Applied, DnsProvider, Unfinished};
use flipop_cloud::{
    Call, Cloud, CloudServer, Fault as Injected, Injection, Op, Options, Plan, Provider, RecordView, Target,
};
use flipop_core::model::Fault;
use flipop_core::records::dns::{Change, ChangeSet, Record, Zone};
use std::net::Ipv4Addr;
use std::time::Duration;

pub(crate) const ZONE: &str = "example.com";
pub(crate) const WWW: &str = "www.example.com";

/// A cloud with a zone at one provider, and a client for it.
pub(crate) struct World {
    pub(crate) server: CloudServer,
    pub(crate) provider: Provider,
    pub(crate) client: Box<dyn DnsProvider>,
    pub(crate) zone: Zone,
    pub(crate) leadership: Leadership,
}

pub(crate) async fn digitalocean(scopes: &[&str]) -> World {
    let server = CloudServer::start(Options { seed: 7, epoch_ms: None }).await.unwrap();
    server.cloud().add_token(Provider::DigitalOcean, "ours", TOKEN, scopes);
    server.cloud().add_domain(ZONE);
    let client = Box::new(client(&server.digitalocean_url()));
    let zone = client.find_zone(&account(), ZONE).await.unwrap();
    World { server, provider: Provider::DigitalOcean, client, zone, leadership: Leadership::held() }
}

/// The zone is found by its id.
pub(crate) async fn cloudflare(scopes: &[&str], plan: Plan) -> World {
    let server = CloudServer::start(Options { seed: 7, epoch_ms: None }).await.unwrap();
    server.cloud().add_token(Provider::Cloudflare, "ours", TOKEN, scopes);
    let id = server.cloud().add_zone(ZONE, plan);
    let client = Box::new(Cloudflare::new(config(&server.cloudflare_url())).unwrap());
    let zone = client.find_zone(&account(), &id).await.unwrap();
    World { server, provider: Provider::Cloudflare, client, zone, leadership: Leadership::held() }
}

/// One world per provider.
pub(crate) async fn both() -> [World; 2] {
    [digitalocean(&["*"]).await, cloudflare(&["*"], Plan::Free).await]
}

impl World {
    pub(crate) fn cloud(&self) -> &Cloud {
        self.server.cloud()
    }

    /// Adds an A record of [`WWW`] and returns its id.
    pub(crate) fn add(&self, ip: &str) -> String {
        self.add_record(&RecordView::new(WWW, "A", ip, 60))
    }

    pub(crate) fn add_record(&self, record: &RecordView) -> String {
        self.cloud().add_record(self.provider, ZONE, record).unwrap()
    }

    /// Adds records that are not ours: of other names, and of other types at our name.
    pub(crate) fn add_foreign(&self) {
        for (fqdn, kind, data) in [
            (ZONE, "A", "192.0.2.200"),
            (ZONE, "MX", "mail.example.com."),
            ("mail.example.com", "A", "192.0.2.201"),
            ("w.example.com", "A", "192.0.2.202"),
            ("www.www.example.com", "A", "192.0.2.203"),
            ("awww.example.com", "A", "192.0.2.204"),
            (WWW, "TXT", "heritage=external-dns"),
            (WWW, "AAAA", "2001:db8::1"),
        ] {
            self.add_record(&RecordView::new(fqdn, kind, data, 300));
        }
    }

    /// All records except the A records of [`WWW`].
    pub(crate) fn foreign(&self) -> Vec<RecordView> {
        let records = self.cloud().records(self.provider, ZONE);
        records.into_iter().filter(|record| record.rtype != "A" || record.fqdn != WWW).collect()
    }

    /// The addresses of [`WWW`], sorted.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.cloud().a_records(self.provider, ZONE, WWW)
    }

    pub(crate) async fn read(&self) -> Result<Vec<Record>, Fault> {
        self.client.read_records(&account(), &self.zone, WWW).await
    }

    pub(crate) async fn apply(&self, set: &ChangeSet) -> Result<Applied, Unfinished> {
        self.client.apply(&account(), &self.leadership.permit, &self.zone, WWW, set).await
    }

    /// The fault of a failing change set.
    pub(crate) async fn apply_fault(&self, set: &ChangeSet) -> (usize, Fault) {
        match self.apply(set).await {
            Err(Unfinished { done, cause: CallError::Fault(fault) }) => (done, fault),
            other => panic!("{other:?}"),
        }
    }

    /// Injects a fault into the next call of an operation.
    pub(crate) fn next(&self, op: Op, fault: Injected) {
        let _id = self.cloud().inject(Injection::once(Target::op(op), fault));
    }

    /// Awaits some work while one of its calls is answered slowly, and does something meanwhile. `number` counts the
    /// calls of this kind.
    pub(crate) async fn while_slow<T>(
        &self,
        (op, number): (Op, u32),
        work: impl Future<Output = T>,
        meanwhile: impl Future<Output = ()>,
    ) -> T {
        let slow = Injected::Delay { before_ms: 0, after_ms: 500 };
        let _id = self.cloud().inject(Injection::nth(Target::op(op), number.into(), slow));
        let calls = usize::try_from(number).unwrap();
        let asked = async {
            while self.calls(op).len() < calls {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            meanwhile.await;
        };
        tokio::join!(work, asked).0
    }

    /// The calls of this kind.
    pub(crate) fn calls(&self, op: Op) -> Vec<Call> {
        self.cloud().calls(0).into_iter().filter(|call| call.op == op).collect()
    }

    /// The operation that creates a record here.
    pub(crate) fn creates(&self) -> Op {
        match self.provider {
            Provider::DigitalOcean => Op::CreateRecord,
            Provider::Cloudflare => Op::BatchRecords,
        }
    }
}

pub(crate) fn create(ip: &str) -> Change {
    Change::Create { ip: address(ip).into(), ttl: 60 }
}

pub(crate) fn update(id: &str, ip: &str) -> Change {
    Change::Update { id: id.to_owned(), ip: address(ip).into(), ttl: 60 }
}

pub(crate) fn delete(id: &str) -> Change {
    Change::Delete { id: id.to_owned() }
}

pub(crate) fn changes(changes: impl IntoIterator<Item = Change>) -> ChangeSet {
    ChangeSet { changes: changes.into_iter().collect(), survivor: false }
}

pub(crate) fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// The A records among these, as address and TTL, sorted.
pub(crate) fn a_records(records: &[Record]) -> Vec<(Ipv4Addr, u32)> {
    let mut found: Vec<_> =
        records.iter().filter_map(|record| Some((record.address()?.as_v4()?, record.ttl))).collect();
    found.sort_unstable();
    found
}
