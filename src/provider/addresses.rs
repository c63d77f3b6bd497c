//! The operations of a provider of addresses, and of one of firewalls, which is a provider of addresses too.
//!
//! Invariants: a list of addresses is complete, says that it may not be, or is a fault. A look at firewalls shows every
//! one, or is a fault, and names each missing scope that makes it incomplete. A change of a firewall names what it adds
//! or removes, and leaves everything else as it is.

use crate::permit::Permit;
use crate::provider::call::{Action, CallContext, Changing, Reading};
use crate::provider::http::Account;
use flipop_core::firewalls::action::Change;
use flipop_core::firewalls::facts::{Rule, Sight};
use flipop_core::model::{ActionId, Address, MachineId, ReservedIp, ReservedIpList};
use std::collections::BTreeSet;

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

/// A firewall to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFirewall {
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: BTreeSet<Rule>,
    /// Its first members.
    pub machines: BTreeSet<MachineId>,
}

/// A provider of firewalls.
pub trait FirewallProvider: Account {
    /// Every firewall of the account. With `machines`, also every machine with its tags, and whether the token may read
    /// tags at all.
    fn look<'a>(&'a self, context: &'a CallContext, machines: bool) -> Reading<'a, Sight>;

    /// Whether the firewall with this id exists.
    fn has_firewall<'a>(&'a self, context: &'a CallContext, id: &'a str) -> Reading<'a, bool>;

    /// Makes a firewall, and returns its id.
    fn create_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        new: &'a NewFirewall,
    ) -> Changing<'a, String>;

    /// Changes a firewall. If it is already gone, deleting it succeeds.
    fn change_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        id: &'a str,
        change: &'a Change,
    ) -> Changing<'a, ()>;
}
