//! Writes of one kind to nodes: those under way, and those that failed.
//!
//! Invariant: each node has at most one write under way, and all nodes together have only a few. The caller decides
//! the content.

use crate::mechanism::effects::Effects;
use crate::mechanism::writes::Call;
use crate::model::fault::WriteFailure;
use crate::model::ids::Uid;
use crate::model::moment::{Context, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// The most writes under way at a time. Each has a connection of its own. A start with hundreds of nodes must leave
/// room for the API server and for our own status writes.
pub(super) const MAX_IN_FLIGHT: usize = 8;

/// The writes to nodes of one kind.
#[derive(Debug, Default)]
pub(super) struct NodeWrites {
    in_flight: BTreeSet<Uid>,
    /// The writes that failed and are tried again.
    failures: BTreeMap<Uid, Call>,
}

impl NodeWrites {
    /// Whether a write to this node is under way.
    pub(super) fn is_under_way(&self, uid: &Uid) -> bool {
        self.in_flight.contains(uid)
    }

    /// Whether no further write may begin. The answer to any of those under way is followed by another plan.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() >= MAX_IN_FLIGHT
    }

    /// Whether the last write to this node failed.
    pub(super) fn has_failed(&self, uid: &Uid) -> bool {
        self.failures.contains_key(uid)
    }

    /// Why a wanted write to a node is refused, if one is.
    pub(super) fn denied(&self) -> Option<&str> {
        self.failures.values().find_map(|call| call.refusal.as_deref())
    }

    /// Keeps only the failures of these nodes, because the others have no wanted writes.
    pub(super) fn keep_failures(&mut self, wanted: impl Fn(&Uid) -> bool) {
        self.failures.retain(|uid, _| wanted(uid));
    }

    /// Whether a write to this node may begin now. If so, it counts as begun.
    pub(super) fn begin<A>(&mut self, uid: &Uid, now: Moment, out: &mut Effects<A>) -> bool {
        if self.in_flight.contains(uid) {
            return false;
        }
        if let Some(Err(at)) = self.failures.get(uid).map(|call| call.ready(now)) {
            out.later(at);
            return false;
        }
        !self.is_full() && self.in_flight.insert(uid.clone())
    }

    /// Notes that the write to this node was answered.
    pub(super) fn end(&mut self, uid: &Uid) {
        self.in_flight.remove(uid);
    }

    /// Notes that the write to this node succeeded, or that nothing is left to write.
    pub(super) fn succeeded(&mut self, uid: &Uid) {
        self.failures.remove(uid);
    }

    /// Notes that the write to this node failed.
    pub(super) fn failed(&mut self, uid: Uid, failure: &WriteFailure, at: Context) {
        self.failures.entry(uid).or_default().answered(Some(failure), at);
    }
}
