//! The calls to providers of addresses that decisions ask for, and their answers.
//!
//! An action names every detail, so its execution decides nothing. Each action has exactly one [`Outcome`].

use crate::mechanism::epoch::Epoch;
use crate::model::facts::{ActionStatus, ReservedIp, ReservedIpList};
use crate::model::fault::CallFailure;
use crate::model::ids::{ActionId, Address, ObjectRef};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;

/// A call to a provider of addresses.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read every address of an account.
    List {
        /// The account and its epoch.
        epoch: Epoch,
    },
    /// Read one address.
    Get {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool that names the address.
        pool: Option<ObjectRef>,
        /// The address.
        ip: Address,
    },
    /// Test whether an account that is out answers again, with one small read.
    Test {
        /// The account and its epoch.
        epoch: Epoch,
        /// The address to read. `None` if the account has none that FLIPOP knows.
        ip: Option<Address>,
    },
    /// Test whether the token may read machines.
    ProveMachineRead {
        /// The account and its epoch.
        epoch: Epoch,
    },
    /// Read whether a machine is switched off.
    ReadMachine {
        /// The account and its epoch.
        epoch: Epoch,
        /// The machine.
        machine: MachineId,
        /// When it was asked for: the answer repeats it.
        asked: Moment,
    },
    /// Ask for the status of an action.
    Poll {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool on whose behalf the action runs.
        pool: Option<ObjectRef>,
        /// The address that it changes.
        ip: Address,
        /// The action.
        action: ActionId,
    },
    /// Put an address on a machine.
    Assign {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// The address.
        ip: Address,
        /// The machine.
        machine: MachineId,
        /// Name of the node on it, for logs.
        node: String,
    },
    /// Take an address off its machine.
    Unassign {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// The address.
        ip: Address,
        /// The machine, for logs.
        machine: MachineId,
    },
    /// Buy an address.
    Create {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// Region slug.
        region: String,
    },
    /// Delete an address.
    Delete {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// The address.
        ip: Address,
    },
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// To [`Action::List`].
    Listed {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the first request was sent.
        begun: Moment,
        /// The list.
        result: Result<ReservedIpList, CallFailure>,
    },
    /// To [`Action::Get`].
    Got {
        /// The account and its epoch.
        epoch: Epoch,
        /// The address.
        ip: Address,
        /// When the request was sent.
        begun: Moment,
        /// The address as it was read.
        result: Result<ReservedIp, CallFailure>,
    },
    /// To [`Action::Test`].
    Tested {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the request was sent.
        begun: Moment,
        /// Whether the provider answered. The content says nothing more.
        result: Result<(), CallFailure>,
    },
    /// To [`Action::ProveMachineRead`].
    Proved {
        /// The account and its epoch.
        epoch: Epoch,
        /// Whether the scope is there.
        result: Result<bool, CallFailure>,
    },
    /// To [`Action::ReadMachine`].
    MachineRead {
        /// The account and its epoch.
        epoch: Epoch,
        /// The machine.
        machine: MachineId,
        /// When it was asked for.
        asked: Moment,
        /// Whether it is switched off.
        result: Result<bool, CallFailure>,
    },
    /// To [`Action::Poll`].
    Polled {
        /// When the call began.
        begun: Moment,
        /// The account and its epoch.
        epoch: Epoch,
        /// The address.
        ip: Address,
        /// Status of the action.
        result: Result<ActionStatus, CallFailure>,
    },
    /// To [`Action::Assign`] and [`Action::Unassign`].
    Changed {
        /// The account and its epoch.
        epoch: Epoch,
        /// The address.
        ip: Address,
        /// The action that the provider started.
        result: Result<(ActionId, ActionStatus), CallFailure>,
    },
    /// To [`Action::Create`].
    Created {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool.
        pool: ObjectRef,
        /// The new address.
        result: Result<Address, CallFailure>,
    },
    /// To [`Action::Delete`].
    Deleted {
        /// The account and its epoch.
        epoch: Epoch,
        /// The pool.
        pool: ObjectRef,
        /// The address.
        ip: Address,
        /// Whether the provider accepted it.
        result: Result<(), CallFailure>,
    },
}

impl Outcome {
    /// The epoch of the call, and its failure, if it failed.
    pub fn epoch_and_failure(&mut self) -> (&Epoch, Option<&mut CallFailure>) {
        match self {
            Self::Listed { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Got { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Proved { epoch, result } | Self::MachineRead { epoch, result, .. } => {
                (epoch, result.as_mut().err())
            }
            Self::Polled { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Changed { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Created { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::Tested { epoch, result, .. } | Self::Deleted { epoch, result, .. } => {
                (epoch, result.as_mut().err())
            }
        }
    }
}
