//! The Leases that kubelets renew: which of them missed a renewal, and whether that means anything.
//!
//! Only this process's own clock measures time. A renewal time in a Lease is compared for equality, and never read as
//! a time. A Lease outlives its node, and then says nothing: one counts only if it was seen to change, or if its node
//! exists. Invariant: a missed renewal counts only if the other Leases bear it out, and not soon after a list.

use crate::model::{LeaseFacts, Moment, Observed};
use std::collections::{BTreeMap, BTreeSet};

/// A kubelet renews its Lease every quarter of the Lease's duration.
const RENEWALS: u64 = 4;

/// A renewal is missed when it is this late: kubelets add up to 4 %, lost packets are sent again after up to a second,
/// and the loop takes renewals in five times a second.
const LATE_MS: u64 = 2_000;

/// No renewal is missed sooner. However often a kubelet renews, a machine that stands still for a moment lives.
const LEAST_MS: u64 = 4_500;

/// A kubelet that was told to renew less often leaves the shorter duration in its Lease (kubernetes#102744). So the
/// median of this many gaps between renewals counts where it is clearly longer.
const GAPS: usize = 8;

/// A longer gap is no habit: Kubernetes calls such a node not Ready.
const LONGEST_GAP_MS: u64 = 60_000;

/// A median is clearly longer if it exceeds the expected gap by more than this part of it. The rest is chance, and
/// [`LATE_MS`] covers it.
const CLEARLY: u64 = 8;

#[derive(Debug, Clone)]
struct Lease {
    renewed_us: Option<i64>,
    /// When it was last seen to change, or was first seen.
    changed: Moment,
    /// It was seen to change.
    alive: bool,
    /// The time between two renewals, by the duration.
    expected_ms: u64,
    /// The last gaps between renewals that were seen, and 0 for each gap that was not.
    gaps_ms: [u64; GAPS],
    missed_ms: u64,
}

impl Lease {
    fn new(facts: &LeaseFacts, now: Moment) -> Self {
        let mut new = Self {
            renewed_us: None,
            changed: now,
            alive: false,
            expected_ms: 0,
            gaps_ms: [0; GAPS],
            missed_ms: 0,
        };
        new.take(facts);
        new
    }

    /// Takes in the facts, and says whether they show a renewal.
    fn take(&mut self, facts: &LeaseFacts) -> bool {
        self.expected_ms = facts.duration_ms / RENEWALS;
        let median_ms = self.median_ms();
        let is_longer = median_ms > self.expected_ms.saturating_add(self.expected_ms / CLEARLY);
        let gap_ms = if is_longer { median_ms } else { self.expected_ms };
        self.missed_ms = gap_ms.saturating_add(LATE_MS).max(LEAST_MS);
        std::mem::replace(&mut self.renewed_us, facts.renewed_us) != facts.renewed_us
    }

    /// Notes a gap between two renewals that were both seen.
    fn note(&mut self, gap_ms: u64) {
        if gap_ms > LONGEST_GAP_MS {
            return;
        }
        self.gaps_ms.rotate_right(1);
        if let Some(latest) = self.gaps_ms.first_mut() {
            *latest = gap_ms;
        }
    }

    /// The median of the known gaps. 0 if no gap is known.
    fn median_ms(&self) -> u64 {
        let mut known = self.gaps_ms;
        known.sort_unstable_by(|a, b| b.cmp(a));
        let count = known.iter().filter(|gap_ms| **gap_ms > 0).count();
        known.get(count / 2).copied().unwrap_or_default()
    }

    const fn missed_at(&self) -> Moment {
        self.changed.plus_millis(self.missed_ms)
    }
}

/// The Leases of all nodes.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// When the latest list came. Changes before it went unseen.
    listed: Option<Moment>,
    by_node: BTreeMap<String, Lease>,
    /// The nodes of the cluster, once they are known.
    nodes: Option<BTreeSet<String>>,
}

impl Leases {
    /// Takes in a step of the watch, and returns the nodes whose Lease was renewed.
    pub(super) fn observe(&mut self, observed: &Observed<LeaseFacts>, now: Moment) -> Vec<String> {
        match observed {
            Observed::Reset(list) => {
                self.listed = Some(now);
                let mut before = std::mem::take(&mut self.by_node);
                let mut renewed = Vec::new();
                for facts in list {
                    let mut lease = before.remove(&facts.name).unwrap_or_else(|| Lease::new(facts, now));
                    if lease.take(facts) {
                        (lease.changed, lease.alive) = (now, true);
                        renewed.push(facts.name.clone());
                    }
                    self.by_node.insert(facts.name.clone(), lease);
                }
                renewed
            }
            Observed::Apply(facts) => {
                let Some(lease) = self.by_node.get_mut(&facts.name) else {
                    let new = Lease { alive: true, ..Lease::new(facts, now) };
                    self.by_node.insert(facts.name.clone(), new);
                    return vec![facts.name.clone()];
                };
                let is_renewed = lease.renewed_us != facts.renewed_us;
                if is_renewed {
                    lease.note(now.millis_since(lease.changed));
                    (lease.changed, lease.alive) = (now, true);
                }
                lease.take(facts);
                is_renewed.then(|| facts.name.clone()).into_iter().collect()
            }
            Observed::Delete(facts) => {
                self.by_node.remove(&facts.name);
                Vec::new()
            }
        }
    }

    /// Whether a list has come.
    pub(super) const fn are_listed(&self) -> bool {
        self.listed.is_some()
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
        self.listed.is_none() || self.by_node.contains_key(node)
    }

    /// The renewal time in its Lease.
    pub(super) fn renewed_us(&self, node: &str) -> Option<i64> {
        self.by_node.get(node).and_then(|lease| lease.renewed_us)
    }

    /// The time since its Lease was last seen to change.
    pub(super) fn age_ms(&self, node: &str, now: Moment) -> Option<u64> {
        self.by_node.get(node).map(|lease| now.millis_since(lease.changed))
    }

    /// When the node has missed a renewal if none comes before, and the time that this takes.
    pub(super) fn missed_at(&self, node: &str) -> Option<(Moment, u64)> {
        let (lease, listed) = self.by_node.get(node).zip(self.listed)?;
        Some((lease.missed_at().max(listed.plus_millis(lease.missed_ms)), lease.missed_ms))
    }

    /// The number of Leases that count, and of those among them that have missed no renewal.
    pub(super) fn fresh(&self, now: Moment) -> (usize, usize) {
        let counting = || self.by_node.iter().filter(|(node, lease)| self.counts(node, lease));
        (counting().count(), counting().filter(|(_, lease)| lease.missed_at() > now).count())
    }

    /// Whether the other Leases bear out that a node missed a renewal. `count` and `fresh` are those of all.
    pub(super) fn others_bear_out(&self, node: &str, (count, fresh): (usize, usize)) -> bool {
        let counted = self.by_node.get(node).is_some_and(|lease| self.counts(node, lease));
        bear_out(count.saturating_sub(usize::from(counted)), fresh)
    }
}

/// Whether the other Leases bear out that one missed a renewal: at least half of them have missed none. A stalled
/// API server stops them all. The Lease that missed a renewal is not among them.
pub(super) const fn bear_out(others: usize, fresh: usize) -> bool {
    others > 0 && fresh.saturating_mul(2) >= others
}
