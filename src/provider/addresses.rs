//! The operations of a provider of addresses.
//!
//! Invariant: a list is complete, says that it may not be, or is a fault.

use crate::permit::Permit;
use crate::provider::call::{Action, CallContext, Changing, Reading};
use crate::provider::http::Account;
use flipop_core::model::{ActionId, Address, MachineId, ReservedIp, ReservedIpList};

/// A provider of reserved IPs. Each method is one operation, with at most ten seconds for each of its requests. The
/// provider itself repeats none.
pub trait IpProvider: Account {
    /// Every reserved IP of the account, or a fault. A list that may be incomplete says so in its `contradiction`.
    fn list_reserved_ips<'a>(&'a self, context: &'a CallContext) -> Reading<'a, ReservedIpList>;

    /// One reserved IP. [`flipop_core::model::fault::FaultKind::NotFound`] if the account does not have it.
    fn get_reserved_ip<'a>(&'a self, context: &'a CallContext, ip: Address) -> Reading<'a, ReservedIp>;

    /// Whether the token may read machines. Without that scope every address looks unassigned.
    fn prove_machine_read<'a>(&'a self, context: &'a CallContext) -> Reading<'a, bool>;

    /// Whether a machine is switched off. [`flipop_core::model::fault::FaultKind::NotFound`] if the account does not
    /// have it. Only providers whose descriptor says `tells_power` are asked.
    fn is_switched_off<'a>(&'a self, context: &'a CallContext, machine: &'a MachineId) -> Reading<'a, bool>;

    /// Buys an address in a region.
    fn create_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        region: &'a str,
    ) -> Changing<'a, Address>;

    /// Deletes an address. [`flipop_core::model::fault::FaultKind::NotFound`] if the account does not have it.
    fn delete_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
    ) -> Changing<'a, ()>;

    /// Starts to move an address to a machine, from wherever it is.
    fn assign<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
        machine: MachineId,
    ) -> Changing<'a, Action>;

    /// Starts to take an address off its machine.
    fn unassign<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
    ) -> Changing<'a, Action>;

    /// The progress of an action. `NotFound` says nothing about the address: read that.
    fn get_action<'a>(
        &'a self,
        context: &'a CallContext,
        ip: Address,
        action: ActionId,
    ) -> Reading<'a, Action>;
}
