//! Shared parts of the DNS tests: zones at both providers, record sets as on the API server, and a name's records.

use crate::world::{Object, SOON, TEAM, World, same};
use flipop_cloud::{Call, Op, Plan, Provider, RecordView};
use flipop_envtest::api_proxy::ApiProxy;
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::{Launch, Operator};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The zone of the tests, at both providers.
pub(crate) const ZONE: &str = "example.com";

pub(crate) const BOTH: [Provider; 2] = [Provider::DigitalOcean, Provider::Cloudflare];

/// A provider's name in specs and metrics.
pub(crate) fn named(provider: Provider) -> &'static str {
    match provider {
        Provider::DigitalOcean => "digitalocean",
        Provider::Cloudflare => "cloudflare",
    }
}

/// The external address of a node in these tests.
pub(crate) fn external(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, last)
}

/// Its internal address.
pub(crate) fn internal(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

/// The external addresses of nodes, as in records and statuses.
pub(crate) fn externals(last: &[u8]) -> Vec<String> {
    sorted(last.iter().map(|last| external(*last)))
}

/// Addresses in a status's order.
pub(crate) fn sorted(addresses: impl IntoIterator<Item = Ipv4Addr>) -> Vec<String> {
    let mut addresses: Vec<Ipv4Addr> = addresses.into_iter().collect();
    addresses.sort_unstable();
    addresses.iter().map(ToString::to_string).collect()
}

/// A record set of the nodes with `pool=work`.
pub(crate) fn set_spec(provider: Provider, name: &str) -> Value {
    json!({
        "dnsRecordSet": { "provider": named(provider), "zone": ZONE, "recordName": name },
        "match": { "nodeLabel": "pool=work" },
    })
}

/// The records of one name at one provider.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) provider: Provider,
    pub(crate) zone: String,
    pub(crate) fqdn: String,
}

impl Name {
    /// A name in [`ZONE`].
    pub(crate) fn new(provider: Provider, relative: &str) -> Self {
        Self { provider, zone: ZONE.to_owned(), fqdn: format!("{relative}.{ZONE}") }
    }

    fn is_of(&self, record: &RecordView) -> bool {
        record.fqdn == self.fqdn && record.rtype == "A"
    }

    /// Its address records: address and TTL, sorted.
    pub(crate) fn records(&self, world: &World) -> Vec<(Ipv4Addr, u64)> {
        let records = world.cloud().records(self.provider, &self.zone).into_iter();
        let ours = records.filter(|record| self.is_of(record));
        let mut ours: Vec<(Ipv4Addr, u64)> =
            ours.filter_map(|record| Some((record.data.parse().ok()?, record.ttl))).collect();
        ours.sort_unstable();
        ours
    }

    /// Its addresses.
    pub(crate) fn addresses(&self, world: &World) -> Vec<String> {
        self.records(world).into_iter().map(|(address, _)| address.to_string()).collect()
    }

    /// Writes an address record as somebody else.
    pub(crate) fn write(&self, world: &World, address: Ipv4Addr, ttl: u64) {
        let record = RecordView::new(&self.fqdn, "A", &address.to_string(), ttl);
        world.cloud().add_record(self.provider, &self.zone, &record);
    }
}

/// Whether a call concerns DNS.
pub(crate) fn concerns_dns(call: &Call) -> bool {
    call.provider == Provider::Cloudflare || call.path.starts_with("/v2/domains")
}

impl World {
    /// Creates the tests' zone at both providers. Returns its id at Cloudflare.
    pub(crate) fn zones(&self) -> String {
        self.cloud().add_domain(ZONE);
        self.cloud().add_zone(ZONE, Plan::Free)
    }

    /// How to start an operator that knows both providers.
    pub(crate) async fn dns_launch(&self) -> Outcome<Launch> {
        Ok(self.launch().await?.cloudflare(&self.cloudflare_url()))
    }

    /// An operator that knows both providers.
    pub(crate) async fn dns_operator(&self) -> Outcome<Operator> {
        self.start(&self.dns_launch().await?).await
    }

    /// An operator that knows both providers, behind a proxy that can apply faults to its requests to the API server.
    pub(crate) async fn dns_operator_behind(&self) -> Outcome<(ApiProxy, Operator)> {
        let (proxy, launch) = self.launch_behind().await?;
        let operator = self.start(&launch.cloudflare(&self.cloudflare_url())).await?;
        Ok((proxy, operator))
    }

    /// A node with `pool=work` that has an external and an internal address.
    pub(crate) async fn public_node(&self, name: &str, last: u8) -> Outcome<u64> {
        let (external, internal) = (external(last).to_string(), internal(last).to_string());
        self.node_with(name, |node| node.address("ExternalIP", &external).address("InternalIP", &internal))
            .await
    }

    /// Creates a record set.
    pub(crate) async fn record_set(&self, name: &str, spec: &Value) -> Outcome {
        self.cluster.create(Kind::RecordSet, TEAM, name, spec).await
    }

    /// Waits until a record set is right. `Err` of `right` says what is wrong.
    #[track_caller]
    pub(crate) fn set_shows<'a, T, Right>(
        &'a self,
        name: &'a str,
        what: &str,
        timeout: Duration,
        right: Right,
    ) -> impl Future<Output = Outcome<T>> + use<'a, T, Right>
    where
        Right: Fn(&Object) -> Result<T, String> + 'a,
        T: 'a,
    {
        self.shows(Kind::RecordSet, name, what, timeout, right)
    }

    /// Waits until a name has exactly these addresses.
    #[track_caller]
    pub(crate) fn name_has<'a>(
        &'a self,
        name: &'a Name,
        addresses: &'a [String],
    ) -> impl Future<Output = Outcome> + use<'a> {
        eventually(&format!("{} has {addresses:?}", name.fqdn), SOON, move || async move {
            same(name.addresses(self).as_slice(), addresses).map_err(Failure::new)
        })
    }

    /// Waits until a name has exactly these addresses and a record set's status says so.
    #[track_caller]
    pub(crate) fn set_settles<'a>(
        &'a self,
        set: &'a str,
        name: &'a Name,
        addresses: &'a [String],
    ) -> impl Future<Output = Outcome> + use<'a> {
        let what = format!("{} has {addresses:?}", name.fqdn);
        self.set_shows(set, &what, SOON, move |set| {
            same(name.addresses(self).as_slice(), addresses)?;
            set.is_current()?;
            same(set.text("state"), "active")?;
            same(set.text("error"), "")?;
            same(set.text("fqdn"), name.fqdn.as_str())?;
            same(set.names("addresses").as_slice(), addresses)?;
            set.has("SpecValid", "True", "Valid", &[])?;
            let (status, reason) =
                if addresses.is_empty() { ("False", "NoMatchingNode") } else { ("True", "Published") };
            set.has("Ready", status, reason, &[])
        })
    }

    /// Waits until a pool's status says that these addresses are published.
    #[track_caller]
    pub(crate) fn pool_publishes<'a>(
        &'a self,
        pool: &'a str,
        name: &'a Name,
        addresses: &'a [String],
    ) -> impl Future<Output = Outcome> + use<'a> {
        let what = format!("{} has {addresses:?}", name.fqdn);
        self.pool_shows(pool, &what, SOON, move |pool| {
            same(name.addresses(self).as_slice(), addresses)?;
            pool.is_current()?;
            same(&pool.status()["dnsRecordSet"]["fqdn"], &json!(name.fqdn))?;
            same(&pool.status()["dnsRecordSet"]["addresses"], &json!(addresses))?;
            pool.has("RecordSetReady", "True", "Published", &[])
        })
    }

    /// The DNS calls to a provider since a number.
    pub(crate) fn dns_calls(&self, provider: Provider, since: u64) -> Vec<Call> {
        let calls = self.cloud().calls(since).into_iter();
        calls.filter(|call| call.provider == provider && concerns_dns(call)).collect()
    }

    /// The DNS writes to both providers since a number.
    pub(crate) fn dns_writes(&self, since: u64) -> Vec<(Op, String)> {
        let calls = self.cloud().calls(since).into_iter();
        let writes = calls.filter(|call| concerns_dns(call) && call.op.mutates());
        writes.map(|call| (call.op, call.body)).collect()
    }

    /// Waits for an Event about an object with this reason and these words.
    #[track_caller]
    pub(crate) fn event_says<'a>(
        &'a self,
        about: &'a str,
        reason: &'a str,
        words: &'a [&'a str],
    ) -> impl Future<Output = Outcome> + use<'a> {
        let start = format!("{reason}: ");
        eventually(&format!("an Event {reason} about {about} says {words:?}"), SOON, move || {
            let start = start.clone();
            async move {
                let events = self.cluster.events(TEAM, about).await?;
                let says = |event: &String| {
                    event.starts_with(&start) && words.iter().all(|word| event.contains(word))
                };
                if events.iter().any(says) { Ok(()) } else { Err(Failure::new(format!("{events:?}"))) }
            }
        })
    }
}
