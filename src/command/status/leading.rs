//! Facts that only the leader knows, from its `/debug`.

use super::model::FailingCheck;
use crate::command::leader::{Leader, LeaderReport};
use crate::debug::{ChangeView, CheckView, IpView, PoolView, View};
use flipop_core::model::ObjectName;
use std::collections::BTreeMap;

/// Details that are older than this are worth a note.
const OLD_MS: u64 = 2_000;

/// The providers whose calls fail altogether, each with the time for which they do.
fn outages(view: &View) -> impl Iterator<Item = String> {
    view.accounts.iter().filter_map(|account| {
        let (provider, seconds) = (&account.provider, view.now_seconds.saturating_sub(account.out_since_seconds?));
        Some(format!(
            "all calls to {provider} have failed for {seconds} s; FLIPOP tests it every 5 s, and continues once it \
             answers"
        ))
    })
}

/// The leader's answer. Empty if the leader could not be asked.
#[derive(Default)]
pub(in crate::command) struct Leading {
    /// The leader.
    pub(super) leader: Option<Leader>,
    /// The missing facts, and why they are missing.
    pub(super) notes: Vec<String>,
    pools: BTreeMap<ObjectName, PoolView>,
    checks: Vec<CheckView>,
    /// The last change of each address.
    changes: BTreeMap<String, ChangeView>,
}

impl Leading {
    pub(super) fn new(report: LeaderReport) -> Self {
        let LeaderReport { leader, debug, mut notes } = report;
        let Some(view) = debug else { return Self { leader, notes, ..Self::default() } };
        if !view.leading {
            notes
                .push("the replica that holds the Lease does not lead yet: ask again in a moment".to_owned());
            return Self { leader, notes, ..Self::default() };
        }
        if let Some(age) = view.details_age_ms.filter(|age| *age > OLD_MS) {
            let age = age / 1_000;
            notes.push(format!("the leader is busy: queue order, waits and next events are {age} s old"));
        }
        notes.extend(outages(&view));
        let named = |pool: PoolView| (ObjectName::new(pool.namespace.clone(), pool.name.clone()), pool);
        Self {
            leader,
            notes,
            pools: view.pools.into_iter().map(named).collect(),
            checks: view.checks,
            changes: view.changes.into_iter().map(|change| (change.ip.clone(), change)).collect(),
        }
    }

    /// Whether no replica leads, so that every status may be outdated.
    pub(super) fn is_stale(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.vacant_since.is_some())
    }

    /// A pool as the leader knows it.
    pub(super) fn pool(&self, name: &ObjectName) -> Option<&PoolView> {
        self.pools.get(name)
    }

    /// An address of a pool as the leader knows it.
    pub(super) fn ip(&self, pool: &ObjectName, ip: &str) -> Option<&IpView> {
        self.pool(pool)?.ips.iter().find(|known| known.ip == ip)
    }

    /// The checked nodes that do not answer.
    pub(super) fn failing_checks(&self) -> Vec<FailingCheck> {
        let failing = |check: &CheckView| {
            let CheckView { node, address, standing, failures, .. } = check;
            if !["failing", "dead"].contains(&standing.as_str()) {
                return None;
            }
            let last = check.last_passed_ms.map_or("never".to_owned(), |ms| format!("{} s ago", ms / 1_000));
            let lease = check.lease_age_ms.map_or("none".to_owned(), |ms| format!("{} s old", ms / 1_000));
            let counts = if standing == "dead" {
                "counts as failed"
            } else if check.doubted {
                "fails, but its Lease is renewed, so it does not count as failed"
            } else {
                "fails"
            };
            let text = format!(
                "{address} {counts}: last answer {last}, {failures} failures in a row, Lease {lease}"
            );
            Some(FailingCheck { node: node.clone(), text })
        };
        self.checks.iter().filter_map(failing).collect()
    }

    /// When an address arrived at its node, if the leader saw it.
    pub(super) fn since(&self, ip: &str, node: &str) -> Option<String> {
        let last = self.changes.get(ip).filter(|last| last.to == node)?;
        Some(last.time.clone())
    }
}
