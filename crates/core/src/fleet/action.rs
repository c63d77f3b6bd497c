//! Requests from the core to the shell, and their answers.
//!
//! An action names every detail, so its execution decides nothing. Each action has exactly one [`Outcome`].

use crate::addresses::action as addresses;
use crate::addresses::pool::status::{PoolObject, PoolStatus};
use crate::firewalls::action as firewalls;
use crate::mechanism::{StatusWrite, WrittenStatus};
use crate::model::node_labels::{LabelChanges, NodeLabels};
use crate::model::{
    Address, Class, Criteria, LeaseFacts, Mismatch, Moment, NodeFacts, ObjectKind, ObjectRef, Observed,
    PodFacts, PodStore, Uid, WatchKey, WriteFailure, verdict,
};
use crate::records::action as records;
use crate::records::status::{RecordSetObject, RecordSetStatus};
use std::collections::BTreeSet;

/// Wraps what a layer asks for, or gets as an answer, in the type of the fleet.
macro_rules! of_layers {
    ($($outer:ident: $($variant:ident($inner:ty)),+;)+) => {$($(
        impl From<$inner> for $outer {
            fn from(inner: $inner) -> Self {
                Self::$variant(inner)
            }
        }
    )+)+};
}

of_layers! {
    Action: Addresses(addresses::Action), Records(records::Action), Firewalls(firewalls::Action);
    Outcome: Addresses(addresses::Outcome), Records(records::Outcome), Firewalls(firewalls::Outcome);
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Call a provider of addresses.
    Addresses(addresses::Action),
    /// Call a provider of DNS.
    Records(records::Action),
    /// Call a provider of firewalls.
    Firewalls(firewalls::Action),
    /// Replace the status of a pool.
    WriteStatus(Box<StatusWrite<PoolStatus>>),
    /// Add created addresses to `spec.ips`, and remove deleted ones.
    WriteIps {
        /// The pool.
        pool: ObjectRef,
        /// The addresses to add if they are missing, in order.
        add: Vec<Address>,
        /// The addresses to remove from the list.
        remove: BTreeSet<Address>,
    },
    /// Set or remove the finalizer of a pool.
    WriteFinalizer {
        /// The pool.
        pool: ObjectRef,
        /// Whether the object should have it.
        present: bool,
    },
    /// Replace the status of a record set.
    WriteRecordSetStatus(Box<StatusWrite<RecordSetStatus>>),
    /// Set or remove the annotation of a node.
    Annotate {
        /// Name of the node.
        node: String,
        /// Its uid, which the write must meet.
        uid: Uid,
        /// The value, `None` to remove it.
        value: Option<Address>,
    },
    /// Set or remove labels of a node.
    Label {
        /// Name of the node.
        node: String,
        /// Its uid, which the write must meet.
        uid: Uid,
        /// The labels to set and to remove.
        changes: LabelChanges,
    },
    /// Read the annotation and the labels of every node.
    SweepAnnotations,
    /// Count the nodes of the cluster.
    CountNodes,
    /// List every object of both kinds as it is now, which watches may not show yet.
    ListObjects {
        /// When it was asked for: the answer repeats it.
        asked: Moment,
        /// The addresses to find even where a list is longer than its bound.
        sought: BTreeSet<Address>,
    },
    /// Read one node, and its pods if they matter, by a consistent read. A watch cannot replace it.
    ReadNode {
        /// The object that asks.
        object: ObjectRef,
        /// Name of the node.
        node: String,
        /// When it was asked for: the answer repeats it.
        asked: Moment,
        /// The nodes of the object.
        nodes: WatchKey,
        /// The pods of the object, if they matter.
        pods: Option<WatchKey>,
        /// Whether its Lease is to be read too.
        lease: bool,
    },
}

impl Action {
    /// Whether it changes something outside of this process. It then needs the permit.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Addresses(request) => request.call.is_write(),
            Self::Records(request) => request.call.is_write(),
            Self::Firewalls(request) => request.call.is_write(),
            Self::WriteStatus(_)
            | Self::WriteRecordSetStatus(_)
            | Self::WriteIps { .. }
            | Self::WriteFinalizer { .. }
            | Self::Annotate { .. }
            | Self::Label { .. } => true,
            Self::SweepAnnotations | Self::CountNodes | Self::ListObjects { .. } | Self::ReadNode { .. } => {
                false
            }
        }
    }

    /// The object whose status it writes.
    pub fn status_of(&self) -> Option<(ObjectKind, Uid)> {
        match self {
            Self::WriteStatus(write) => Some((ObjectKind::Pool, write.object.uid.clone())),
            Self::WriteRecordSetStatus(write) => Some((ObjectKind::RecordSet, write.object.uid.clone())),
            Self::Addresses(_)
            | Self::Records(_)
            | Self::Firewalls(_)
            | Self::WriteIps { .. }
            | Self::WriteFinalizer { .. }
            | Self::Annotate { .. }
            | Self::Label { .. }
            | Self::SweepAnnotations
            | Self::CountNodes
            | Self::ListObjects { .. }
            | Self::ReadNode { .. } => None,
        }
    }
}

/// All nodes of the cluster, as the sweep finds them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sweep {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Those with the annotation or one of our labels.
    pub marked: Vec<MarkedNode>,
}

/// A node with the annotation or one of our labels, as the sweep finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedNode {
    /// Name of the node.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// The annotation, verbatim.
    pub value: Option<String>,
    /// It was last written by field manager `flipop`.
    pub ours: bool,
    /// The labels that have one of our keys.
    pub labels: NodeLabels,
}

/// The objects of both kinds, as consistent lists show them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Objects {
    /// The pools.
    pub pools: Vec<PoolObject>,
    /// The record sets.
    pub record_sets: Vec<RecordSetObject>,
}

/// One node, as a consistent read shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeReading {
    /// Name of the node.
    pub node: String,
    /// When it was asked for.
    pub asked: Moment,
    /// The watch of the nodes among which it was looked for.
    pub nodes: WatchKey,
    /// The watch of the pods, if they matter.
    pub pods: Option<WatchKey>,
    /// The node, if it exists and has the labels, and the pods on it.
    pub result: Result<(Option<NodeFacts>, Vec<PodFacts>), WriteFailure>,
    /// Its Lease, if that was to be read and exists.
    pub lease: Option<LeaseFacts>,
}

impl NodeReading {
    /// When the kubelet last reported that the node is Ready.
    pub(super) fn heartbeat_s(&self) -> Option<i64> {
        self.result.as_ref().ok()?.0.as_ref()?.heartbeat_s
    }

    /// Whether the node matches and, if not, when its failure began by the report of the node or its pods. `None` if
    /// the read failed. `is_same` tests whether it is the intended node.
    pub(super) fn verdict(
        &self,
        criteria: &Criteria,
        is_same: impl Fn(&NodeFacts) -> bool,
    ) -> Option<Result<(), (Mismatch, Option<i64>)>> {
        let (node, pods) = self.result.as_ref().ok()?;
        let Some(node) = node else { return Some(Err((Mismatch::Gone, None))) };
        if !is_same(node) {
            return Some(Err((Mismatch::Replaced, None)));
        }
        let mut store = PodStore::default();
        store.observe(Observed::Reset(pods.clone()));
        let since_s = |why: &Mismatch| match why.class() {
            Class::Pod => pods.iter().filter_map(|pod| pod.fails_since_s).max(),
            Class::Node | Class::Hard => node.fails_since_s(),
        };
        Some(verdict(criteria, node, Some(&store)).map_err(|why| (why.clone(), since_s(&why))))
    }
}

/// The answer to an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// About addresses.
    Addresses(addresses::Outcome),
    /// About records.
    Records(records::Outcome),
    /// About firewalls.
    Firewalls(firewalls::Outcome),
    /// To [`Action::WriteStatus`]: the pool, and the status that the server kept.
    StatusWritten(Uid, Result<Box<WrittenStatus<PoolStatus>>, WriteFailure>),
    /// To [`Action::WriteIps`].
    IpsWritten {
        /// The pool.
        pool: Uid,
        /// The addresses to add.
        add: Vec<Address>,
        /// The addresses to remove.
        remove: BTreeSet<Address>,
        /// Whether the write succeeded.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::WriteFinalizer`].
    FinalizerWritten {
        /// The pool.
        pool: Uid,
        /// Whether the object was to have it.
        present: bool,
        /// Whether the write succeeded.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::WriteRecordSetStatus`]: the record set, and the status that the server kept.
    RecordSetStatusWritten(Uid, Result<Box<WrittenStatus<RecordSetStatus>>, WriteFailure>),
    /// To [`Action::Annotate`].
    Annotated {
        /// The node.
        node: String,
        /// Its uid.
        uid: Uid,
        /// The content of the write.
        value: Option<Address>,
        /// Whether the write succeeded.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::Label`].
    Labelled {
        /// The node.
        node: String,
        /// Its uid.
        uid: Uid,
        /// The content of the write.
        changes: LabelChanges,
        /// Whether the write succeeded.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::SweepAnnotations`].
    Swept(Result<Sweep, WriteFailure>),
    /// To [`Action::ListObjects`]: when it was asked for, and the objects.
    ObjectsListed(Moment, Result<Box<Objects>, WriteFailure>),
    /// To [`Action::CountNodes`].
    NodesCounted(Result<u64, WriteFailure>),
    /// To [`Action::ReadNode`]: the object that asked, and the result of the read.
    NodeRead(Uid, Box<NodeReading>),
}

impl Outcome {
    /// Why the API server refused the request until somebody mends it. It is logged, since the status that would tell
    /// may be what is refused.
    pub fn refusal(&self) -> Option<&str> {
        let failure = match self {
            Self::Annotated { result, .. }
            | Self::Labelled { result, .. }
            | Self::FinalizerWritten { result, .. }
            | Self::IpsWritten { result, .. } => result.as_ref().err(),
            Self::StatusWritten(_, result) => result.as_ref().err(),
            Self::RecordSetStatusWritten(_, result) => result.as_ref().err(),
            Self::Swept(result) => result.as_ref().err(),
            Self::NodesCounted(result) => result.as_ref().err(),
            Self::ObjectsListed(_, result) => result.as_ref().err(),
            Self::NodeRead(_, read) => read.result.as_ref().err(),
            Self::Addresses(_) | Self::Records(_) | Self::Firewalls(_) => None,
        };
        failure?.refusal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_refused_if_it_fails_until_somebody_acts() {
        let refused = |failure| {
            let outcome = Outcome::StatusWritten(Uid("uid".into()), Err(failure));
            outcome.refusal().map(str::to_owned)
        };
        let why = || "a policy says no".to_owned();
        assert_eq!(refused(WriteFailure::Invalid(why())), Some(why()));
        assert_eq!(refused(WriteFailure::Forbidden(why())), Some(why()));
        assert_eq!(refused(WriteFailure::Transient(why())), None);
        assert_eq!(refused(WriteFailure::Conflict), None);
    }
}
