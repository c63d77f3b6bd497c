//! The findings of a plan about addresses and candidates, and the reasons for which candidates wait.

use super::placement::Placement;
use crate::addresses::account::op::MAX_OPS;
use crate::model::catalog::pool::NodesBlocked;
use crate::model::{Address, Moment, ObjectName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The message about a node that waits for a free address.
pub const NO_FREE_IP: &str = "no address of the pool is free";

/// The reason why a candidate without an address waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Every address is in use, or waits itself.
    NoFreeIp,
    /// The cool-off of the pool.
    CoolOff,
    /// An operation on its machine.
    InFlight(Address),
    /// Its last assignment failed, and is retried at this moment.
    RetryAt(Moment, String),
    /// Its last assignment has to wait for the provider. This is not an error.
    Pending(Moment, String),
    /// Another pool claims it, and serves it.
    Claimed(ObjectName),
    /// It has an address of another pool. It is not a candidate there, or the address is surplus there.
    ClaimedBy(ObjectName, Address),
    /// It has an address of no pool.
    Foreign(Address),
    /// The free addresses are in a different region from the node.
    OtherRegion(String),
    /// Its `spec.providerID` names no machine.
    NotAMachine(String),
    /// This older node is on its machine, and counts in its place.
    SharedMachine(Arc<str>),
    /// Nothing may begin for the pool. Holds the reason in words.
    Paused(String),
    /// The pool was paused, and its account is read again first.
    Rereading,
    /// The budget of the token.
    Budget,
    /// The bound on operations under way.
    Full,
    /// The ports of the pool are being opened on it. Its assignment waits until this moment at most.
    Firewall(Moment),
    /// FLIPOP may not write now: it may have lost the lease, or the token is refused.
    Unsure,
    /// The token lacks the right. These are the provider's words.
    Refused(String),
}

impl Wait {
    /// True for entries of `nodeErrors`. All others wait in `assignableNodes`.
    pub fn is_error(&self) -> bool {
        self.blocked().is_some()
    }

    /// Its reason in `NodesBlocked`, if it is an entry of `nodeErrors`.
    pub fn blocked(&self) -> Option<NodesBlocked> {
        match self {
            Self::RetryAt(..) => Some(NodesBlocked::AssignmentFailed),
            Self::ClaimedBy(..) => Some(NodesBlocked::MachineClaimed),
            Self::Foreign(_) => Some(NodesBlocked::ForeignAddress),
            Self::OtherRegion(_) => Some(NodesBlocked::OtherRegion),
            Self::NotAMachine(_) => Some(NodesBlocked::NotAMachine),
            Self::SharedMachine(_) => Some(NodesBlocked::SharedMachine),
            Self::NoFreeIp
            | Self::CoolOff
            | Self::InFlight(_)
            | Self::Pending(..)
            | Self::Claimed(_)
            | Self::Paused(_)
            | Self::Rereading
            | Self::Budget
            | Self::Full
            | Self::Firewall(_)
            | Self::Unsure
            | Self::Refused(_) => None,
        }
    }

    /// True where the node gets an address as soon as that is over; an operation on its machine is for one already.
    pub fn takes(&self) -> bool {
        matches!(
            self,
            Self::CoolOff
                | Self::RetryAt(..)
                | Self::Pending(..)
                | Self::Paused(_)
                | Self::Rereading
                | Self::Budget
                | Self::Full
                | Self::Firewall(_)
                | Self::Unsure
                | Self::Refused(_)
        )
    }

    /// When the assignment is tried again.
    pub const fn retry_at(&self) -> Option<Moment> {
        if let Self::RetryAt(at, _) | Self::Pending(at, _) = self { Some(*at) } else { None }
    }

    /// The message for users. `noun` is the word for a machine.
    pub fn text(&self, noun: &str) -> String {
        match self {
            Self::NoFreeIp => NO_FREE_IP.to_owned(),
            Self::CoolOff => "assignmentCoolOffSeconds has not passed since the last assignment".to_owned(),
            Self::InFlight(ip) => format!("an operation on {ip} is under way"),
            Self::RetryAt(_, message) => {
                format!("the last assignment failed, and FLIPOP retries it: {message}")
            }
            Self::Pending(_, message) => format!("the provider is still busy with it: {message}"),
            Self::Claimed(pool) => format!("claimed by {pool}"),
            Self::ClaimedBy(pool, ip) => format!(
                "the {noun} has {ip} of pool {pool}, which does not use it there: the node does not match that pool, \
                 or {ip} is surplus; take {ip} off the {noun} or out of that pool"
            ),
            Self::Foreign(ip) => format!(
                "the {noun} already has {ip}, which no pool names; add {ip} to spec.ips to use it, or unassign it"
            ),
            Self::OtherRegion(region) => {
                format!(
                    "no free address is in {region}, the region of the node; add addresses of that region"
                )
            }
            Self::NotAMachine(message) => message.clone(),
            Self::SharedMachine(elder) => format!(
                "the older node {elder} has the same spec.providerID and is Ready, so it counts in its place; delete the \
                 Node that is not on this {noun}"
            ),
            Self::Paused(why) => format!("the pool is {why}"),
            Self::Rereading => "the pool was paused, and FLIPOP reads the account before it acts".to_owned(),
            Self::Budget => "the provider's rate limit leaves no request for it yet".to_owned(),
            Self::Full => {
                format!(
                    "{MAX_OPS} operations are under way in the account, and FLIPOP runs no more at a time: wait for \
                     one to end"
                )
            }
            Self::Firewall(_) => "the ports of the pool are being opened on it".to_owned(),
            Self::Unsure => {
                "FLIPOP may not write now: it may have lost the lease, or the token is refused".to_owned()
            }
            Self::Refused(message) => {
                format!("the provider refuses it, and FLIPOP retries once a minute: {message}")
            }
        }
    }
}

/// The findings of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Addresses that an older pool also names.
    pub claimed: BTreeMap<Address, ObjectName>,
    /// Addresses on candidates, each with the node's name.
    pub active: BTreeMap<Address, String>,
    /// Where each address is, including unknown places.
    pub placements: BTreeMap<Address, Box<Placement>>,
}
