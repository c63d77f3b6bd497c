//! The Leases that kubelets renew: which of them missed a renewal, and whether that means anything.
//!
//! Only this process's own clock measures time. A renewal time in a Lease is compared for equality, and never read as
//! a time. Invariant: a missed renewal counts only if the other Leases bear it out, and not soon after a list.

use crate::model::facts::Observed;
use crate::model::moment::Moment;
use crate::model::node_check::LeaseFacts;
use std::collections::BTreeMap;

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
    missed_ms: u64,
}

impl Lease {
    fn seen(facts: &LeaseFacts, changed: Moment) -> Self {
        let missed_ms = facts.duration_ms.saturating_mul(MISSED_PERCENT) / 100;
        Self { renewed_us: facts.renewed_us, changed, missed_ms }
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
                    let changed = known.filter(|_| !is_renewed).map_or(now, |known| known.changed);
                    self.by_node.insert(facts.name.clone(), Lease::seen(facts, changed));
                    renewed.extend(is_renewed.then(|| facts.name.clone()));
                }
                renewed
            }
            Observed::Apply(facts) => {
                let known = self.by_node.get(&facts.name);
                let is_renewed = known.is_none_or(|known| known.renewed_us != facts.renewed_us);
                let changed = known.filter(|_| !is_renewed).map_or(now, |known| known.changed);
                self.by_node.insert(facts.name.clone(), Lease::seen(facts, changed));
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
        *self = Self::default();
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

    /// The number of all Leases, and of those that have missed no renewal.
    pub(super) fn fresh(&self, now: Moment) -> (usize, usize) {
        let fresh = self.by_node.values().filter(|lease| lease.missed_at() > now).count();
        (self.by_node.len(), fresh)
    }
}

/// Whether the other Leases bear out that one missed a renewal: at least half of them have missed none. A stalled
/// API server stops them all. `count` and `fresh` include the Lease that missed a renewal.
pub(super) const fn bear_out((count, fresh): (usize, usize)) -> bool {
    let others = count.saturating_sub(1);
    others > 0 && fresh.saturating_mul(2) >= others
}
