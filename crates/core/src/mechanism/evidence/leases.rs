//! The Leases that kubelets renew: which of them missed a renewal, and whether that means anything.
//!
//! Only this process's own clock measures time. A renewal time in a Lease is compared for equality, and never read as
//! a time. A Lease outlives its node, and then says nothing: one counts only if it was seen to change, or if its node
//! exists. Invariant: a missed renewal counts only if the other Leases bear it out, and not soon after a list.

use crate::model::facts::Observed;
use crate::model::moment::Moment;
use crate::model::node_check::LeaseFacts;
use std::collections::{BTreeMap, BTreeSet};

/// A kubelet renews its Lease every quarter of the Lease's duration. A renewal is missed after this share of the
/// duration, in hundredths: 12 s of 40 s.
const MISSED_PERCENT: u64 = 30;

/// No renewal counts as missed for this long after a list, since changes before the list went unseen.
const QUIET_MS: u64 = 12_000;

#[derive(Debug, Clone)]
struct Lease {
    renewed_us: Option<i64>,
    /// When it was last seen to change, or was first seen.
    changed: Moment,
    /// It was seen to change.
    alive: bool,
    missed_ms: u64,
}

impl Lease {
    /// `known` is the former state, and `renewed` says whether the Lease has changed since.
    fn seen(facts: &LeaseFacts, known: Option<&Self>, renewed: bool, now: Moment) -> Self {
        let missed_ms = facts.duration_ms.saturating_mul(MISSED_PERCENT) / 100;
        let changed = known.filter(|_| !renewed).map_or(now, |known| known.changed);
        let alive = renewed || known.is_some_and(|known| known.alive);
        Self { renewed_us: facts.renewed_us, changed, alive, missed_ms }
    }

    const fn missed_at(&self) -> Moment {
        self.changed.plus_millis(self.missed_ms)
    }
}

/// The Leases of all nodes.
#[derive(Debug, Default)]
pub(super) struct Leases {
    listed: bool,
    by_node: BTreeMap<String, Lease>,
    /// The nodes of the cluster, once they are known.
    nodes: Option<BTreeSet<String>>,
    quiet_until: Moment,
}

impl Leases {
    /// Takes in a step of the watch, and returns the nodes whose Lease was renewed.
    pub(super) fn observe(&mut self, observed: &Observed<LeaseFacts>, now: Moment) -> Vec<String> {
        match observed {
            Observed::Reset(list) => {
                self.listed = true;
                self.quiet_until = now.plus_millis(QUIET_MS);
                let mut before = std::mem::take(&mut self.by_node);
                let mut renewed = Vec::new();
                for facts in list {
                    let known = before.remove(&facts.name);
                    let is_renewed = known.as_ref().is_some_and(|known| known.renewed_us != facts.renewed_us);
                    let lease = Lease::seen(facts, known.as_ref(), is_renewed, now);
                    self.by_node.insert(facts.name.clone(), lease);
                    renewed.extend(is_renewed.then(|| facts.name.clone()));
                }
                renewed
            }
            Observed::Apply(facts) => {
                let known = self.by_node.get(&facts.name);
                let is_renewed = known.is_none_or(|known| known.renewed_us != facts.renewed_us);
                let lease = Lease::seen(facts, known, is_renewed, now);
                self.by_node.insert(facts.name.clone(), lease);
                is_renewed.then(|| facts.name.clone()).into_iter().collect()
            }
            Observed::Delete(facts) => {
                self.by_node.remove(&facts.name);
                Vec::new()
            }
        }
    }

    /// Forgets everything, because the watch begins again.
    pub(super) fn forget(&mut self) {
        *self = Self { nodes: self.nodes.take(), ..Self::default() };
    }

    /// Takes in all nodes of the cluster.
    pub(super) fn nodes(&mut self, names: BTreeSet<String>) {
        self.nodes = Some(names);
    }

    fn counts(&self, node: &str, lease: &Lease) -> bool {
        lease.alive || self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }

    /// Whether the node has a Lease, as far as is known.
    pub(super) fn may_have(&self, node: &str) -> bool {
        !self.listed || self.by_node.contains_key(node)
    }

    /// The renewal time in its Lease.
    pub(super) fn renewed_us(&self, node: &str) -> Option<i64> {
        self.by_node.get(node).and_then(|lease| lease.renewed_us)
    }

    /// The time since its Lease was last seen to change.
    pub(super) fn age_ms(&self, node: &str, now: Moment) -> Option<u64> {
        self.by_node.get(node).map(|lease| now.millis_since(lease.changed))
    }

    /// When the node has missed a renewal, if none comes before.
    pub(super) fn missed_at(&self, node: &str) -> Option<Moment> {
        let lease = self.by_node.get(node).filter(|_| self.listed)?;
        Some(lease.missed_at().max(self.quiet_until))
    }

    /// The number of Leases that count, and of those among them that have missed no renewal.
    pub(super) fn fresh(&self, now: Moment) -> (usize, usize) {
        let counting = || self.by_node.iter().filter(|(node, lease)| self.counts(node, lease));
        (counting().count(), counting().filter(|(_, lease)| lease.missed_at() > now).count())
    }

    /// Whether the Lease of a node is among those that count.
    pub(super) fn is_counted(&self, node: &str) -> bool {
        self.by_node.get(node).is_some_and(|lease| self.counts(node, lease))
    }
}

/// Whether the other Leases bear out that one missed a renewal: at least half of them have missed none. A stalled
/// API server stops them all. The Lease that missed a renewal is not among them.
pub(super) const fn bear_out(others: usize, fresh: usize) -> bool {
    others > 0 && fresh.saturating_mul(2) >= others
}
