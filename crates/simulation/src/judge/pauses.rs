//! I14: a paused object begins nothing. After the pause the account is listed before the first move.
//!
//! Work sent before the pause is finished: an address moved by an earlier assignment gets its annotation and its
//! record. The judge sees the annotation in the API server's log and trusts nothing that the operator says.

use super::dns::{self, Site};
use super::truth::Pool;
use super::{Judge, MANAGER, Process};
use crate::facts::{Facts, Kind};
use crate::scene::{HOME, POOLS, RECORD_SETS};
use flipop_apiserver::Change;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The annotation that pauses an object.
pub(crate) const ANNOTATION: &str = "flipop.digitalocean.com/paused";

/// From the sending of a call to its effect.
const LATE_MS: u64 = 11_000;

/// How long after its acceptance an assignment has its annotation and its record.
const FINISHED_MS: u64 = 30_000;

/// The same under any disturbance.
const DISTURBED_MS: u64 = 600_000;

/// After a pause the account and the records are read, the records twice if some are to be deleted.
const RESUMED_MS: u64 = 20_000;

#[derive(Debug, Clone, Copy)]
struct Pause {
    from_ms: u64,
    to_ms: Option<u64>,
}

/// The pauses of all objects.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The latest pause of each object, by plural and name.
    latest: BTreeMap<(String, String), Pause>,
    /// When an assignment of an address last took effect.
    assigned: BTreeMap<Ipv4Addr, u64>,
}

impl Pauses {
    /// Takes in a change from the API server.
    pub(super) fn changed(&mut self, change: &Change, now_ms: u64) {
        let kind = change.storage.plural.as_str();
        if kind != POOLS && kind != RECORD_SETS {
            return;
        }
        let stands = |object: &serde_json::Value| {
            let annotations = object.pointer("/metadata/annotations");
            annotations.and_then(|annotations| annotations.get(ANNOTATION)).is_some()
        };
        let paused = change.after.as_deref().is_some_and(stands);
        let key = (kind.to_owned(), change.key.name.clone());
        let known = self.latest.get_mut(&key).filter(|pause| pause.to_ms.is_none());
        match known {
            Some(pause) if !paused => pause.to_ms = Some(now_ms),
            None if paused => drop(self.latest.insert(key, Pause { from_ms: now_ms, to_ms: None })),
            Some(_) | None => {}
        }
    }

    /// An assignment took effect.
    pub(super) fn assigned(&mut self, ip: Ipv4Addr, now_ms: u64) {
        self.assigned.insert(ip, now_ms);
    }

    fn of(&self, kind: &str, name: &str) -> Option<Pause> {
        self.latest.get(&(kind.to_owned(), name.to_owned())).copied()
    }

    /// Since when an object is paused, if it was paused all the time since `from_ms`.
    pub(super) fn held(&self, kind: &str, name: &str, from_ms: u64) -> Option<u64> {
        let pause = self.of(kind, name)?;
        (pause.to_ms.is_none() && pause.from_ms <= from_ms).then_some(pause.from_ms)
    }

    /// The beginning and the end of a pool's last pause, if that is over.
    fn ended(&self, pool: &str) -> Option<(u64, u64)> {
        let pause = self.of(POOLS, pool)?;
        Some((pause.from_ms, pause.to_ms?))
    }

    /// Whether promptness cannot be expected of an object: it is paused, or was a moment ago.
    pub(super) fn rests(&self, is_pool: bool, name: &str, now_ms: u64) -> bool {
        let pause = self.of(if is_pool { POOLS } else { RECORD_SETS }, name);
        pause.is_some_and(|pause| pause.to_ms.is_none_or(|to_ms| now_ms < to_ms + RESUMED_MS))
    }
}

impl Judge {
    /// Takes in a change from the API server's log.
    pub(super) fn note_pauses(&mut self, now_ms: u64, change: &Change) {
        self.pauses.changed(change, now_ms);
        if change.manager == MANAGER && change.storage.plural == "nodes" {
            self.check_pause_of_node(now_ms, change);
        }
    }

    /// A call is sent.
    pub(super) fn check_pause(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        let from_ms = self.blindness.since(now_ms);
        let held = |pool: &String| self.pauses.held(POOLS, pool, from_ms).is_some();
        let begins = match facts.kind {
            Kind::Assign { ip, .. } => {
                let owners = self.truth.owners(ip, from_ms);
                if let Some(text) = self.unlisted(now_ms, process, &owners) {
                    self.blame(now_ms, "I14", text);
                    return;
                }
                !owners.is_empty() && owners.iter().all(held)
            }
            Kind::Unassign { ip } | Kind::DeleteIp { ip } => {
                let mut holders = self.truth.pools.values().filter(|pool| pool.held(ip)).peekable();
                holders.peek().is_some() && holders.all(|pool| held(&pool.name))
            }
            Kind::CreateIp => {
                let mut buyers = self.pools_since(from_ms).filter(|pool| pool.desired() > 0).peekable();
                buyers.peek().is_some() && buyers.all(|pool| held(&pool.name))
            }
            Kind::Lease { .. }
            | Kind::Event
            | Kind::List { .. }
            | Kind::Watch
            | Kind::Read
            | Kind::ReadRecords
            | Kind::Write { .. }
            | Kind::ListIps
            | Kind::Record
            | Kind::Firewall => false,
        };
        if begins {
            self.blame(now_ms, "I14", format!("{process} starts {:?} for a paused pool", facts.what));
        }
    }

    /// Whether all pools that a process moves an address for have ended a pause since it last listed the account.
    fn unlisted(&self, now_ms: u64, process: Process, owners: &[String]) -> Option<String> {
        let listed_ms = self.known.get(&process).and_then(|known| known.listed_ms).unwrap_or_default();
        let stale = |owner: &String| {
            let (from_ms, to_ms) = self.pauses.ended(owner)?;
            let seen_ms = self.blindness.since(now_ms).min(self.blindness.since(to_ms));
            // A pause too short to be seen counts as none.
            (from_ms < seen_ms.min(to_ms) && listed_ms < seen_ms).then_some(to_ms)
        };
        let ended: Option<Vec<u64>> = owners.iter().map(stale).collect();
        let ended = ended?.into_iter().max()?;
        Some(format!(
            "{process} moves an address and has not listed the account since the pause ended at {ended} ms"
        ))
    }

    /// Whether a change about an address finishes an assignment that was sent before a pause, or just then.
    fn finishes(&self, ip: &str, paused_ms: u64, now_ms: u64) -> bool {
        let ip: Option<Ipv4Addr> = ip.parse().ok();
        let calm = self.blindness.calm.is_calm(HOME, paused_ms)
            && self.blindness.calm.is_calm(flipop_cloud::Provider::Cloudflare, now_ms);
        let within_ms = if calm { FINISHED_MS } else { DISTURBED_MS };
        let assigned = ip.and_then(|ip| self.pauses.assigned.get(&ip));
        assigned.is_some_and(|at_ms| at_ms + within_ms >= paused_ms)
    }

    /// The operator changed the annotation of a node.
    fn check_pause_of_node(&mut self, now_ms: u64, change: &Change) {
        let from_ms = self.blindness.since(now_ms).saturating_sub(LATE_MS);
        let pointer = "/metadata/annotations/flipop.digitalocean.com~1ipv4-reserved-ip";
        let value = |object: &Option<std::sync::Arc<serde_json::Value>>| {
            object.as_ref()?.pointer(pointer)?.as_str().map(str::to_owned)
        };
        let (before, after) = (value(&change.before), value(&change.after));
        // The latest pause among the pools that name it; `None` if any of them may act.
        let paused = |ip: &String| -> Option<u64> {
            let owners = self.truth.owners(ip.parse().ok()?, from_ms);
            let all: Option<Vec<u64>> =
                owners.iter().map(|owner| self.pauses.held(POOLS, owner, from_ms)).collect();
            all?.into_iter().max()
        };
        let replaced = after.as_ref().is_some_and(|ip| paused(ip).is_none());
        let begun = |ip: &&String| paused(ip).is_some_and(|at_ms| !self.finishes(ip, at_ms, now_ms));
        let wrong = before.iter().filter(|_| !replaced).chain(&after).find(begun);
        if before != after && wrong.is_some() {
            let name = &change.key.name;
            let text = format!("{name} is annotated {after:?}, not {before:?}, for a paused pool");
            self.blame(now_ms, "I14", text);
        }
    }

    /// The operator changed a record. `added` is its content, if no record had that before.
    pub(super) fn check_pause_of_record(&mut self, now_ms: u64, site: &Site, added: Option<&str>) {
        let from_ms = self.blindness.since_of_records(now_ms).saturating_sub(LATE_MS);
        let names = |object: &&Pool| dns::place(object).is_some_and(|place| place.site == *site);
        let begins = |object: &Pool| {
            let is_pool = self.truth.pools.get(&object.name).is_some_and(|pool| pool.uid == object.uid);
            let kind = if is_pool { POOLS } else { RECORD_SETS };
            let paused_ms = self.pauses.held(kind, &object.name, from_ms)?;
            Some(!(is_pool && added.is_some_and(|ip| self.finishes(ip, paused_ms, now_ms))))
        };
        let objects = dns::objects(&self.truth).chain(self.former_since(from_ms));
        let all: Option<Vec<bool>> = objects.filter(names).map(begins).collect();
        if all.is_some_and(|all| !all.is_empty() && all.into_iter().all(|begins| begins)) {
            let text = format!("a record of {} changes ({added:?}) for a paused object", site.1);
            self.blame(now_ms, "I14", text);
        }
    }
}
