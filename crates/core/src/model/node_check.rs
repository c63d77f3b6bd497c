//! How the nodes of an object are checked: `spec.nodeCheck`.

use crate::model::facts::NodeFacts;
use crate::model::ids::{Address, Uid};
use crate::model::machine::MachineId;
use crate::model::spec::{Scope, SpecProblem};
use std::net::IpAddr;
use std::time::Duration;

/// The kubelet's port.
pub const KUBELET_PORT: u16 = 10_250;

/// `spec.nodeCheck` as it was written; `None` means that the field is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RawNodeCheck {
    /// The port.
    pub port: Option<i64>,
    /// Seconds from one check to the next.
    pub period_seconds: Option<f64>,
    /// Seconds after which an unanswered check fails.
    pub timeout_seconds: Option<f64>,
    /// Failures in a row that count.
    pub failure_threshold: Option<i64>,
}

/// How the nodes of an object are checked. Equal checks of several objects are made once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeCheck {
    /// The port.
    pub port: u16,
    /// From one check of a node that serves to the next.
    pub period_ms: u64,
    /// An unanswered check fails after this long.
    pub timeout_ms: u64,
    /// Failures in a row that count.
    pub threshold: u32,
}

impl Default for NodeCheck {
    fn default() -> Self {
        Self { port: KUBELET_PORT, period_ms: 1_000, timeout_ms: 1_000, threshold: 3 }
    }
}

impl NodeCheck {
    /// Parses `spec.nodeCheck`. The CRDs refuse a value out of bounds. If one appears anyway, no node is checked for
    /// the object.
    pub fn parse(raw: Option<&RawNodeCheck>, problems: &mut Vec<SpecProblem>) -> Option<Self> {
        let raw = raw?;
        let before = problems.len();
        let mut wrong = |field: &str, found: String, range: &str| {
            problems.push(SpecProblem {
                scope: Scope::NodeCheck,
                field: format!("spec.nodeCheck.{field}"),
                message: format!("{found} is ignored, and no node is checked; use a number from {range}"),
            });
        };
        let mut check = Self::default();
        if let Some(port) = raw.port {
            match u16::try_from(port).ok().filter(|port| *port > 0) {
                Some(port) => check.port = port,
                None => wrong("port", port.to_string(), "1 to 65535"),
            }
        }
        let seconds = |seconds: f64, least_ms: u64| {
            let read = Duration::try_from_secs_f64(seconds).ok();
            let ms = read.and_then(|read| u64::try_from(read.as_millis()).ok());
            ms.filter(|ms| (least_ms..=MAX_MS).contains(ms))
        };
        if let Some(period) = raw.period_seconds {
            match seconds(period, MIN_PERIOD_MS) {
                Some(ms) => check.period_ms = ms,
                None => wrong("periodSeconds", period.to_string(), "0.5 to 10"),
            }
        }
        if let Some(timeout) = raw.timeout_seconds {
            match seconds(timeout, MIN_TIMEOUT_MS) {
                Some(ms) => check.timeout_ms = ms,
                None => wrong("timeoutSeconds", timeout.to_string(), "0.1 to 10"),
            }
        }
        if let Some(threshold) = raw.failure_threshold {
            match u32::try_from(threshold).ok().filter(|threshold| (2..=10).contains(threshold)) {
                Some(threshold) => check.threshold = threshold,
                None => wrong("failureThreshold", threshold.to_string(), "2 to 10"),
            }
        }
        (problems.len() == before).then_some(check)
    }
}

/// More frequent checks would find nothing sooner, because the Lease decides.
const MIN_PERIOD_MS: u64 = 500;

/// A distant machine cannot answer in less time than this.
const MIN_TIMEOUT_MS: u64 = 100;

/// The longest period and timeout. With longer ones, Kubernetes itself is faster.
const MAX_MS: u64 = 10_000;

/// One check: of which node, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckKey {
    /// `metadata.uid` of the node.
    pub node: Uid,
    /// How.
    pub check: NodeCheck,
}

/// The data that a check needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckTarget {
    /// Name of the node.
    pub name: String,
    /// Its first `InternalIP`.
    pub address: Address,
    /// Its machine, if a provider of addresses has it.
    pub machine: Option<MachineId>,
    /// The time from one check to the next.
    pub period_ms: u64,
    /// The node serves. Its checks come before those of others.
    pub holds: bool,
}

/// Where a node is checked: at its first `InternalIP`. An error holds one that is not the address of a machine. A
/// kubelet reports the address, and must not lead checks to FLIPOP's own machine or to everybody.
pub fn target_of(node: &NodeFacts) -> Option<Result<Address, Address>> {
    let address = *node.internal_ips.first()?;
    let of_no_machine = match address.as_ip() {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_unspecified()
                || ip.is_broadcast()
        }
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.is_unicast_link_local() || ip.is_multicast() || ip.is_unspecified()
        }
    };
    Some(if of_no_machine { Err(address) } else { Ok(address) })
}

/// How one check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The machine answered.
    Passed,
    /// It did not.
    Failed,
    /// FLIPOP's own side failed. That proves nothing about the machine.
    NoVerdict(String),
}

/// The answer to a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Which check.
    pub key: CheckKey,
    /// How it ended.
    pub outcome: CheckOutcome,
}

/// The facts about the Lease that a kubelet renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Its name, which is that of the node.
    pub name: String,
    /// `spec.renewTime`, in microseconds since 1970. Only its changes count.
    pub renewed_us: Option<i64>,
    /// `spec.leaseDurationSeconds`, in milliseconds.
    pub duration_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: RawNodeCheck) -> (Option<NodeCheck>, Vec<SpecProblem>) {
        let mut problems = Vec::new();
        let check = NodeCheck::parse(Some(&raw), &mut problems);
        (check, problems)
    }

    #[test]
    fn absent_fields_have_their_defaults_and_an_absent_object_means_no_check() {
        assert_eq!(read(RawNodeCheck::default()), (Some(NodeCheck::default()), vec![]));
        assert_eq!(NodeCheck::parse(None, &mut Vec::new()), None);
        let least = RawNodeCheck {
            port: Some(1),
            period_seconds: Some(0.5),
            timeout_seconds: Some(0.1),
            failure_threshold: Some(2),
        };
        let most = RawNodeCheck {
            port: Some(65_535),
            period_seconds: Some(10.0),
            timeout_seconds: Some(10.0),
            failure_threshold: Some(10),
        };
        let check =
            |port, period_ms, timeout_ms, threshold| NodeCheck { port, period_ms, timeout_ms, threshold };
        assert_eq!(read(least).0, Some(check(1, 500, 100, 2)));
        assert_eq!(read(most).0, Some(check(65_535, 10_000, 10_000, 10)));
    }

    #[test]
    fn a_mistake_switches_off_the_checks_of_the_object_and_names_the_field() {
        let raw = RawNodeCheck::default();
        for (raw, field) in [
            (RawNodeCheck { port: Some(0), ..raw }, "port"),
            (RawNodeCheck { port: Some(65_536), ..raw }, "port"),
            (RawNodeCheck { period_seconds: Some(0.4), ..raw }, "periodSeconds"),
            (RawNodeCheck { period_seconds: Some(10.1), ..raw }, "periodSeconds"),
            (RawNodeCheck { period_seconds: Some(f64::NAN), ..raw }, "periodSeconds"),
            (RawNodeCheck { timeout_seconds: Some(-1.0), ..raw }, "timeoutSeconds"),
            (RawNodeCheck { timeout_seconds: Some(1e300), ..raw }, "timeoutSeconds"),
            (RawNodeCheck { failure_threshold: Some(1), ..raw }, "failureThreshold"),
            (RawNodeCheck { failure_threshold: Some(11), ..raw }, "failureThreshold"),
        ] {
            let (check, problems) = read(raw);
            assert_eq!(check, None, "{raw:?}");
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert_eq!(problem.field, format!("spec.nodeCheck.{field}"));
            assert_eq!(problem.scope, Scope::NodeCheck);
        }
    }
}
