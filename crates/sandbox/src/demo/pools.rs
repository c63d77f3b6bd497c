//! Pools as the API server shows them, and which nodes match them and why. The operator's own types read them, and its
//! own rule judges them.

use flipop::api::translate::pool::pool_object;
use flipop::api::{FloatingIPPool, FloatingIPPoolStatus};
use flipop::kube::objects::{NodeSlim, PodSlim};
use flipop_apiserver::{ApiServer, Key};
use flipop_core::addresses::pool::spec::{PoolSpec, RawPoolSpec};
use flipop_core::model::node_labels::LabelKey;
use flipop_core::model::selector::Selector;
use flipop_core::model::spec::{Scope, SpecProblem};
use flipop_core::model::{
    Criteria, Mismatch, NodeFacts, ObjectName, Observed, PodFacts, PodStore, RESERVED_IP_ANNOTATION, verdict,
};
use flipop_sandbox::advice::providers;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Version of FLIPOP's kinds.
pub(super) const API_VERSION: &str = "flipop.digitalocean.com/v1alpha1";

/// The kind of pools.
pub(super) const POOL_KIND: &str = "FloatingIPPool";

/// The kind of record sets.
pub(super) const RECORD_SET_KIND: &str = "NodeDNSRecordSet";

/// A pool as it is on the API server.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) name: ObjectName,
    pub(super) spec: PoolSpec,
    pub(super) generation: i64,
    pub(super) status: FloatingIPPoolStatus,
}

/// An address whose node is made to fail.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Victim {
    pub(super) pool: ObjectName,
    pub(super) ip: Ipv4Addr,
    pub(super) node: String,
}

impl Pool {
    /// From an object; `None` if it cannot be read as a pool.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let pool: FloatingIPPool = serde_json::from_value(object.clone()).ok()?;
        let status = pool.status.clone().unwrap_or_default();
        let object = pool_object(&Ok(pool));
        let spec = parsed(&object.spec.ok()?);
        Some(Self { name: object.object.name, spec, generation: object.generation, status })
    }

    /// A condition: its status, reason and message.
    pub(super) fn condition(&self, kind: &str) -> Option<(&str, &str, &str)> {
        let found = self.status.conditions.iter().find(|condition| condition.type_ == kind)?;
        Some((&found.status, &found.reason, &found.message))
    }

    fn condition_is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|(found, _, _)| found == status)
    }

    /// Whether the operator has seen the present spec.
    pub(super) fn is_observed(&self) -> bool {
        self.status.observed_generation == Some(self.generation)
    }

    /// Whether everything is as wanted.
    pub(super) fn is_ready(&self) -> bool {
        self.is_observed() && self.condition_is("Ready", "True")
    }

    /// Whether the spec has a mistake.
    pub(super) fn is_invalid(&self) -> bool {
        self.is_observed() && self.condition_is("SpecValid", "False")
    }

    /// Whether a mistake in the spec stops all new work.
    pub(super) fn is_frozen(&self) -> bool {
        self.is_observed() && self.condition("Ready").is_some_and(|(_, reason, _)| reason == "InvalidSpec")
    }

    /// Why the pool can never become healthy as it is, whatever the nodes do; `None` if it can.
    pub(super) fn never(&self) -> Option<String> {
        if self.is_frozen() {
            return Some("a mistake in its spec stops it".to_owned());
        }
        let impossible = |problem: &&SpecProblem| problem.scope == Scope::Creation;
        let missing = self.spec.desired.is_some_and(|desired| desired > self.spec.ips.len());
        if let Some(problem) = self.spec.problems.iter().find(impossible).filter(|_| missing) {
            return Some(problem.to_string());
        }
        let selector = |selector: &Selector| selector.example().is_none();
        let criteria = self.spec.criteria.as_ref()?;
        if selector(&criteria.node_selector) {
            return Some("no node can have labels that spec.match.nodeLabel selects".to_owned());
        }
        if criteria.pods.as_ref().is_some_and(|(_, pods)| selector(pods)) {
            return Some("no pod can have labels that spec.match.podLabel selects".to_owned());
        }
        let claimed =
            self.condition("Conflict").filter(|(status, ..)| self.is_observed() && *status == "True");
        claimed.map(|(_, reason, message)| format!("{reason}: {message}"))
    }

    /// The addresses on matching nodes, with the nodes.
    pub(super) fn active(&self) -> BTreeMap<Ipv4Addr, String> {
        let active = self.status.ips.iter().filter(|(_, ip)| ip.state == "active");
        active.filter_map(|(ip, status)| Some((ip.parse().ok()?, status.node_name.clone()))).collect()
    }

    /// Whether it holds an address, by its spec or by its status.
    pub(super) fn names(&self, ip: Ipv4Addr) -> bool {
        self.spec.ips.contains(&ip.into()) || self.status.ips.contains_key(&ip.to_string())
    }

    /// The faults of an unexpected pool, one line each: the troubles in its status, or the fact that the status
    /// claims all is well.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.status.error.is_empty() {
            lines.push(format!("status.error: {}", self.status.error));
        }
        for condition in &self.status.conditions {
            if is_abnormal(&condition.type_, &condition.status) {
                let (kind, status, reason) = (&condition.type_, &condition.status, &condition.reason);
                lines.push(format!("{kind}={status} {reason}: {}", condition.message));
            }
        }
        for (ip, status) in self.status.ips.iter().filter(|(_, status)| !status.error.is_empty()) {
            lines.push(format!("status.ips[{ip}]: {}: {}", status.state, status.error));
        }
        if !self.is_observed() {
            lines.push("the operator has written no status for this spec".to_owned());
        }
        if lines.is_empty() {
            let (status, reason, message) = self.condition("Ready").unwrap_or_default();
            lines.push(format!("Ready={status} {reason}: {message}, which is not what was expected"));
        }
        lines
    }
}

/// Whether a condition reports trouble. These conditions should be `True`; all others report trouble when they are.
pub(super) fn is_abnormal(kind: &str, status: &str) -> bool {
    matches!(kind, "Ready" | "SpecValid" | "ProviderReady" | "RecordSetReady" | "FirewallReady")
        != (status == "True")
}

/// A spec as the operator reads it.
pub(super) fn parsed(raw: &RawPoolSpec) -> PoolSpec {
    PoolSpec::parse(raw, &providers())
}

/// All pools, by namespace and name.
pub(super) fn pools(api: &ApiServer) -> Vec<Pool> {
    api.objects(API_VERSION, POOL_KIND).iter().filter_map(Pool::read).collect()
}

/// One pool.
pub(super) fn pool(api: &ApiServer, name: &ObjectName) -> Option<Pool> {
    pools(api).into_iter().find(|pool| pool.name == *name)
}

/// How a node relates to a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It matches.
    Matches,
    /// It does not match, for this reason.
    Fails(Mismatch),
    /// Its labels do not meet the pool's node selector.
    NotSelected,
}

/// How each node relates to each pool.
pub(super) type Standings = BTreeMap<(ObjectName, String), Standing>;

/// Judges all nodes for all pools, as they are now.
pub(super) fn standings(api: &ApiServer) -> Standings {
    let cluster = Cluster::now(api);
    let mut standings = Standings::new();
    for pool in pools(api) {
        let Some(criteria) = &pool.spec.criteria else { continue };
        for (node, standing) in cluster.judge(criteria) {
            standings.insert((pool.name.clone(), node.name.clone()), standing);
        }
    }
    standings
}

/// All nodes and pods at one moment.
pub(super) struct Cluster {
    nodes: Vec<(BTreeMap<String, String>, NodeFacts)>,
    pods: Vec<(BTreeMap<String, String>, PodFacts)>,
}

impl Cluster {
    /// The present nodes and pods of the API server.
    pub(super) fn now(api: &ApiServer) -> Self {
        let nodes = api.objects("v1", "Node").iter().filter_map(node).collect();
        let pods = api.objects("v1", "Pod").iter().filter_map(pod).collect();
        Self { nodes, pods }
    }

    /// How each node relates to these criteria.
    pub(super) fn judge<'a>(
        &'a self,
        criteria: &'a Criteria,
    ) -> impl Iterator<Item = (&'a NodeFacts, Standing)> {
        let serving = serving(criteria, &self.pods);
        self.nodes.iter().map(move |(labels, node)| {
            let standing = if !criteria.node_selector.matches(labels) {
                Standing::NotSelected
            } else if let Err(mismatch) = verdict(criteria, node, Some(&serving)) {
                Standing::Fails(mismatch)
            } else {
                Standing::Matches
            };
            (node, standing)
        })
    }
}

fn serving(criteria: &Criteria, pods: &[(BTreeMap<String, String>, PodFacts)]) -> PodStore {
    let mut store = PodStore::default();
    let Some((namespace, selector)) = &criteria.pods else { return store };
    let selected = pods.iter().filter(|(labels, pod)| {
        (namespace.is_empty() || *namespace == pod.namespace) && selector.matches(labels)
    });
    store.observe(Observed::Reset(selected.map(|(_, pod)| pod.clone()).collect()));
    store
}

/// The reserved IP in a node's annotation.
pub(super) fn annotation(node: &Value) -> Option<&str> {
    node.get("metadata")?.get("annotations")?.get(RESERVED_IP_ANNOTATION)?.as_str()
}

/// The labels of a node about its reserved IP, as `key=value`.
pub(super) fn ip_labels(node: &Value) -> Vec<String> {
    let keys = LabelKey::ALL.map(LabelKey::as_str);
    let ours = labels(node).into_iter().filter(|(key, _)| keys.contains(&key.as_str()));
    ours.map(|(key, value)| format!("{key}={value}")).collect()
}

/// Labels of an object.
pub(super) fn labels(object: &Value) -> BTreeMap<String, String> {
    strings(object, "/metadata/labels")
}

/// The texts of a map in an object.
pub(super) fn strings(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// A text in an object; empty if it is absent.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The namespace and the name of an object.
pub(super) fn key(object: &Value) -> Key {
    Key::new(text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

fn node(object: &Value) -> Option<(BTreeMap<String, String>, NodeFacts)> {
    let slim: NodeSlim = serde_json::from_value(object.clone()).ok()?;
    Some((labels(object), slim.into_facts()))
}

fn pod(object: &Value) -> Option<(BTreeMap<String, String>, PodFacts)> {
    let slim: PodSlim = serde_json::from_value(object.clone()).ok()?;
    Some((labels(object), slim.into_facts()))
}
