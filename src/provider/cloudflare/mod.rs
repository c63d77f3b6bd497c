//! Cloudflare: DNS over `/zones` of its v4 API.
//!
//! Owns paths, bodies, decoders and the meaning of this API's refusals. [`crate::provider::http`] owns everything else.
//!
//! Invariants: an answer is a success only if its envelope says so. Of an existing record only content and TTL are
//! written, so its proxying, comment and tags stay. A change set is one request, unless that could leave the name
//! without addresses for a moment.

mod batch;
mod records;
mod refusal;
mod wire;
mod zones;

use crate::clock::Clock;
use crate::permit::Permit;
use crate::provider::call::{CallContext, CallError, Reading};
use crate::provider::dns::{Applied, DnsProvider, Unfinished};
use crate::provider::entry::{Provider, Services, Variables, WriteScopes};
use crate::provider::http::{Account, Answer, Api, ApiConfig, BuildError};
use crate::provider::observe::Call;
use crate::provider::rate::Refusals;
use flipop_core::model::provider::{Descriptor, Limits, Rules, ZoneForm};
use flipop_core::model::{Fault, FaultKind};
use flipop_core::records::dns::{ChangeSet, Record, Zone};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use zones::Zones;

/// The provider's name in specs and metric labels.
pub const NAME: &str = "cloudflare";

/// The facts about Cloudflare for decisions and documents.
pub const DESCRIPTOR: Descriptor = Descriptor {
    firewalls: None,
    name: NAME,
    title: "Cloudflare",
    token_variable: "CLOUDFLARE_TOKEN",
    // 1,200 requests in five minutes for each user, of which 50 are left to others. A request may arrive five seconds
    // after it was sent, because it may wait that long for its connection. Cloudflare has no addresses.
    limits: Limits { requests: 1_150, window_ms: 305_000, creations: 0, creation_window_ms: 60_000 },
    machines: None,
    tells_power: false,
    managed_nodes: None,
    // 60 to 86,400 s. Enterprise zones allow 30 s or more, and 1 means "automatic" (API reference of DNS records).
    dns: Some(Rules {
        zone_form: ZoneForm::NameOrId,
        ttl_floor: TTL_FLOOR,
        ttl_ceiling: 86_400,
        ttl_automatic: Some(1),
        changes_per_request: BATCH,
    }),
};

/// The minimum TTL of ordinary zones, in seconds.
const TTL_FLOOR: u32 = 60;

/// Changes in one batch on the free plan. Other plans allow more (API reference, "Batch DNS records").
const BATCH: usize = 200;

/// Cloudflare, for DNS.
pub(super) const PROVIDER: Provider = Provider {
    descriptor: DESCRIPTOR,
    variables: Variables {
        token_file: "CLOUDFLARE_TOKEN_FILE",
        url: "CLOUDFLARE_API_URL",
        user_agent: "CLOUDFLARE_USER_AGENT",
    },
    default_url: "https://api.cloudflare.com/client/v4",
    write_scopes: WriteScopes {
        assign: "",
        create: "",
        delete: "",
        firewalls: "",
        records: "Zone > DNS > Edit",
    },
    paths: "/zones/…",
    connect: |config| Ok(Services { dns: Some(Arc::new(Cloudflare::new(config)?)), ..Services::default() }),
};

/// Cloudflare blocks a user above the limit for five minutes (API documentation, "Rate limits").
const REFUSALS: Refusals =
    Refusals { is_own: wire::is_refusal, says_excess: refusal::says_excess, block_ms: 300_000 };

/// The client of one token.
#[derive(Debug)]
pub struct Cloudflare {
    api: Api,
    clock: Clock,
    zones: Zones,
}

impl Cloudflare {
    /// Sets up a client.
    ///
    /// # Errors
    /// When the configuration cannot work: see [`BuildError`].
    pub fn new(config: ApiConfig) -> Result<Self, BuildError> {
        let clock = config.clock.clone();
        Ok(Self { api: Api::new(NAME, REFUSALS, config)?, clock, zones: Zones::default() })
    }

    /// Forgets a zone that turned out to be gone, or no longer ours.
    fn doubt_zone(&self, zone: &Zone, fault: Option<&Fault>) {
        if fault.is_some_and(|fault| matches!(fault.kind, FaultKind::NotFound | FaultKind::Unauthorized)) {
            self.zones.forget(&zone.id);
        }
    }
}

/// The answer if it is a success, else its fault.
fn result<T: DeserializeOwned>(answer: &Answer) -> Result<wire::Envelope<T>, Fault> {
    if !answer.status().is_success() {
        return Err(refusal::fault(answer));
    }
    let envelope: wire::Envelope<T> = answer.decode()?;
    if envelope.success { Ok(envelope) } else { Err(refusal::fault(answer)) }
}

/// The result in a success.
fn content<T: DeserializeOwned>(answer: &Answer) -> Result<T, Fault> {
    result(answer)?.result.ok_or_else(|| answer.malformed("it has no result"))
}

impl Account for Cloudflare {
    fn api(&self) -> &Api {
        &self.api
    }
}

impl DnsProvider for Cloudflare {
    fn find_zone<'a>(&'a self, context: &'a CallContext, zone: &'a str) -> Reading<'a, Zone> {
        self.zone(context, zone).boxed()
    }

    fn read_records<'a>(
        &'a self,
        context: &'a CallContext,
        zone: &'a Zone,
        fqdn: &'a str,
    ) -> Reading<'a, Vec<Record>> {
        let work = async move {
            self.zones.check(zone, fqdn)?;
            let read = records::read(&self.api, zone, fqdn).await;
            self.doubt_zone(zone, read.as_ref().err());
            read
        };
        self.api.operation(Call::ListRecords, context, work).boxed()
    }

    fn apply<'a>(
        &'a self,
        _context: &'a CallContext,
        permit: &'a Permit,
        zone: &'a Zone,
        fqdn: &'a str,
        set: &'a ChangeSet,
    ) -> BoxFuture<'a, Result<Applied, Unfinished>> {
        let work = async move {
            let applied = batch::carry_out(self, permit, zone, fqdn, set).await;
            if let Err(Unfinished { cause: CallError::Fault(fault), .. }) = &applied {
                self.doubt_zone(zone, Some(fault));
            }
            applied
        };
        work.boxed()
    }
}
