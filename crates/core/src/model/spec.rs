//! The fields that the specs of both kinds share, as they were written, and the mistakes in them.
//!
//! A mistake is scoped: each [`SpecProblem`] says how far it reaches. Nothing here fails as a whole.

use crate::model::matching::{Criteria, Toleration};
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
        Some(Criteria { node_selector, pods, tolerations: self.tolerations.clone() })
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
