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
    /// The word for that, where the operator took the address from one node to another.
    pub moved: Option<&'static str>,
    /// How long it took, where the operator moved it.
    pub phases: Option<Phases>,
    /// How long it took since the node that it left lost its match, where that is why.
    pub failover: Option<Failover>,
}

/// How long the parts of a move took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// From the change of nodes or pods to the request.
    pub decided_ms: u64,
    /// From the request to the provider's confirmation.
    pub confirmed_ms: u64,
    /// From the confirmation until the records of the pool held the address.
    pub published_ms: Option<u64>,
}

/// When the phases of a failover ended, in milliseconds since the node lost its match, its grace over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failover {
    /// When the node lost its match.
    pub lost: Moment,
    /// A plan had found it.
    pub noticed_ms: u64,
    /// The request was sent.
    pub requested_ms: u64,
    /// The provider had confirmed it.
    pub confirmed_ms: u64,
}

/// A user asked for the move.
pub const MANUAL: &str = "Manual";

/// The address stood on no matching node when this process began to lead.
pub const UNSEEN: &str = "Unseen";
