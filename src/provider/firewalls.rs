//! What a provider of firewalls does for a pool.
//!
//! Invariants: a look shows every firewall or is a fault, and says which scopes are missing so that something is left
//! out; a change names what it adds or removes, and leaves the rest as it is.

use crate::permit::Permit;
use crate::provider::{Account, CallContext, CallError};
use flipop_core::firewalls::action::Change;
use flipop_core::firewalls::facts::{Rule, Sight};
use flipop_core::model::fault::Fault;
use flipop_core::model::machine::MachineId;
use futures::future::BoxFuture;
use std::collections::BTreeSet;

/// A firewall to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFirewall {
    /// Its name.
    pub name: String,
    /// What it permits.
    pub rules: BTreeSet<Rule>,
    /// Its first machines.
    pub machines: BTreeSet<MachineId>,
}

/// A provider of firewalls.
pub trait FirewallProvider: Account {
    /// Every firewall of the account; with `machines`, every machine and its tags as well, and whether the token may
    /// read tags at all.
    fn look<'a>(&'a self, context: &'a CallContext, machines: bool) -> BoxFuture<'a, Result<Sight, Fault>>;

    /// Whether the firewall of this id exists.
    fn has_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        id: &'a str,
    ) -> BoxFuture<'a, Result<bool, Fault>>;

    /// Makes a firewall, and answers its id.
    fn create_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        new: &'a NewFirewall,
    ) -> BoxFuture<'a, Result<String, CallError>>;

    /// Changes a firewall. One that is gone is deleted already.
    fn change_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        id: &'a str,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<(), CallError>>;
}
