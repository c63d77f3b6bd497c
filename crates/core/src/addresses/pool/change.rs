//! One change of an address's place, kept for people who want to know later what happened.

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
    /// The node or machine that it was on. Empty if it was on none.
    pub from: String,
    /// The node or machine that it is on now. Empty if it is on none.
    pub to: String,
    /// Why.
    pub reason: String,
    /// The reason in one word, if the operator moved the address from one node to another.
    pub moved: Option<&'static str>,
    /// How long the move took, if the operator made it.
    pub phases: Option<Phases>,
    /// How long the move took from the old node's loss of its match, if that was the cause.
    pub failover: Option<Failover>,
}

/// The duration of each part of a move, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// From the change of nodes or pods to the request.
    pub decided_ms: u64,
    /// From the request to the provider's confirmation.
    pub confirmed_ms: u64,
    /// From the confirmation until the pool's records held the address.
    pub published_ms: Option<u64>,
}

/// When each phase of a failover ended, in milliseconds since the node lost its match at the end of its grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failover {
    /// When the node lost its match.
    pub lost: Moment,
    /// A plan found the loss.
    pub noticed_ms: u64,
    /// The request was sent.
    pub requested_ms: u64,
    /// The provider confirmed the move.
    pub confirmed_ms: u64,
}

/// A user asked for the move.
pub const MANUAL: &str = "Manual";

/// The address was on no matching node when this process began to lead.
pub const UNSEEN: &str = "Unseen";
