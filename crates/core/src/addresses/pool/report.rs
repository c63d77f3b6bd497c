//! Why things are as they are: for each address and each candidate without one, what it waits for.

use crate::model::catalog::pool::NodesBlocked;
use crate::model::ids::{Address, ObjectName};
use crate::model::moment::Moment;
use std::collections::BTreeMap;
use std::fmt;

/// What a candidate without an address waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Every address is in use, or waits itself.
    NoFreeIp,
    /// The cool-off of the pool.
    CoolOff,
    /// An operation on its droplet.
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
    /// Its `spec.providerID` names no droplet.
    NotADroplet(String),
    /// The budget of the token.
    Budget,
    /// The bound on operations under way.
    Full,
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
            Self::NotADroplet(_) => Some(NodesBlocked::NotADroplet),
            Self::NoFreeIp
            | Self::CoolOff
            | Self::InFlight(_)
            | Self::Pending(..)
            | Self::Claimed(_)
            | Self::Budget
            | Self::Full
            | Self::Unsure
            | Self::Refused(_) => None,
        }
    }
}

impl Wait {
    /// True where the node gets an address as soon as that is over; an operation on its droplet is for one already.
    #[must_use]
    pub fn takes(&self) -> bool {
        match self {
            Self::CoolOff
            | Self::RetryAt(..)
            | Self::Pending(..)
            | Self::Budget
            | Self::Full
            | Self::Unsure
            | Self::Refused(_) => true,
            Self::NoFreeIp
            | Self::InFlight(_)
            | Self::Claimed(_)
            | Self::ClaimedBy(..)
            | Self::Foreign(_)
            | Self::OtherRegion(_)
            | Self::NotADroplet(_) => false,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFreeIp => f.write_str("no address of the pool is free"),
            Self::CoolOff => f.write_str("assignmentCoolOffSeconds has not passed since the last assignment"),
            Self::InFlight(ip) => write!(f, "an operation on {ip} is under way"),
            Self::RetryAt(_, message) => {
                write!(f, "the last assignment failed and is tried again: {message}")
            }
            Self::Pending(_, message) => write!(f, "the provider is still busy with it: {message}"),
            Self::Claimed(pool) => write!(f, "claimed by {pool}"),
            Self::ClaimedBy(pool, ip) => write!(
                f,
                "{ip} of pool {pool} stands on it, which that pool does not use there: the node does not match it, or \
                 {ip} is surplus; take {ip} off the droplet or out of that pool"
            ),
            Self::Foreign(ip) => write!(
                f,
                "the droplet already has {ip}, which belongs to no pool and is not touched; add {ip} to spec.ips to use \
                 it, or unassign it"
            ),
            Self::OtherRegion(region) => {
                write!(
                    f,
                    "the node is in region {region} and no free address is; add addresses of that region"
                )
            }
            Self::NotADroplet(message) => f.write_str(message),
            Self::Budget => f.write_str("the provider's rate limit leaves no request for it yet"),
            Self::Full => f.write_str("as many operations as may be are under way; it follows them"),
            Self::Unsure => f.write_str("the lease is not held for certain, or the token is refused"),
            Self::Refused(message) => {
                write!(f, "the provider refuses it, which is tried once a minute: {message}")
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
    pub lost: BTreeMap<Address, ObjectName>,
    /// Addresses on candidates: the node's name.
    pub active: BTreeMap<Address, String>,
}
