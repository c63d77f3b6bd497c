//! The calls to providers of addresses that decisions ask for, and their answers.
//!
//! A call names every detail, so its execution decides nothing. Each call has exactly one [`Reply`].

use crate::mechanism::{Answer, Request};
use crate::model::{
    ActionId, ActionStatus, Address, CallFailure, MachineId, Moment, ReservedIp, ReservedIpList,
};

/// A call with its account and its pool.
pub type Action = Request<Call>;

/// The answer to an [`Action`].
pub type Outcome = Answer<Reply>;

/// A call to a provider of addresses.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Read every address of the account.
    List,
    /// Read one address.
    Get(Address),
    /// Test whether an account that is out answers again, with one small read of this address. `None` if the account
    /// has none that FLIPOP knows.
    Test(Option<Address>),
    /// Test whether the token may read machines.
    ProveMachineRead,
    /// Read whether a machine is switched off. The reply repeats when that was asked.
    ReadMachine(MachineId, Moment),
    /// Ask for the status of an action that changes this address.
    Poll(Address, ActionId),
    /// Put an address on a machine.
    Assign {
        /// The address.
        ip: Address,
        /// The machine.
        machine: MachineId,
        /// Name of the node on it, for logs.
        node: String,
    },
    /// Take an address off its machine, which only logs name.
    Unassign(Address, MachineId),
    /// Buy an address in the region with this slug.
    Create(String),
    /// Delete an address.
    Delete(Address),
}

/// The reply to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Call::List`].
    Listed(Result<ReservedIpList, CallFailure>),
    /// To [`Call::Get`].
    Got(Address, Result<ReservedIp, CallFailure>),
    /// To [`Call::Test`]: whether the provider answered. The content says nothing more.
    Tested(Result<(), CallFailure>),
    /// To [`Call::ProveMachineRead`]: whether the scope is there.
    Proved(Result<bool, CallFailure>),
    /// To [`Call::ReadMachine`]: whether it is switched off.
    MachineRead(MachineId, Moment, Result<bool, CallFailure>),
    /// To [`Call::Poll`].
    Polled(Address, Result<ActionStatus, CallFailure>),
    /// To [`Call::Assign`] and [`Call::Unassign`]: the action that the provider started.
    Changed(Address, Result<(ActionId, ActionStatus), CallFailure>),
    /// To [`Call::Create`]: the new address.
    Created(Result<Address, CallFailure>),
    /// To [`Call::Delete`]: whether the provider accepted it.
    Deleted(Address, Result<(), CallFailure>),
}

impl Call {
    /// Whether the call changes something.
    pub const fn is_write(&self) -> bool {
        match self {
            Self::Assign { .. } | Self::Unassign(..) | Self::Create(_) | Self::Delete(_) => true,
            Self::List
            | Self::Get(_)
            | Self::Test(_)
            | Self::ProveMachineRead
            | Self::ReadMachine(..)
            | Self::Poll(..) => false,
        }
    }
}

impl Reply {
    /// The failure of the call, if it failed.
    pub fn failure(&mut self) -> Option<&mut CallFailure> {
        match self {
            Self::Listed(result) => result.as_mut().err(),
            Self::Got(_, result) => result.as_mut().err(),
            Self::Proved(result) | Self::MachineRead(_, _, result) => result.as_mut().err(),
            Self::Polled(_, result) => result.as_mut().err(),
            Self::Changed(_, result) => result.as_mut().err(),
            Self::Created(result) => result.as_mut().err(),
            Self::Tested(result) | Self::Deleted(_, result) => result.as_mut().err(),
        }
    }
}
