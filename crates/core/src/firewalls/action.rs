//! The calls about firewalls that decisions ask for, and their answers.

use super::facts::{Rule, Sight};
use crate::mechanism::epoch::Epoch;
use crate::model::fault::CallFailure;
use crate::model::ids::ObjectRef;
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::BTreeSet;

/// A change of one of our firewalls. Each may be repeated: what is there already, or gone already, stays so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Let more in.
    AddRules(Vec<Rule>),
    /// Put machines in.
    AddMembers(Vec<MachineId>),
    /// Let less in.
    RemoveRules(Vec<Rule>),
    /// Stop to govern the machines of these tags.
    RemoveTags(Vec<String>),
    /// Take machines out.
    RemoveMembers(Vec<MachineId>),
    /// Delete it.
    Delete,
}

/// A call about firewalls.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read every firewall of an account.
    Look {
        /// The account and its epoch.
        epoch: Epoch,
        /// The machines and their tags as well.
        machines: bool,
    },
    /// Find out whether a firewall exists that a list leaves out.
    Find {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its id.
        id: String,
    },
    /// Make one.
    Create {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its name, under which the status on the server remembers it.
        name: String,
        /// What it permits.
        rules: BTreeSet<Rule>,
        /// Its first machines.
        machines: BTreeSet<MachineId>,
    },
    /// Change one.
    Change {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its name.
        name: String,
        /// Its id.
        id: String,
        /// What to change.
        change: Change,
    },
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// To [`Action::Look`].
    Looked {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the first request was sent.
        begun: Moment,
        /// What was seen.
        result: Result<Sight, CallFailure>,
    },
    /// To [`Action::Find`].
    Found {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its id.
        id: String,
        /// Whether it exists.
        result: Result<bool, CallFailure>,
    },
    /// To [`Action::Create`].
    Created {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its name.
        name: String,
        /// Its id.
        result: Result<String, CallFailure>,
    },
    /// To [`Action::Change`].
    Changed {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its name.
        name: String,
        /// It was deleted.
        deleted: bool,
        /// Whether the change was accepted.
        result: Result<(), CallFailure>,
    },
}

impl Action {
    /// It changes something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Change { .. } => true,
            Self::Look { .. } | Self::Find { .. } => false,
        }
    }
}

impl Outcome {
    /// When it was asked, and why that failed, if it did.
    pub fn epoch_and_failure(&mut self) -> (&Epoch, Option<&mut CallFailure>) {
        match self {
            Self::Looked { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Found { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Created { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Changed { epoch, result, .. } => (epoch, result.as_mut().err()),
        }
    }
}
