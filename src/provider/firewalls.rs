//! The operations of a firewall provider for pools.
//!
//! Invariants: a look shows every firewall, or is a fault. It names each missing scope that makes it incomplete. A
//! change names what it adds or removes, and leaves everything else as it is.

use crate::permit::Permit;
use crate::provider::call::{CallContext, Changing, Reading};
use crate::provider::http::Account;
use flipop_core::firewalls::action::Change;
use flipop_core::firewalls::facts::{Rule, Sight};
use flipop_core::model::MachineId;
use std::collections::BTreeSet;

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
