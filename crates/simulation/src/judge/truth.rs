//! The truth about the cluster, from the API server's own log: which node is a candidate of which pool, now and
//! lately.
//!
//! A second, naive opinion on matching. It uses no code of the operator.

use super::selector::selects;
use super::since::{Former, Since, note};
use super::validity::{self, field, text};
use crate::scene::{MACHINES, POOLS, RECORD_SETS};
use flipop_apiserver::Change;
use flipop_cloud::IpView;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) droplet: Option<u64>,
    pub(super) annotation: Option<String>,
    created: String,
    pub(super) internal: String,
    pub(super) external: String,
    ready: bool,
    deleting: bool,
    pub(super) labels: BTreeMap<String, String>,
    taints: Vec<Value>,
}

/// A pool or a record set, with the fields that the rules need.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) created: String,
    pub(super) deleting: bool,
    pub(super) generation: i64,
    /// The requested move.
    pub(super) asks: String,
    pub(super) spec: Value,
    pub(super) status: Value,
}

/// The present cluster.
#[derive(Debug, Default)]
pub(super) struct Truth {
    pub(super) nodes: BTreeMap<String, Node>,
    /// The nodes of each droplet, by age: when they were made, and their names.
    on: BTreeMap<u64, BTreeSet<(String, String)>>,
    pods: BTreeMap<String, Value>,
    former_nodes: Former<Node>,
    former_pods: Former<Value>,
    pub(super) pools: BTreeMap<String, Pool>,
    pub(super) record_sets: BTreeMap<String, Pool>,
    /// Whether a pool follows, or followed, its spec.
    live: BTreeMap<String, Since>,
    /// Whether a droplet is, or was, a candidate of a pool.
    matched: BTreeMap<(String, u64), Since>,
    /// Whether a pool names, or named, an address.
    named: BTreeMap<(String, Ipv4Addr), Since>,
}

fn strings(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    let fields = field(value, pointer).and_then(Value::as_object).into_iter().flatten();
    fields.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    field(value, pointer).and_then(Value::as_array).into_iter().flatten()
}

fn condition(object: &Value, kind: &str) -> bool {
    items(object, "/status/conditions").any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
}

fn address(object: &Value, kind: &str) -> String {
    let mut addresses = items(object, "/status/addresses");
    addresses.find(|a| text(a, "/type") == kind).map(|a| text(a, "/address")).unwrap_or_default().to_owned()
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    field(object, "/metadata/annotations")?.get(name)?.as_str()
}

fn node(object: &Value) -> Node {
    Node {
        name: text(object, "/metadata/name").to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
        droplet: MACHINES.named(text(object, "/spec/providerID")),
        annotation: annotation(object, "flipop.digitalocean.com/ipv4-reserved-ip").map(str::to_owned),
        created: text(object, "/metadata/creationTimestamp").to_owned(),
        internal: address(object, "InternalIP"),
        external: address(object, "ExternalIP"),
        ready: condition(object, "Ready"),
        deleting: field(object, "/metadata/deletionTimestamp").is_some(),
        labels: strings(object, "/metadata/labels"),
        taints: items(object, "/spec/taints").cloned().collect(),
    }
}

impl Node {
    fn age(&self) -> (String, String) {
        (self.created.clone(), self.name.clone())
    }

    /// Whether an address is on its droplet.
    pub(super) fn holds(&self, view: &IpView) -> bool {
        self.droplet.is_some() && view.droplet == self.droplet
    }

    /// Whether it is Ready and is not being deleted.
    pub(super) fn is_well(&self) -> bool {
        self.ready && !self.deleting
    }
}

fn pool(object: &Value) -> Pool {
    Pool {
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
        created: text(object, "/metadata/creationTimestamp").to_owned(),
        deleting: field(object, "/metadata/deletionTimestamp").is_some(),
        generation: field(object, "/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
        asks: annotation(object, "flipop.digitalocean.com/move").unwrap_or_default().to_owned(),
        spec: object.get("spec").cloned().unwrap_or_default(),
        status: object.get("status").cloned().unwrap_or_default(),
    }
}

/// Puts the present state of an object in place of its former one, or only removes that if the object is gone.
fn replace<T>(all: &mut BTreeMap<String, T>, key: String, now: Option<T>) -> Option<T> {
    let was = all.remove(&key);
    all.extend(now.map(|now| (key, now)));
    was
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
    let same_key = key == text(taint, "/key") || (key.is_empty() && operator == "Exists");
    let same_value = operator == "Exists" || text(toleration, "/value") == text(taint, "/value");
    let effect = text(toleration, "/effect");
    same_key && same_value && (effect.is_empty() || effect == text(taint, "/effect"))
}

fn is_candidate<'a>(pool: &Pool, node: &Node, pods: impl Iterator<Item = &'a Value>) -> bool {
    failure(pool, node, pods).is_none()
}

/// Why a node does not match. A failure that can end by itself may be waited for. A decision by a person may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fails {
    /// No pod serves.
    Pods,
    /// The node itself fails.
    Node,
    /// It fails for good, until somebody changes it.
    ForGood,
}

/// Taints that Kubernetes sets and removes by itself.
const OF_NODES: [&str; 6] =
    ["not-ready", "unreachable", "network-unavailable", "memory-pressure", "disk-pressure", "pid-pressure"];

/// The most lasting reason why a node does not match.
fn failure<'a>(pool: &Pool, node: &Node, pods: impl Iterator<Item = &'a Value>) -> Option<Fails> {
    let untolerated = |taint: &&Value| !items(&pool.spec, "/match/tolerations").any(|t| tolerates(t, taint));
    let passes = |taint: &Value| {
        text(taint, "/key").strip_prefix("node.kubernetes.io/").is_some_and(|key| OF_NODES.contains(&key))
    };
    let mut taints = node.taints.iter().filter(untolerated).peekable();
    let tainted = taints.peek().is_some();
    let selected = node.droplet.is_some() && selects(pool.match_of("nodeLabel"), &node.labels);
    if node.deleting || !selected || !taints.all(passes) {
        Some(Fails::ForGood)
    } else if !node.ready || tainted {
        Some(Fails::Node)
    } else {
        (!is_served(pool, node, pods)).then_some(Fails::Pods)
    }
}

fn is_served<'a>(pool: &Pool, node: &Node, mut pods: impl Iterator<Item = &'a Value>) -> bool {
    !pool.asks_for_pods()
        || pods.any(|pod| {
            pool.asks_for(pod, node)
                && text(pod, "/status/phase") == "Running"
                && condition(pod, "Ready")
                && field(pod, "/metadata/deletionTimestamp").is_none()
        })
}

impl Pool {
    /// The valid addresses of `spec.ips`, without those that the pool gives up.
    pub(super) fn spec_ips(&self) -> Vec<Ipv4Addr> {
        let ips = items(&self.spec, "/ips").filter_map(Value::as_str).filter_map(|ip| ip.parse().ok());
        ips.filter(|ip| !self.lets_go(*ip)).collect()
    }

    /// `spec.desiredIPs`.
    pub(super) fn desired(&self) -> usize {
        let desired = self.spec.get("desiredIPs").and_then(Value::as_u64).unwrap_or_default();
        usize::try_from(desired).unwrap_or(usize::MAX)
    }

    /// Created addresses in the status, without those that the pool gives up.
    pub(super) fn remembered(&self) -> Vec<Ipv4Addr> {
        let ips = items(&self.status, "/createdIPs").filter_map(|created| text(created, "/ip").parse().ok());
        ips.filter(|ip| !self.lets_go(*ip)).collect()
    }

    /// The number of addresses that the pool gives up.
    pub(super) fn let_go(&self) -> usize {
        items(&self.spec, "/releasedIPs").count()
    }

    /// `spec.releasedIPs` wins over every other list.
    pub(super) fn lets_go(&self, ip: Ipv4Addr) -> bool {
        items(&self.spec, "/releasedIPs")
            .any(|released| released.as_str().and_then(|text| text.parse().ok()) == Some(ip))
    }

    /// Whether the pool names an address in any way, or its status remembers that it held it.
    pub(super) fn held(&self, ip: Ipv4Addr) -> bool {
        self.effective().contains(&ip) || self.lets_go(ip) || self.states().contains_key(&ip.to_string())
    }

    /// Every address that counts, in order: `spec.ips`, then the created ones. Addresses that the pool gives up do
    /// not count.
    pub(super) fn effective(&self) -> Vec<Ipv4Addr> {
        let released: Vec<Ipv4Addr> =
            items(&self.spec, "/releasedIPs").filter_map(|ip| ip.as_str()?.parse().ok()).collect();
        let mut effective = Vec::new();
        for ip in self.spec_ips().into_iter().chain(self.remembered()) {
            if !effective.contains(&ip) && !released.contains(&ip) {
                effective.push(ip);
            }
        }
        effective
    }

    /// Whether an address occurs anywhere in the spec or the status, messages included.
    pub(super) fn mentions(&self, ip: Ipv4Addr) -> bool {
        let address = ip.to_string();
        let stands = |text: String| {
            let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
            words.into_iter().any(|word| word.trim_end_matches('.') == address)
        };
        stands(self.spec.to_string()) || stands(self.status.to_string())
    }

    /// The addresses in use, in order: the first `desiredIPs` of the effective list, or all of them.
    pub(super) fn used(&self) -> Vec<Ipv4Addr> {
        let mut effective = self.effective();
        if self.desired() > 0 {
            effective.truncate(self.desired());
        }
        effective
    }

    /// Whether a mistake in the spec stops the whole pool.
    pub(super) fn is_frozen(&self) -> bool {
        validity::is_frozen(&validity::of_pool(&self.spec))
    }

    /// The key for the order by age.
    pub(super) fn age(&self) -> (&str, &str, &str) {
        (&self.created, &self.namespace, &self.name)
    }

    fn asks_for(&self, pod: &Value, node: &Node) -> bool {
        let (namespace, label) = (self.match_of("podNamespace"), self.match_of("podLabel"));
        text(pod, "/spec/nodeName") == node.name
            && (namespace.is_empty() || text(pod, "/metadata/namespace") == namespace)
            && selects(label, &strings(pod, "/metadata/labels"))
    }

    /// Whether a matching node needs a pod.
    pub(super) fn asks_for_pods(&self) -> bool {
        !self.match_of("podNamespace").is_empty() || !self.match_of("podLabel").is_empty()
    }

    /// The entries of `status.ips`, by address.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&str, &Value)> {
        let ips = self.status.get("ips").and_then(Value::as_object).into_iter().flatten();
        ips.map(|(ip, entry)| (ip.as_str(), entry))
    }

    /// The addresses in `status.ips`, and their states.
    pub(super) fn states(&self) -> BTreeMap<String, String> {
        self.addresses().map(|(ip, entry)| (ip.to_owned(), text(entry, "/state").to_owned())).collect()
    }

    /// The right keys of `status.ips`: invalid entries of the spec, and every address that counts.
    pub(super) fn entries(&self) -> BTreeSet<String> {
        let addresses = self.effective().into_iter().map(|ip| ip.to_string());
        validity::bad_entries(&self.spec).into_iter().chain(addresses).collect()
    }

    /// The status and the reason of a condition; empty texts if it is absent.
    pub(super) fn says(&self, kind: &str) -> (&str, &str) {
        self.condition(kind).map(|found| (text(found, "/status"), text(found, "/reason"))).unwrap_or_default()
    }

    /// A condition, by its type.
    pub(super) fn condition(&self, kind: &str) -> Option<&Value> {
        self.conditions().find(|condition| text(condition, "/type") == kind)
    }

    /// All conditions.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Value> {
        items(&self.status, "/conditions")
    }

    /// `status.observedGeneration`.
    pub(super) fn observed(&self) -> i64 {
        self.status.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default()
    }

    fn match_of(&self, field: &str) -> &str {
        let criterion = self.spec.get("match").and_then(|criteria| criteria.get(field));
        criterion.and_then(Value::as_str).unwrap_or_default()
    }
}

impl Truth {
    /// Takes in a change of the API server. Returns whether it concerns candidates or pools.
    pub(super) fn apply(&mut self, change: &Change, now_ms: u64) -> bool {
        let key = change.key.name.clone();
        let after = change.after.as_deref();
        match change.storage.plural.as_str() {
            "nodes" => {
                let was = self.nodes.remove(&key);
                if let Some(node) = &was {
                    node.droplet.and_then(|droplet| self.on.get_mut(&droplet)?.take(&node.age()));
                }
                self.former_nodes.keep(was, now_ms);
                if let Some(node) = after.map(node) {
                    node.droplet.map(|droplet| self.on.entry(droplet).or_default().insert(node.age()));
                    self.nodes.insert(key, node);
                }
            }
            "pods" => self.former_pods.keep(replace(&mut self.pods, key, after.cloned()), now_ms),
            POOLS => drop(replace(&mut self.pools, key, after.map(pool))),
            RECORD_SETS => drop(replace(&mut self.record_sets, key, after.map(pool))),
            _ => return false,
        }
        self.look(now_ms);
        true
    }

    fn look(&mut self, now_ms: u64) {
        let mut candidates = BTreeSet::new();
        let mut names = BTreeSet::new();
        for (name, pool) in &self.pools {
            for node in self.candidates(pool) {
                candidates.extend(node.droplet.map(|droplet| (name.clone(), droplet)));
            }
            names.extend(pool.effective().into_iter().map(|ip| (name.clone(), ip)));
        }
        note(&mut self.matched, candidates, now_ms);
        note(&mut self.named, names, now_ms);
        for (name, pool) in &self.pools {
            self.live.entry(name.clone()).or_default().set(!pool.is_frozen(), now_ms);
        }
    }

    /// Why a node does not match.
    pub(super) fn failure(&self, object: &Pool, node: &Node) -> Option<Fails> {
        failure(object, node, self.pods.values())
    }

    /// The latest time at which a pod of the node stopped being Ready, as its condition says.
    pub(super) fn pods_fail_since(&self, object: &Pool, node: &Node) -> Option<String> {
        let pods = self.pods.values().filter(|pod| object.asks_for(pod, node) && !condition(pod, "Ready"));
        let since = pods.flat_map(|pod| items(pod, "/status/conditions"));
        let since = since.filter(|condition| text(condition, "/type") == "Ready");
        since.map(|condition| text(condition, "/lastTransitionTime").to_owned()).max()
    }

    /// The nodes that a pool's criteria select now.
    pub(super) fn candidates<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Node> {
        self.matching(pool).filter(|node| self.elder(pool, node).is_none())
    }

    /// Those in whose place an older node of their droplet counts.
    pub(super) fn shadowed<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Node> {
        self.matching(pool).filter(|node| self.elder(pool, node).is_some())
    }

    fn matching<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Node> {
        self.nodes.values().filter(|node| is_candidate(pool, node, self.pods.values()))
    }

    /// The older node on the droplet of a node that matches. Addresses are on droplets, and names are for nodes.
    fn elder(&self, pool: &Pool, node: &Node) -> Option<&Node> {
        let on = self.on.get(&node.droplet?).filter(|on| on.len() > 1)?;
        if self.record_sets.get(&pool.name).is_some_and(|set| set.uid == pool.uid) {
            return None;
        }
        let older = on.range(..node.age()).filter_map(|(_, name)| self.nodes.get(name));
        older.into_iter().find(|older| is_candidate(pool, older, self.pods.values()))
    }

    /// The nodes that they select now, or selected at some time since `from_ms`.
    pub(super) fn candidates_since<'a>(
        &'a self,
        pool: &'a Pool,
        from_ms: u64,
    ) -> impl Iterator<Item = &'a Node> {
        let nodes = self.nodes.values().chain(self.former_nodes.since(from_ms));
        let pods = move || self.pods.values().chain(self.former_pods.since(from_ms));
        nodes.filter(move |node| is_candidate(pool, node, pods()))
    }

    /// The nodes, and their states at any time since `from_ms`.
    pub(super) fn nodes_since(&self, from_ms: u64) -> impl Iterator<Item = &Node> {
        self.nodes.values().chain(self.former_nodes.since(from_ms))
    }

    /// Pools that name an address, or did since `from_ms`.
    pub(super) fn owners(&self, ip: Ipv4Addr, from_ms: u64) -> Vec<String> {
        let named = self.named.iter().filter(|((_, other), since)| *other == ip && since.held(from_ms));
        named.map(|((pool, _), _)| pool.clone()).collect()
    }

    /// Pools that have named an address all along since `from_ms`.
    pub(super) fn named_since(&self, ip: Ipv4Addr, from_ms: u64) -> Vec<String> {
        let named = self.named.iter().filter(|((_, other), since)| *other == ip && since.lasts(from_ms));
        named.map(|((pool, _), _)| pool.clone()).collect()
    }

    /// Whether a pool named an address at any time.
    pub(super) fn was_named(&self, pool: &str, ip: Ipv4Addr) -> bool {
        self.named.contains_key(&(pool.to_owned(), ip))
    }

    /// Whether a droplet was a candidate at some time since `from_ms`.
    pub(super) fn matched(&self, pool: &str, droplet: u64, from_ms: u64) -> bool {
        let since = self.matched.get(&(pool.to_owned(), droplet));
        // A new pool may be served from older knowledge of nodes.
        let known = |pool| self.candidates_since(pool, from_ms).any(|node| node.droplet == Some(droplet));
        since.is_some_and(|since| since.held(from_ms)) || self.pools.get(pool).is_some_and(known)
    }

    /// Whether a droplet was no candidate at some time since `from_ms`.
    pub(super) fn unmatched(&self, pool: &str, droplet: u64, from_ms: u64) -> bool {
        let since = self.matched.get(&(pool.to_owned(), droplet));
        let known = |pool| {
            let mut nodes = self.former_nodes.since(from_ms).filter(|node| node.droplet == Some(droplet));
            nodes.any(|node| !is_candidate(pool, node, self.pods.values()))
        };
        since.is_none_or(|since| since.lapsed(from_ms)) || self.pools.get(pool).is_some_and(known)
    }

    /// The number of objects of a kind with these labels.
    pub(super) fn count(&self, resource: &str, selector: &str) -> u64 {
        let count = match resource {
            "nodes" => self.nodes.values().filter(|node| selects(selector, &node.labels)).count(),
            "pods" => {
                let labels = |pod: &&Value| selects(selector, &strings(pod, "/metadata/labels"));
                self.pods.values().filter(labels).count()
            }
            "floatingippools" => self.pools.len(),
            "nodednsrecordsets" => self.record_sets.len(),
            _ => 0,
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Whether a pool's spec could be followed at some time since `from_ms`.
    pub(super) fn followed(&self, pool: &str, from_ms: u64) -> bool {
        self.live.get(pool).is_some_and(|live| live.held(from_ms))
    }

    /// A pool or a record set.
    pub(super) fn object(&self, kind: &str, name: &str) -> Option<&Pool> {
        match kind {
            POOLS => self.pools.get(name),
            RECORD_SETS => self.record_sets.get(name),
            _ => None,
        }
    }

    /// Whether an address belongs to a pool.
    pub(super) fn owns(&self, pool: &Pool, ip: Ipv4Addr) -> bool {
        self.owner(ip).is_some_and(|owner| owner.uid == pool.uid)
    }

    /// The pool that an address belongs to: the oldest that uses it.
    pub(super) fn owner(&self, ip: Ipv4Addr) -> Option<&Pool> {
        let claims = |pool: &&Pool| !pool.deleting && pool.effective().contains(&ip);
        self.pools.values().filter(claims).min_by(|one, other| one.age().cmp(&other.age()))
    }
}
