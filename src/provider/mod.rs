//! Cloud providers: their traits, and one folder for each provider.
//!
//! Owns the form of a call: its context, its result, and the permit that a change needs. Does not own when to make one:
//! a provider neither retries nor waits for its budget. The planner does both.
//!
//! To add a provider, copy `digitalocean/`: a client over `http::Api`, wire types with lenient decoders, one function
//! that turns an error answer into a [`Fault`], and a `DESCRIPTOR`, which is added to [`DESCRIPTORS`]. Everything else
//! (token, TLS, bounds, deadlines, rate limits, metrics) comes with `http::Api`, and `paging` reads long lists
//! completely. `cloudflare/` is an example of a provider of DNS alone.
//!
//! Invariants: a mutating method takes a [`Permit`] and writes no byte without it. If a lost answer leaves the outcome
//! unknown, [`Fault::outcome_unknown`] says so. A token appears in no error, log, metric or `Debug` text.

pub mod cloudflare;
pub mod digitalocean;
pub mod dns;
pub mod firewalls;
pub mod http;
pub mod observe;
mod paging;
mod rate;
mod tls;

pub use tls::install_tls;

use crate::permit::{Permit, PermitEnded};
use dns::DnsProvider;
use firewalls::FirewallProvider;
use flipop_core::mechanism::budget::RateReport;
pub use flipop_core::model::facts::ActionStatus;
use flipop_core::model::facts::{ReservedIp, ReservedIpList};
use flipop_core::model::fault::Fault;
use flipop_core::model::ids::{AccountId, ActionId, Address};
use flipop_core::model::machine::MachineId;
use flipop_core::model::provider::Descriptor;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The object that a call is made for. Its fields label metrics and log lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CallContext {
    /// Kind of the object. Empty for calls that serve the whole account.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl CallContext {
    /// The context of calls that serve every object of an account.
    #[must_use]
    pub fn account_wide() -> Self {
        Self::default()
    }

    /// The context of calls for one object.
    pub fn object(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// Why a mutating call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No byte of the request was written, because the leadership was over, or nearly so.
    #[error("failed to start the call: {0}")]
    NotSent(PermitEnded),
    /// The request was made and failed.
    #[error("{0}")]
    Fault(Fault),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<PermitEnded> for CallError {
    fn from(ended: PermitEnded) -> Self {
        Self::NotSent(ended)
    }
}

/// A provider's asynchronous operation on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Its id, unique in the account.
    pub id: ActionId,
    /// Its progress.
    pub status: ActionStatus,
}

/// The common part of every provider: a token, and limits on how often it may be used.
pub trait Account: Send + Sync {
    /// The provider's name in specs and metric labels.
    fn provider(&self) -> &'static str;

    /// Counts the changes of the token. A change ends the proofs of the old token's scopes.
    fn token_generation(&self) -> watch::Receiver<u64>;

    /// Checks whether a token file has changed. Calls do this too, so it is needed only at times without calls.
    fn recheck_token(&self);

    /// The latest known rate limits of the token.
    fn rate(&self) -> watch::Receiver<RateReport>;
}

/// All providers.
pub const DESCRIPTORS: [Descriptor; 2] = [digitalocean::DESCRIPTOR, cloudflare::DESCRIPTOR];

/// The machine that a node's `spec.providerID` names, if it belongs to one of the providers.
#[must_use]
pub fn machine(provider_id: &str) -> Option<MachineId> {
    DESCRIPTORS.iter().find_map(|descriptor| descriptor.machines?.named(provider_id))
}

/// The clients of this process, by account. A provider of several services has the same client in each of their maps:
/// one token, one budget.
#[derive(Clone, Default)]
pub struct Providers {
    /// Of addresses.
    pub ips: BTreeMap<AccountId, Arc<dyn IpProvider>>,
    /// Of DNS.
    pub dns: BTreeMap<AccountId, Arc<dyn DnsProvider>>,
    /// Of firewalls, at providers of addresses.
    pub firewalls: BTreeMap<AccountId, Arc<dyn FirewallProvider>>,
}

impl Providers {
    /// Each account once.
    pub fn accounts(&self) -> impl Iterator<Item = (&AccountId, &dyn Account)> {
        let ips = self.ips.iter().map(|(id, client)| {
            let account: &dyn Account = client.as_ref();
            (id, account)
        });
        let dns = self.dns.iter().filter(|(id, _)| !self.ips.contains_key(*id)).map(|(id, client)| {
            let account: &dyn Account = client.as_ref();
            (id, account)
        });
        ips.chain(dns)
    }
}

/// A provider of reserved IPs. Each method is one operation, with at most ten seconds for each of its requests. The
/// provider itself repeats none.
pub trait IpProvider: Account {
    /// Every reserved IP of the account, or a fault. A list that may be incomplete says so in its `contradiction`.
    fn list_reserved_ips<'a>(
        &'a self,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<ReservedIpList, Fault>>;

    /// One reserved IP. [`flipop_core::model::fault::FaultKind::NotFound`] if the account does not have it.
    fn get_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        ip: Address,
    ) -> BoxFuture<'a, Result<ReservedIp, Fault>>;

    /// Whether the token may read machines. Without that scope every address looks unassigned.
    fn prove_machine_read<'a>(&'a self, context: &'a CallContext) -> BoxFuture<'a, Result<bool, Fault>>;

    /// Buys an address in a region.
    fn create_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        region: &'a str,
    ) -> BoxFuture<'a, Result<Address, CallError>>;

    /// Deletes an address. [`flipop_core::model::fault::FaultKind::NotFound`] if the account does not have it.
    fn delete_reserved_ip<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
    ) -> BoxFuture<'a, Result<(), CallError>>;

    /// Starts to move an address to a machine, from wherever it is.
    fn assign<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
        machine: MachineId,
    ) -> BoxFuture<'a, Result<Action, CallError>>;

    /// Starts to take an address off its machine.
    fn unassign<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        ip: Address,
    ) -> BoxFuture<'a, Result<Action, CallError>>;

    /// The progress of an action. `NotFound` says nothing about the address: read that.
    fn get_action<'a>(
        &'a self,
        context: &'a CallContext,
        ip: Address,
        action: ActionId,
    ) -> BoxFuture<'a, Result<Action, Fault>>;
}
