//! The firewalls that a pool wants now.

use super::facts::Rule;
use crate::model::ids::ObjectRef;
use crate::model::machine::MachineId;
use std::collections::{BTreeMap, BTreeSet};

/// The changes that FLIPOP may make for a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Only protect machines from isolation, because the pool is paused, frozen or not known well enough.
    Guard,
    /// All changes.
    Act,
}

/// The wish of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The pool.
    pub pool: ObjectRef,
    /// The rules. `None` for no firewall.
    pub rules: Option<BTreeSet<Rule>>,
    /// The machines, with the names of their nodes.
    pub machines: BTreeMap<MachineId, String>,
    /// The changes that FLIPOP may make.
    pub leave: Leave,
    /// An address is being moved. Nothing is removed meanwhile.
    pub moving: bool,
}

impl Wish {
    /// Whether this machine is to be in a firewall.
    pub fn wants(&self, machine: &MachineId) -> bool {
        self.rules.is_some() && self.machines.contains_key(machine)
    }
}
