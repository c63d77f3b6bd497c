//! The calls to providers of addresses that decisions ask for, and their answers.
//!
//! An action names every detail, so that whoever executes it decides nothing. Each one is answered by exactly one
//! [`Outcome`].

use crate::model::facts::{ActionStatus, ReservedIp, ReservedIpList};
use crate::model::fault::{CallFailure, Fault};
use crate::model::ids::{AccountId, ActionId, Address, ObjectRef};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;

/// A call to a provider of addresses.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read every address of an account.
    List {
        /// The account.
        account_id: AccountId,
    },
    /// Read one address.
    Get {
        /// The account.
        account_id: AccountId,
        /// The pool that names the address.
        pool: Option<ObjectRef>,
        /// The address.
        ip: Address,
    },
    /// Find out whether the token may read machines.
    ProveMachineRead {
        /// The account.
        account_id: AccountId,
    },
    /// Ask how far an action is.
    Poll {
        /// The account.
        account_id: AccountId,
        /// The pool on whose behalf the action runs.
        pool: Option<ObjectRef>,
        /// The address that it changes.
        ip: Address,
        /// The action.
        action: ActionId,
    },
    /// Put an address on a machine.
    Assign {
        /// The account.
        account_id: AccountId,
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
        /// The account.
        account_id: AccountId,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// The address.
        ip: Address,
        /// The machine, for logs.
        machine: MachineId,
    },
    /// Buy an address.
    Create {
        /// The account.
        account_id: AccountId,
        /// The pool on whose behalf.
        pool: ObjectRef,
        /// Region slug.
        region: String,
    },
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// To [`Action::List`].
    Listed {
        /// The account.
        account_id: AccountId,
        /// When the first request was sent.
        begun: Moment,
        /// The list.
        result: Result<ReservedIpList, Fault>,
    },
    /// To [`Action::Get`].
    Got {
        /// The account.
        account_id: AccountId,
        /// The address.
        ip: Address,
        /// When the request was sent.
        begun: Moment,
        /// What was read.
        result: Result<ReservedIp, Fault>,
    },
    /// To [`Action::ProveMachineRead`].
    Proved {
        /// The account.
        account_id: AccountId,
        /// Whether the scope is there.
        result: Result<bool, Fault>,
    },
    /// To [`Action::Poll`].
    Polled {
        /// When the call began.
        begun: Moment,
        /// The account.
        account_id: AccountId,
        /// The address.
        ip: Address,
        /// Status of the action.
        result: Result<ActionStatus, Fault>,
    },
    /// To [`Action::Assign`] and [`Action::Unassign`].
    Changed {
        /// The account.
        account_id: AccountId,
        /// The address.
        ip: Address,
        /// The action that the provider started.
        result: Result<(ActionId, ActionStatus), CallFailure>,
    },
    /// To [`Action::Create`].
    Created {
        /// The account.
        account_id: AccountId,
        /// The pool.
        pool: ObjectRef,
        /// The new address.
        result: Result<Address, CallFailure>,
    },
}
