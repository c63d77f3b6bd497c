//! What every test starts from, and how the API server takes a pool's status.

use crate::world::{PROVIDER, World};
use crate::zones::CLOUDFLARE;
use flipop_core::action::{ObjectRef, Outcome, WriteFailure, WrittenStatus};
use flipop_core::budget::Limits;
use flipop_core::facts::Observed;
use flipop_core::fault::{Fault, FaultKind};
use flipop_core::fleet::{Fleet, Input, Settings};
use flipop_core::matching::WatchKey;
use flipop_core::pool::spec::{Providers, RawPoolSpec};
use flipop_core::pool::status::PoolStatus;
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

impl World {
    pub(crate) fn write_status(&mut self, pool: &ObjectRef, resource_version: &str, mut status: PoolStatus) {
        self.status_writes += 1;
        if self.go_crds {
            status = PoolStatus {
                conditions: Vec::new(),
                observed_generation: 0,
                memory: None,
                record_set: None,
                ..status
            };
        }
        let version = self.next_version();
        let result = match self.pools.get_mut(&pool.name.name) {
            None => Err(WriteFailure::Gone),
            Some(object) if object.resource_version != resource_version => Err(WriteFailure::Conflict),
            Some(object) => {
                object.resource_version = version.to_string();
                object.status = status.clone();
                let object = object.clone();
                let kept = WrittenStatus { resource_version: object.resource_version.clone(), status };
                self.show(Input::Pools(Observed::Apply(object)));
                Ok(Box::new(kept))
            }
        };
        self.answer(Outcome::StatusWritten { pool: pool.uid.clone(), result });
    }
}
