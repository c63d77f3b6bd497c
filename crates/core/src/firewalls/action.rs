//! The calls about firewalls that the core asks for, and their answers.

use super::facts::{Firewall, Rule, Sight, lacking};
use crate::mechanism::{Answer, Request};
use crate::model::{CallFailure, MachineId};
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

/// A call with its account and the pool that owns the firewall.
pub type Action = Request<Call>;

/// The answer to an [`Action`].
pub type Outcome = Answer<Reply>;

/// A call about firewalls.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Read every firewall of the account.
    Look {
        /// Whether to read the machines and their tags as well.
        machines: bool,
    },
    /// Find out whether the firewall with this id exists, which is missing from a list.
    Find(String),
    /// Make a firewall.
    Create {
        /// Its name, under which the status on the server remembers it.
        name: String,
        /// The rules of the firewall.
        rules: BTreeSet<Rule>,
        /// Its first machines.
        machines: BTreeSet<MachineId>,
    },
    /// Change a firewall.
    Change {
        /// Its name.
        name: String,
        /// Its id.
        id: String,
        /// The change.
        change: Change,
    },
}

/// The reply to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Call::Look`]: the firewalls, and the machines if asked for.
    Looked(Result<Sight, CallFailure>),
    /// To [`Call::Find`]: whether the firewall with this id exists.
    Found(String, Result<bool, CallFailure>),
    /// To [`Call::Create`]: the name of the firewall, and its id.
    Created(String, Result<String, CallFailure>),
    /// To [`Call::Change`].
    Changed {
        /// The name of the firewall.
        name: String,
        /// Whether the change was a deletion.
        deleted: bool,
        /// Whether the change was accepted.
        result: Result<(), CallFailure>,
    },
}

impl Call {
    /// Whether the call changes something.
    pub const fn is_write(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Change { .. } => true,
            Self::Look { .. } | Self::Find(_) => false,
        }
    }
}

impl Reply {
    /// The failure of the call, if it failed.
    pub fn failure(&mut self) -> Option<&mut CallFailure> {
        match self {
            Self::Looked(result) => result.as_mut().err(),
            Self::Found(_, result) => result.as_mut().err(),
            Self::Created(_, result) => result.as_mut().err(),
            Self::Changed { result, .. } => result.as_mut().err(),
        }
    }
}
