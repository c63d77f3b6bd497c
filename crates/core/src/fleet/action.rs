//! What one operator asks the shell to do, and what the shell tells back.
//!
//! An action names every detail, so that whoever executes it decides nothing. Each is answered by exactly one
//! [`Outcome`].

use crate::addresses::action as addresses;
use crate::addresses::pool::status::PoolStatus;
use crate::mechanism::effects::WrittenStatus;
use crate::model::fault::WriteFailure;
use crate::model::ids::{Address, ObjectRef, Uid};
use crate::records::action as records;
use crate::records::status::RecordSetStatus;

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Call a provider of addresses.
    Addresses(addresses::Action),
    /// Call a provider of DNS.
    Records(records::Action),
    /// Replace the status of a pool.
    WriteStatus {
        /// The pool.
        pool: ObjectRef,
        /// The version that the write replaces.
        resource_version: String,
        /// `metadata.generation` that the status describes.
        generation: i64,
        /// The whole status.
        status: Box<PoolStatus>,
    },
    /// Add created addresses to `spec.ips`.
    WriteIps {
        /// The pool.
        pool: ObjectRef,
        /// What to add where it is missing, in order.
        add: Vec<Address>,
    },
    /// Replace the status of a record set.
    WriteRecordSetStatus {
        /// The record set.
        record_set: ObjectRef,
        /// The version that the write replaces.
        resource_version: String,
        /// `metadata.generation` that the status describes.
        generation: i64,
        /// The whole status.
        status: Box<RecordSetStatus>,
    },
    /// Set or remove the annotation of a node.
    Annotate {
        /// Name of the node.
        node: String,
        /// Its uid, which the write must meet.
        uid: Uid,
        /// The value, `None` to remove it.
        value: Option<Address>,
    },
    /// Read the annotation of every node.
    SweepAnnotations,
    /// Find out how many nodes the cluster has.
    CountNodes,
}

impl Action {
    /// It changes something outside, and needs the permit for that.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            Self::Addresses(call) => match call {
                addresses::Action::Assign { .. }
                | addresses::Action::Unassign { .. }
                | addresses::Action::Create { .. } => true,
                addresses::Action::List { .. }
                | addresses::Action::Get { .. }
                | addresses::Action::ProveMachineRead { .. }
                | addresses::Action::Poll { .. } => false,
            },
            Self::Records(call) => match call {
                records::Action::ApplyRecords { .. } => true,
                records::Action::FindZone { .. } | records::Action::ReadRecords { .. } => false,
            },
            Self::WriteStatus { .. }
            | Self::WriteRecordSetStatus { .. }
            | Self::WriteIps { .. }
            | Self::Annotate { .. } => true,
            Self::SweepAnnotations | Self::CountNodes => false,
        }
    }
}

impl From<addresses::Action> for Action {
    fn from(action: addresses::Action) -> Self {
        Self::Addresses(action)
    }
}

impl From<records::Action> for Action {
    fn from(action: records::Action) -> Self {
        Self::Records(action)
    }
}

/// An annotated node, as the sweep finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatedNode {
    /// Name of the node.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// The annotation, verbatim.
    pub value: String,
    /// It was last written by field manager `flipop`.
    pub ours: bool,
}

/// The answer to an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// About addresses.
    Addresses(addresses::Outcome),
    /// About records.
    Records(records::Outcome),
    /// To [`Action::WriteStatus`].
    StatusWritten {
        /// The pool.
        pool: Uid,
        /// What the server kept.
        result: Result<Box<WrittenStatus<PoolStatus>>, WriteFailure>,
    },
    /// To [`Action::WriteIps`].
    IpsWritten {
        /// The pool.
        pool: Uid,
        /// What was to be added.
        add: Vec<Address>,
        /// Whether it stands there now.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::WriteRecordSetStatus`].
    RecordSetStatusWritten {
        /// The record set.
        record_set: Uid,
        /// What the server kept.
        result: Result<Box<WrittenStatus<RecordSetStatus>>, WriteFailure>,
    },
    /// To [`Action::Annotate`].
    Annotated {
        /// The node.
        node: String,
        /// Its uid.
        uid: Uid,
        /// What was to be written.
        value: Option<Address>,
        /// Whether it stands there now.
        result: Result<(), WriteFailure>,
    },
    /// To [`Action::SweepAnnotations`].
    Swept(Result<Vec<AnnotatedNode>, WriteFailure>),
    /// To [`Action::CountNodes`].
    NodesCounted(Result<u64, WriteFailure>),
}

impl From<addresses::Outcome> for Outcome {
    fn from(outcome: addresses::Outcome) -> Self {
        Self::Addresses(outcome)
    }
}

impl From<records::Outcome> for Outcome {
    fn from(outcome: records::Outcome) -> Self {
        Self::Records(outcome)
    }
}
