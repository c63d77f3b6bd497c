//! Writes of one kind to nodes: those under way, and those that failed.
//!
//! Invariant: each node has at most one write under way, and all nodes together have only a few. The caller decides
//! the content.

use crate::mechanism::effects::Effects;
use crate::mechanism::retry::{Pace, Retry};
use crate::model::fault::WriteFailure;
use crate::model::ids::Uid;
use crate::model::moment::{Context, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// The most writes under way at a time. Each has a connection of its own. A start with hundreds of nodes must leave
/// room for the API server and for our own status writes.
pub(super) const MAX_IN_FLIGHT: usize = 8;

/// A write that failed and is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failing {
    retry: Retry,
    /// Why it was refused, if it was.
    refusal: Option<String>,
}

/// The writes to nodes of one kind.
#[derive(Debug, Default)]
pub(super) struct NodeWrites {
    in_flight: BTreeSet<Uid>,
    failures: BTreeMap<Uid, Failing>,
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
        self.failures.values().find_map(|failing| failing.refusal.as_deref())
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
        if let Some(failing) = self.failures.get(uid).filter(|failing| failing.retry.due() > now) {
            out.later(failing.retry.due());
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
        let mut retry = self.failures.get(&uid).map(|failing| failing.retry).unwrap_or_default();
        retry.failed(Pace::of_write(failure), at);
        let refusal = match failure {
            WriteFailure::Forbidden(message) | WriteFailure::Invalid(message) => Some(message.clone()),
            WriteFailure::NotSent
            | WriteFailure::Conflict
            | WriteFailure::Gone
            | WriteFailure::Transient(_)
            | WriteFailure::Throttled { .. } => {
                // The earlier refusal is still the best explanation.
                self.failures.get(&uid).and_then(|failing| failing.refusal.clone())
            }
        };
        self.failures.insert(uid, Failing { retry, refusal });
    }
}
