//! The fields that the specs of both kinds share, as they were written, and the mistakes in them.
//!
//! A mistake is scoped: each [`SpecProblem`] says how far it reaches. Nothing here fails as a whole.

use crate::model::matching::{Criteria, Toleration};
use crate::model::mismatch::Class;
use crate::model::selector::{Selector, SelectorError, is_dns_label};
use crate::model::words::shown;
use std::fmt;

/// `spec.match` as it was written; empty strings mean absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawMatch {
    /// Label selector of nodes.
    pub node_label: String,
    /// Namespace of pods.
    pub pod_namespace: String,
    /// Label selector of pods.
    pub pod_label: String,
    /// Tolerations of node taints.
    pub tolerations: Vec<Toleration>,
}

impl RawMatch {
    /// The criteria that a node must meet. `None` if a selector does not parse or the namespace is not a valid name.
    /// The mistake is then added to `problems` with this scope.
    pub fn criteria(&self, scope: Scope, problems: &mut Vec<SpecProblem>) -> Option<Criteria> {
        let mut parse = |field: &str, text: &str| {
            let note = |error: SelectorError| {
                let (field, message) = (field.to_owned(), format!("not a label selector: {error}"));
                problems.push(SpecProblem { scope, field, message });
            };
            Selector::parse(text).map_err(note).ok()
        };
        let node_selector = parse("spec.match.nodeLabel", &self.node_label);
        let pod_selector = parse("spec.match.podLabel", &self.pod_label);
        let namespace = &self.pod_namespace;
        if !namespace.is_empty() && !is_dns_label(namespace) {
            // The name becomes part of a request path, and must not lead to another path.
            let shown = shown(namespace);
            let message =
                format!("{shown:?} is not the name of a namespace; use lower case letters, digits and '-'");
            problems.push(SpecProblem { scope, field: "spec.match.podNamespace".to_owned(), message });
            return None;
        }
        let (node_selector, pod_selector) = (node_selector?, pod_selector?);
        let pods = (!self.pod_namespace.is_empty() || !self.pod_label.is_empty())
            .then(|| (self.pod_namespace.clone(), pod_selector));
        Some(Criteria::new(node_selector, pods, self.tolerations.clone()))
    }
}

/// `spec.dnsRecordSet` as it was written; empty strings and 0 mean absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawRecordSet {
    /// DNS provider.
    pub provider: String,
    /// Zone, by name or (Cloudflare) by id.
    pub zone: String,
    /// Record name, relative or fully qualified.
    pub record_name: String,
    /// Seconds.
    pub ttl: i64,
    /// The treatment of a set without an address to publish.
    pub when_empty: String,
}

/// How far a mistake reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole pool is frozen, because a field is over its bound.
    Size,
    /// The whole pool is frozen: existing assignments are kept, and nothing new begins.
    Pool,
    /// Only the creation of missing addresses.
    Creation,
    /// Only this entry of `spec.ips`.
    Entry,
    /// Only the record set.
    RecordSet,
    /// Only the check that enough addresses are active.
    Minimum,
    /// Only the grace of nodes that fail.
    Grace,
    /// Only the ports that are opened.
    Firewall,
    /// Only the labels of nodes.
    Labels,
    /// Only the policy for addresses that the spec gives up.
    Reclaim,
    /// Only the checks of nodes.
    NodeCheck,
}

/// One mistake in a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecProblem {
    /// How far it reaches.
    pub scope: Scope,
    /// The field, as a path such as `spec.match.nodeLabel`.
    pub field: String,
    /// The mistake and its remedy.
    pub message: String,
}

impl fmt::Display for SpecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// A grace of more than an hour is surely a mistake: the address would not serve for that long.
pub const MAX_GRACE_SECONDS: i64 = 3_600;

/// A failure of the pods waits this long for the node failure that may have caused it. Kubernetes marks the pods of a
/// lost node right after the node.
const NODE_FOLLOWS_MS: u64 = 1_000;

/// `spec.grace` as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawGrace {
    /// Seconds that a failure of the pods may last.
    pub pod_seconds: i64,
    /// Seconds that a failure of the node may last.
    pub node_seconds: i64,
    /// Seconds that a node has to match again before it counts as new.
    pub recovery_seconds: i64,
}

/// How long failures are tolerated. Zero means not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grace {
    /// A failure of the pods may last this long.
    pub pod_ms: u64,
    /// A failure of the node may last this long.
    pub node_ms: u64,
    /// A node that lost its match has to match this long before it counts as new.
    pub recovery_ms: u64,
}

impl Grace {
    /// Parses `spec.grace`. The CRDs refuse a value out of bounds. If one appears anyway, only grace is switched off.
    pub fn parse(raw: &RawGrace, problems: &mut Vec<SpecProblem>) -> Self {
        let before = problems.len();
        let mut read = |field: &str, seconds: i64| {
            if let Some(seconds) = u64::try_from(seconds).ok().filter(|_| seconds <= MAX_GRACE_SECONDS) {
                return seconds * 1_000;
            }
            problems.push(SpecProblem {
                scope: Scope::Grace,
                field: format!("spec.grace.{field}"),
                message: format!(
                    "{seconds} is ignored, and so is all of spec.grace; use a number from 0 to {MAX_GRACE_SECONDS}"
                ),
            });
            0
        };
        let grace = Self {
            pod_ms: read("podSeconds", raw.pod_seconds),
            node_ms: read("nodeSeconds", raw.node_seconds),
            recovery_ms: read("recoverySeconds", raw.recovery_seconds),
        };
        if problems.len() > before { Self::default() } else { grace }
    }

    /// How long a failure of this class may last. Zero for a hard failure.
    pub fn limit_ms(&self, class: Class) -> u64 {
        match class {
            Class::Pod if self.node_ms > self.pod_ms => self.pod_ms.max(NODE_FOLLOWS_MS.min(self.node_ms)),
            Class::Pod => self.pod_ms,
            Class::Node => self.node_ms,
            Class::Hard => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_pods_waits_for_the_one_of_their_node() {
        let grace = |pod_ms, node_ms| Grace { pod_ms, node_ms, recovery_ms: 0 };
        for (grace, limit) in [
            (grace(0, 0), 0),
            (grace(0, 60_000), 1_000),
            (grace(500, 60_000), 1_000),
            (grace(5_000, 60_000), 5_000),
            (grace(5_000, 0), 5_000),
            (grace(0, 500), 500),
        ] {
            assert_eq!(grace.limit_ms(Class::Pod), limit, "{grace:?}");
        }
        assert_eq!(
            (grace(5_000, 0).limit_ms(Class::Node), grace(1, 7_000).limit_ms(Class::Node)),
            (0, 7_000)
        );
        assert_eq!(grace(5_000, 5_000).limit_ms(Class::Hard), 0);
    }

    #[test]
    fn a_mistake_switches_off_grace_alone_and_names_the_field() {
        let read = |pod_seconds, node_seconds, recovery_seconds| {
            let mut problems = Vec::new();
            let grace =
                Grace::parse(&RawGrace { pod_seconds, node_seconds, recovery_seconds }, &mut problems);
            (grace, problems)
        };
        let good = Grace { pod_ms: 1_000, node_ms: 3_600_000, recovery_ms: 0 };
        assert_eq!(read(1, 3_600, 0), (good, vec![]));
        for (raw, field) in [
            ((-1, 60, 60), "spec.grace.podSeconds"),
            ((60, 3_601, 60), "spec.grace.nodeSeconds"),
            ((60, 60, i64::MIN), "spec.grace.recoverySeconds"),
        ] {
            let (grace, problems) = read(raw.0, raw.1, raw.2);
            assert_eq!(grace, Grace::default());
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert_eq!((problem.scope, problem.field.as_str()), (Scope::Grace, field));
        }
    }
}
