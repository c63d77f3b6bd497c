//! The calls about firewalls that the core asks for, and their answers.

use super::facts::{Firewall, Rule, Sight, lacking};
use crate::mechanism::epoch::Epoch;
use crate::model::fault::CallFailure;
use crate::model::ids::ObjectRef;
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::BTreeSet;

/// A change of one of our firewalls. Each may be repeated, since a repetition has no further effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Permit more traffic.
    AddRules(Vec<Rule>),
    /// Add machines.
    AddMembers(Vec<MachineId>),
    /// Permit less traffic.
    RemoveRules(Vec<Rule>),
    /// Stop governing the machines with these tags.
    RemoveTags(Vec<String>),
    /// Remove machines.
    RemoveMembers(Vec<MachineId>),
    /// Delete it.
    Delete,
}

impl Change {
    /// Whether a list shows the effect of the change.
    pub fn is_shown_by(&self, found: &Firewall) -> bool {
        match self {
            Self::AddRules(rules) => lacking(&rules.iter().cloned().collect(), &found.rules).is_empty(),
            Self::RemoveRules(rules) => !rules.iter().any(|rule| found.rules.contains(rule)),
            Self::AddMembers(machines) => machines.iter().all(|machine| found.machines.contains(machine)),
            Self::RemoveMembers(machines) => !machines.iter().any(|machine| found.machines.contains(machine)),
            Self::RemoveTags(tags) => !tags.iter().any(|tag| found.tags.contains(tag)),
            Self::Delete => false,
        }
    }
}

/// A call about firewalls.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read every firewall of an account.
    Look {
        /// The account and its epoch.
        epoch: Epoch,
        /// Whether to read the machines and their tags as well.
        machines: bool,
    },
    /// Find out whether a firewall exists that is missing from a list.
    Find {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its id.
        id: String,
    },
    /// Make a firewall.
    Create {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its name, under which the status on the server remembers it.
        name: String,
        /// The rules of the firewall.
        rules: BTreeSet<Rule>,
        /// Its first machines.
        machines: BTreeSet<MachineId>,
    },
    /// Change a firewall.
    Change {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that owns it.
        pool: ObjectRef,
        /// Its name.
        name: String,
        /// Its id.
        id: String,
        /// The change.
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
        /// The firewalls, and the machines if asked for.
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
        /// Whether the change was a deletion.
        deleted: bool,
        /// Whether the change was accepted.
        result: Result<(), CallFailure>,
    },
}

impl Action {
    /// Whether the call changes something.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Change { .. } => true,
            Self::Look { .. } | Self::Find { .. } => false,
        }
    }
}

impl Outcome {
    /// The epoch of the call, and its failure, if it failed.
    pub fn epoch_and_failure(&mut self) -> (&Epoch, Option<&mut CallFailure>) {
        match self {
            Self::Looked { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Found { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Created { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Changed { epoch, result, .. } => (epoch, result.as_mut().err()),
        }
    }
}
