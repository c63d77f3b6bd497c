//! Why things are as they are: for each address and each candidate without one, what it waits for.

use super::placement::Placement;
use crate::model::catalog::pool::NodesBlocked;
use crate::model::ids::{Address, ObjectName};
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// What a candidate without an address waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Every address is in use, or waits itself.
    NoFreeIp,
    /// The cool-off of the pool.
    CoolOff,
    /// An operation on its machine.
    InFlight(Address),
    /// Its last assignment failed; it is tried again.
    RetryAt(Moment, String),
    /// Its last assignment has to wait for the provider; no error.
    Pending(Moment, String),
    /// Another pool claims it, which also serves it.
    Claimed(ObjectName),
    /// An address of another pool stands on it, of which it is no candidate or where the address is surplus.
    ClaimedBy(ObjectName, Address),
    /// An address that no pool holds stands on it.
    Foreign(Address),
    /// The free addresses are in another region than the node.
    OtherRegion(String),
    /// Its `spec.providerID` names no machine.
    NotAMachine(String),
    /// Nothing may begin for the pool, in these words.
    Paused(String),
    /// The pool was paused, and its account is read again first.
    Rereading,
    /// The budget of the token.
    Budget,
    /// The bound on operations under way.
    Full,
    /// The ports of the pool are being opened on it, for which it is waited until then at most.
    Firewall(Moment),
    /// Nobody may act now: the lease is not held for certain, or the token is refused.
    Unsure,
    /// The token was refused what it takes, in these words.
    Refused(String),
}

impl Wait {
    /// True for what belongs into `nodeErrors`; anything else waits in `assignableNodes`.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.blocked().is_some()
    }

    /// What `NodesBlocked` calls it, where it belongs into `nodeErrors`.
    #[must_use]
    pub fn blocked(&self) -> Option<NodesBlocked> {
        match self {
            Self::RetryAt(..) => Some(NodesBlocked::AssignmentFailed),
            Self::ClaimedBy(..) => Some(NodesBlocked::DropletClaimed),
            Self::Foreign(_) => Some(NodesBlocked::ForeignAddress),
            Self::OtherRegion(_) => Some(NodesBlocked::OtherRegion),
            Self::NotAMachine(_) => Some(NodesBlocked::NotADroplet),
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
}

impl Wait {
    /// True where the node gets an address as soon as that is over; an operation on its machine is for one already.
    #[must_use]
    pub fn takes(&self) -> bool {
        match self {
            Self::CoolOff
            | Self::RetryAt(..)
            | Self::Pending(..)
            | Self::Paused(_)
            | Self::Rereading
            | Self::Budget
            | Self::Full
            | Self::Firewall(_)
            | Self::Unsure
            | Self::Refused(_) => true,
            Self::NoFreeIp
            | Self::InFlight(_)
            | Self::Claimed(_)
            | Self::ClaimedBy(..)
            | Self::Foreign(_)
            | Self::OtherRegion(_)
            | Self::NotAMachine(_) => false,
        }
    }
}

impl Wait {
    /// What a user reads. `noun` is the word for a machine.
    #[must_use]
    pub fn text(&self, noun: &str) -> String {
        match self {
            Self::NoFreeIp => "no address of the pool is free".to_owned(),
            Self::CoolOff => "assignmentCoolOffSeconds has not passed since the last assignment".to_owned(),
            Self::InFlight(ip) => format!("an operation on {ip} is under way"),
            Self::RetryAt(_, message) => {
                format!("the last assignment failed and is tried again: {message}")
            }
            Self::Pending(_, message) => format!("the provider is still busy with it: {message}"),
            Self::Claimed(pool) => format!("claimed by {pool}"),
            Self::ClaimedBy(pool, ip) => format!(
                "{ip} of pool {pool} stands on it, which that pool does not use there: the node does not match it, or \
                 {ip} is surplus; take {ip} off the {noun} or out of that pool"
            ),
            Self::Foreign(ip) => format!(
                "the {noun} already has {ip}, which belongs to no pool and is not touched; add {ip} to spec.ips to use \
                 it, or unassign it"
            ),
            Self::OtherRegion(region) => {
                format!("the node is in region {region} and no free address is; add addresses of that region")
            }
            Self::NotAMachine(message) => message.clone(),
            Self::Paused(why) => format!("the pool is {why}"),
            Self::Rereading => "the pool was paused, and the account is read again first".to_owned(),
            Self::Budget => "the provider's rate limit leaves no request for it yet".to_owned(),
            Self::Full => "as many operations as may be are under way; it follows them".to_owned(),
            Self::Firewall(_) => "the ports of the pool are being opened on it".to_owned(),
            Self::Unsure => "the lease is not held for certain, or the token is refused".to_owned(),
            Self::Refused(message) => {
                format!("the provider refuses it, which is tried once a minute: {message}")
            }
        }
    }
}

/// What a plan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Candidates without an address, by name.
    pub waiting: BTreeMap<String, Wait>,
    /// Addresses that an older pool names too.
    pub claimed: BTreeMap<Address, ObjectName>,
    /// Addresses on candidates: the node's name.
    pub active: BTreeMap<Address, String>,
    /// Where each address is, what is unknown included.
    pub placements: BTreeMap<Address, Placement>,
}
