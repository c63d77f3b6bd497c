//! Reports each finished call, for metrics.

use crate::clock::Clock;
use crate::provider::call::{CallContext, CallError};
use flipop_core::model::{Fault, FaultKind};
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

/// The observer of an operation, and the clock that times it.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Name of the provider.
    pub provider: &'static str,
    /// The operation.
    pub call: Call,
    /// The object that it is for.
    pub context: &'a CallContext,
    /// The time.
    pub clock: &'a Clock,
    /// Receives the report.
    pub observer: &'a dyn CallObserver,
}

/// Runs an operation of one or several requests, and reports the result to its observer.
///
/// # Errors
/// Those of the operation.
pub async fn recorded<T, E: Failure>(
    record: Record<'_>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Record { provider, call, context, clock, observer } = record;
    let begun = clock.now();
    let result = work.await;
    let duration = Duration::from_millis(clock.now().millis_since(begun));
    let fault = match &result {
        Ok(_) => None,
        Err(error) => match error.fault() {
            Some(fault) => Some(fault),
            None => return result,
        },
    };
    let outcome = match fault.map(|fault| fault.kind) {
        None | Some(FaultKind::InProgress) => Outcome::Success,
        Some(_) => Outcome::Error,
    };
    tracing::debug!(
        provider,
        call = call.as_str(),
        kind = context.kind,
        namespace = context.namespace,
        name = context.name,
        outcome = outcome.as_str(),
        duration_ms = duration.as_millis(),
        fault = fault.map(tracing::field::display),
        "provider call"
    );
    observer.call_ended(CallRecord { provider, call, context, outcome, duration });
    result
}
