//! One change of where an address stands, for people who ask afterwards what happened.

use crate::model::ids::{Address, ObjectName};
use crate::model::moment::Moment;

/// One address that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it was confirmed, or noticed.
    pub at: Moment,
    /// The pool.
    pub object: ObjectName,
    /// The address.
    pub ip: Address,
    /// The node or machine that it left; empty where it stood on none.
    pub from: String,
    /// The node or machine that it went to; empty where it was taken off.
    pub to: String,
    /// Why.
    pub reason: String,
    /// How long it took, where the operator moved it.
    pub phases: Option<Phases>,
}

/// How long the parts of a move took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// From the change of nodes or pods to the request.
    pub decided_ms: u64,
    /// From the request to the provider's confirmation.
    pub confirmed_ms: u64,
}
