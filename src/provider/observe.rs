//! The report of a finished call, and who receives it for metrics.

use crate::provider::call::{CallContext, CallError};
use flipop_core::model::Fault;
use std::time::Duration;

/// The failure of a call, in any of its types.
pub trait Failure {
    /// The fault. `None` if the call was not made.
    fn fault(&self) -> Option<&Fault>;
}

impl Failure for Fault {
    fn fault(&self) -> Option<&Fault> {
        Some(self)
    }
}

impl Failure for CallError {
    fn fault(&self) -> Option<&Fault> {
        match self {
            Self::NotSent(_) => None,
            Self::Fault(fault) => Some(fault),
        }
    }
}

flipop_core::described! {
    /// How a call ended, as a value of the metric's label.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Outcome {
        /// The operation succeeded, or the provider is still working on it.
        Success = "success",
        /// The operation failed.
        Error = "error",
    }
    /// The label's value.
    fn as_str -> &'static str;
}

flipop_core::described! {
    /// An operation of a provider, as a value of the metric's label. One operation may be several HTTP requests.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Call {
        /// Lists the reserved IPs of the account.
        ListIps = "ListIPs",
        /// Reads one reserved IP.
        GetIp = "GetIP",
        /// Lists one droplet, to learn whether the token has the scope `droplet:read`, or all with their tags, to learn
        /// which firewalls govern them.
        ListDroplets = "ListDroplets",
        /// Reads one droplet, to learn whether it is switched off or gone, because its node answers no check.
        GetDroplet = "GetDroplet",
        /// Creates a reserved IP.
        CreateIp = "CreateIP",
        /// Deletes a reserved IP that was bought for a pool with `reclaimPolicy: Delete`.
        DeleteIp = "DeleteIP",
        /// Assigns a reserved IP to a droplet.
        AssignIp = "AssignIP",
        /// Unassigns a reserved IP from its droplet.
        UnassignIp = "UnassignIP",
        /// Reads how far an assignment or unassignment is.
        GetAction = "GetAction",
        /// Lists the firewalls of the account.
        ListFirewalls = "ListFirewalls",
        /// Lists one tag, to learn whether the token has the scope `tag:read`.
        ListTags = "ListTags",
        /// Reads one firewall.
        GetFirewall = "GetFirewall",
        /// Creates a firewall.
        CreateFirewall = "CreateFirewall",
        /// Changes the rules, droplets or tags of a firewall.
        UpdateFirewall = "UpdateFirewall",
        /// Deletes a firewall.
        DeleteFirewall = "DeleteFirewall",
        /// Looks up a Cloudflare zone by its name or its id.
        FindZone = "FindZone",
        /// Lists the records of one name.
        ListRecords = "ListRecords",
        /// Changes the records of one name.
        EnsureDnsARecordSet = "EnsureDNSARecordSet",
    }
    /// The label's value.
    fn as_str -> &'static str;
}

/// One finished call.
#[derive(Debug, Clone, Copy)]
pub struct CallRecord<'a> {
    /// Name of the provider.
    pub provider: &'static str,
    /// The operation.
    pub call: Call,
    /// The object that it was made for.
    pub context: &'a CallContext,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// Receives each finished call, on the caller's task. It must not block.
pub trait CallObserver: Send + Sync {
    /// A call has ended. A call that was not sent, for lack of a permit, is not reported.
    fn call_ended(&self, record: CallRecord<'_>);
}

/// An observer that ignores every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl CallObserver for NoObserver {
    fn call_ended(&self, _record: CallRecord<'_>) {}
}
