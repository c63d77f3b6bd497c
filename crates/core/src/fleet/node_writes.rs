//! Writes of one kind to nodes: those that wait, those under way, and those that failed.
//!
//! Invariant: each node has at most one write under way, and all nodes together have only a few. The caller decides
//! the content.

use crate::mechanism::{Call, Effects};
use crate::model::{Context, Moment, Uid, WriteFailure};
use std::collections::{BTreeMap, BTreeSet};

/// The most writes under way at a time. Each has a connection of its own. A start with hundreds of nodes must leave
/// room for the API server and for our own status writes.
pub(super) const MAX_IN_FLIGHT: usize = 8;

/// The writes to nodes of one kind, each of which sets a value.
#[derive(Debug, Default)]
pub(super) struct NodeWrites<V> {
    in_flight: BTreeSet<Uid>,
    /// The writes that failed and are tried again.
    failures: BTreeMap<Uid, Call>,
    /// Nodes that the next plan looks at, or every node (`None`). All others are as they should be.
    due: Option<BTreeSet<Uid>>,
    /// Writes that wait for room or for their next try: the node's name and the value. Removals come last.
    waiting: BTreeMap<(bool, Uid), (String, V)>,
}

impl<V: Clone> NodeWrites<V> {
    /// Has the next plan look at these nodes, or at every node (`None`).
    pub(super) fn look_at(&mut self, nodes: Option<BTreeSet<Uid>>) {
        self.due = self.due.take().zip(nodes).map(|(due, nodes)| due.into_iter().chain(nodes).collect());
    }

    /// Has the next plan look at this node.
    pub(super) fn look_at_one(&mut self, uid: &Uid) {
        if let Some(due) = &mut self.due {
            due.insert(uid.clone());
        }
    }

    /// The nodes that this plan looks at. `all` are all nodes. Their earlier writes wait no longer.
    pub(super) fn take_due(&mut self, all: impl FnOnce() -> BTreeSet<Uid>) -> BTreeSet<Uid> {
        let Some(due) = self.due.replace(BTreeSet::new()) else {
            self.waiting.clear();
            return all();
        };
        for key in due.iter().flat_map(|uid| [(false, uid.clone()), (true, uid.clone())]) {
            self.waiting.remove(&key);
        }
        due
    }

    /// Notes a write to a node that is due.
    pub(super) fn wait(&mut self, uid: Uid, removal: bool, (node, value): (String, V)) {
        self.waiting.insert((removal, uid), (node, value));
    }

    /// Begins writes that wait, as far as there is room. The answer to each has the next plan look at its node.
    pub(super) fn begin_waiting<A>(
        &mut self,
        now: Moment,
        out: &mut Effects<A>,
        action: impl Fn(String, Uid, V) -> A,
    ) {
        let mut begun = Vec::new();
        for (key @ (_, uid), (node, value)) in &self.waiting {
            if self.in_flight.len() >= MAX_IN_FLIGHT {
                break;
            }
            match self.failures.get(uid).map_or(Ok(()), |call| call.ready(now)) {
                Err(at) => out.later(at),
                Ok(()) if self.in_flight.insert(uid.clone()) => {
                    out.act(action(node.clone(), uid.clone(), value.clone()));
                    begun.push(key.clone());
                }
                Ok(()) => {}
            }
        }
        for key in begun {
            self.waiting.remove(&key);
        }
    }

    /// Whether a write to this node is under way.
    pub(super) fn is_under_way(&self, uid: &Uid) -> bool {
        self.in_flight.contains(uid)
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

    /// Notes that the write to this node was answered.
    pub(super) fn end(&mut self, uid: &Uid) {
        self.in_flight.remove(uid);
        self.look_at_one(uid);
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
