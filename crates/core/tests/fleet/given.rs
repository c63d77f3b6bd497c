//! What every test starts from.

use crate::world::PROVIDER;
use crate::zones::CLOUDFLARE;
use flipop_core::budget::Limits;
use flipop_core::fault::{Fault, FaultKind};
use flipop_core::fleet::{Fleet, Settings};
use flipop_core::matching::WatchKey;
use flipop_core::pool::spec::{Providers, RawPoolSpec};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn spec() -> RawPoolSpec {
    RawPoolSpec { provider: PROVIDER.into(), region: "nyc3".into(), ..RawPoolSpec::default() }
}

pub(crate) fn fault(kind: FaultKind, outcome_unknown: bool) -> Fault {
    Fault { kind, message: format!("{kind} by a trick"), outcome_unknown, retry_after_ms: None }
}

pub(crate) fn nodes_key() -> WatchKey {
    WatchKey::Nodes { selector: String::new() }
}

pub(crate) fn fleet() -> Fleet {
    let known = [(PROVIDER, "DIGITALOCEAN_ACCESS_TOKEN"), (CLOUDFLARE, "CLOUDFLARE_TOKEN")];
    let providers = Providers {
        ip: BTreeSet::from([PROVIDER.to_owned()]),
        dns: known.map(|(name, _)| name.to_owned()).into(),
        known: known.map(|(name, variable)| (name.to_owned(), variable.to_owned())).into(),
    };
    let limits = BTreeMap::from([(PROVIDER.to_owned(), Limits::DIGITALOCEAN)]);
    let dns_limits = BTreeMap::from([(CLOUDFLARE.to_owned(), Limits::CLOUDFLARE)]);
    Fleet::new(Settings { providers, limits, dns_limits })
}
