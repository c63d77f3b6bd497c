//! The nodes, pods, reserved IPs and DNS zones that a demonstration of some YAML needs. Derived from the specs, without
//! side effects or a clock.
//!
//! Invariants: a pool whose selectors can be met gets one node more than it has addresses, so a failover has a target.
//! The addresses of a pool with a cool-off are already on nodes, as after a restart of the operator, so its first
//! failover need not wait. The same YAML gives the same cast.

use super::manifest::{DEFAULT_NAMESPACE, Document};
use super::pools::{RECORD_SET_KIND, parsed};
use super::specs::{pool_spec, raw_spec};
use super::zones::{self, Zone};
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::firewalls::spec::FirewallSpec;
use flipop_core::model::Criteria;
use flipop_core::model::spec::MAX_GRACE_SECONDS;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The firewall that a managed cluster gives its droplets by a tag.
pub(super) const USERS_FIREWALL: (&str, &str) = ("k8s-worker", "k8s");

/// The region of a pool that names none.
const DEFAULT_REGION: &str = "nyc3";

/// The label that tells the operator a node's region.
const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// Nodes for a record set that no pool's nodes match.
const RECORD_SET_NODES: usize = 2;

/// The most addresses created in a story. The provider creates 12 a minute, and a story should not take longer.
const MAX_CREATED: usize = 6;

/// The most seconds that a pool's cool-offs may take in a story.
const MAX_COOL_OFFS_S: f64 = 60.0;

/// The most seconds that a failure may last in a story before its node stops matching.
const MAX_GRACE_S: u64 = 5;

/// Failovers in a story.
const FAILOVERS: usize = 2;

/// The objects that have to exist before the YAML is applied.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cast {
    pub(super) nodes: Vec<Node>,
    /// Reserved IPs of the account.
    pub(super) addresses: Vec<Address>,
    /// DNS zones of the two accounts.
    pub(super) zones: Vec<Zone>,
    /// Notes for the user on what is impossible.
    pub(super) notes: Vec<String>,
}

/// A node with the pods that serve on it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) region: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) pod: Option<Pod>,
}

/// A pod that makes its node match.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    /// The name of its set.
    pub(super) set: String,
}

/// A reserved IP that the account has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Address {
    pub(super) ip: Ipv4Addr,
    pub(super) region: String,
    /// The node that it is on from the beginning.
    pub(super) node: Option<String>,
}

/// The cast for these objects.
pub(super) fn cast(documents: &[Document]) -> Cast {
    let mut casting = Casting::default();
    let pools: Vec<(&Document, PoolSpec)> =
        documents.iter().filter_map(|document| Some((document, pool_spec(document)?))).collect();
    let shown = pools.iter().filter(|(_, spec)| !spec.is_frozen()).count();
    // With several pools, one has the first failover and another one the second.
    let spare = if shown > 1 { 1 } else { FAILOVERS };
    for (document, spec) in &pools {
        casting.add_pool(document, spec, spare);
    }
    for document in documents.iter().filter(|document| document.is(RECORD_SET_KIND)) {
        casting.add_record_set(document);
    }
    casting.cast.zones = zones::zones(documents);
    if pools.iter().any(|(_, spec)| spec.firewall != FirewallSpec::None) {
        let (name, tag) = USERS_FIREWALL;
        let note = format!(
            "the user's own firewall {name} governs every droplet by the tag {tag}, and lets in only SSH"
        );
        casting.cast.notes.push(note);
    }
    casting.cast
}

#[derive(Default)]
struct Casting {
    cast: Cast,
    /// The criteria that some nodes were created for.
    fitted: Vec<Criteria>,
    names: BTreeSet<String>,
    reserved: BTreeSet<Ipv4Addr>,
}

impl Casting {
    fn add_pool(&mut self, document: &Document, spec: &PoolSpec, spare: usize) {
        let region = spec.region.clone().unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let wanted = spec.desired.unwrap_or(spec.ips.len());
        let nodes = match &spec.criteria {
            Some(criteria) => self.add_nodes(document, criteria, &region, wanted.saturating_add(spare)),
            None => Vec::new(),
        };
        let mut free = nodes.into_iter().filter(|_| spec.cool_off_ms > 0);
        for (position, ip) in spec.ips.iter().enumerate() {
            let Some(ip) = ip.as_v4() else { continue };
            if self.reserved.insert(ip) {
                let node = if position < wanted { free.next() } else { None };
                self.cast.addresses.push(Address { ip, region: region.clone(), node });
            }
        }
    }

    /// Adds nodes only if those of the pools do not match.
    fn add_record_set(&mut self, document: &Document) {
        // A record set's match has the same form as a pool's. The rest of it does not matter here.
        let Some(criteria) = raw_spec(document).and_then(|raw| parsed(&raw).criteria) else { return };
        if !self.fitted.iter().any(|fitted| same_nodes(fitted, &criteria)) {
            self.add_nodes(document, &criteria, DEFAULT_REGION, RECORD_SET_NODES);
        }
    }

    /// Adds nodes that meet the criteria, and returns their names.
    fn add_nodes(
        &mut self,
        document: &Document,
        criteria: &Criteria,
        region: &str,
        count: usize,
    ) -> Vec<String> {
        let name = &document.key.name;
        let Some(mut labels) = criteria.node_selector.example() else {
            self.cast
                .notes
                .push(format!("{name}: no node can have labels that spec.match.nodeLabel selects"));
            return Vec::new();
        };
        let pod = match &criteria.pods {
            None => None,
            Some((namespace, selector)) => {
                let Some(labels) = selector.example() else {
                    self.cast
                        .notes
                        .push(format!("{name}: no pod can have labels that spec.match.podLabel selects"));
                    return Vec::new();
                };
                let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
                Some((namespace.to_owned(), labels))
            }
        };
        self.fitted.push(criteria.clone());
        let base = self.base_name(&labels, name);
        let region = labels.entry(REGION_LABEL.to_owned()).or_insert_with(|| region.to_owned()).clone();
        let mut names = Vec::new();
        // The same number of digits each, so that the names sort by number.
        let width = count.to_string().len();
        for number in 1..=count {
            let node = format!("{base}-{number:0width$}");
            let pod = pod.clone().map(|(namespace, labels)| {
                let name = format!("{}-{node}", spoken(&labels).unwrap_or("app"));
                // One object's pods are alike, so they share a set.
                let set = format!("{}-{base}", spoken(&labels).unwrap_or("app"));
                Pod { namespace, name, labels, set }
            });
            self.cast.nodes.push(Node {
                name: node.clone(),
                region: region.clone(),
                labels: labels.clone(),
                pod,
            });
            names.push(node);
        }
        names
    }

    /// The base of an object's node names, taken from the labels if they are meaningful.
    fn base_name(&mut self, labels: &BTreeMap<String, String>, object: &str) -> String {
        let candidates = [spoken(labels).unwrap_or("node").to_owned(), format!("{object}-node")];
        let numbered = (2_u64..).map(|number| format!("{object}-node-{number}"));
        let mut names = candidates.into_iter().chain(numbered);
        let base = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(base.clone());
        base
    }
}

/// The first value that can be part of a name and was written by a person.
fn spoken(labels: &BTreeMap<String, String>) -> Option<&str> {
    let is_name = |value: &str| {
        value.len() <= 20
            && value.starts_with(|c: char| c.is_ascii_lowercase())
            && value.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    labels.values().map(String::as_str).find(|value| *value != "true" && is_name(value))
}

/// Whether a node that meets one also meets the other. Taints do not matter, because nodes start without any.
fn same_nodes(one: &Criteria, other: &Criteria) -> bool {
    one.node_selector == other.node_selector && one.pods == other.pods
}

/// Lowers numbers that would make the story take minutes, and says so.
pub(super) fn shorten(documents: &mut [Document]) -> Vec<String> {
    let mut notes = Vec::new();
    for document in documents {
        notes.extend(shorten_grace(document));
        let Some(spec) = pool_spec(document) else { continue };
        let name = document.key.name.clone();
        let mut created = spec.desired.unwrap_or_default().saturating_sub(spec.ips.len());
        if created > MAX_CREATED {
            let desired = spec.ips.len().saturating_add(MAX_CREATED);
            notes.push(format!("{name}: desiredIPs is lowered to {desired}, to keep this story short"));
            set(&mut document.value, "desiredIPs", json!(desired));
            created = MAX_CREATED;
        }
        let assignments = u32::try_from(created.saturating_add(FAILOVERS)).unwrap_or(u32::MAX);
        let most = (MAX_COOL_OFFS_S / f64::from(assignments)).floor();
        let most_ms = u64::try_from(std::time::Duration::from_secs_f64(most).as_millis()).unwrap_or(u64::MAX);
        if spec.cool_off_ms > most_ms {
            notes.push(format!(
                "{name}: assignmentCoolOffSeconds is lowered to {most}, to keep this story short"
            ));
            set(&mut document.value, "assignmentCoolOffSeconds", json!(most));
        }
    }
    notes
}

fn shorten_grace(document: &mut Document) -> Option<String> {
    let ours = document.is_ours();
    let grace = document.value.pointer_mut("/spec/grace").filter(|_| ours)?.as_object_mut()?;
    let mut lowered = Vec::new();
    for (field, seconds) in grace {
        if seconds
            .as_u64()
            .is_some_and(|seconds| seconds > MAX_GRACE_S && seconds <= MAX_GRACE_SECONDS.unsigned_abs())
        {
            *seconds = json!(MAX_GRACE_S);
            lowered.push(field.as_str());
        }
    }
    let (name, fields) = (&document.key.name, lowered.join(", "));
    let note = format!("{name}: grace is lowered to {MAX_GRACE_S} s ({fields}), to keep this story short");
    Some(note).filter(|_| !lowered.is_empty())
}

fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest;
    use super::*;
    use flipop_apiserver::Key;

    fn pool(name: &str, spec: &Value) -> Document {
        let value = json!({ "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
                            "metadata": { "name": name }, "spec": spec });
        let key = Key { namespace: String::new(), name: name.to_owned() };
        let (api_version, kind) =
            ("flipop.digitalocean.com/v1alpha1".to_owned(), super::super::pools::POOL_KIND.to_owned());
        Document { source: "x".to_owned(), api_version, kind, key, value }
    }

    fn names(cast: &Cast) -> Vec<&str> {
        cast.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn the_examples_get_nodes_that_match_one_more_than_addresses() {
        let cast = cast(&manifest::load(&[]).unwrap());
        assert_eq!(names(&cast), ["edge-1", "edge-2", "edge-3", "games-1", "games-2", "games-3", "games-4"]);
        let pod = cast.nodes[0].pod.as_ref().unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("ingress", "nginx-ingress-edge-1"));
        assert!(cast.nodes[3].pod.is_none());
        let standing: Vec<_> = cast.addresses.iter().map(|address| address.node.as_deref()).collect();
        assert_eq!(standing, [Some("edge-1"), Some("edge-2")], "a pool with a cool-off begins in place");
        assert_eq!(cast.notes, Vec::<String>::new());
    }

    #[test]
    fn a_pool_alone_gets_a_node_for_each_failover_and_no_address_placed_without_a_cool_off() {
        let spec = json!({ "provider": "digitalocean", "ips": ["192.0.2.1", "192.0.2.1", "x"], "region": "ams3",
                           "match": { "nodeLabel": "topology.kubernetes.io/region in (fra1),tier>4" } });
        let cast = cast(&[pool("web", &spec)]);
        assert_eq!(names(&cast), ["fra1-1", "fra1-2", "fra1-3"]);
        assert_eq!(cast.nodes[0].region, "fra1", "the label that the selector asks for wins");
        let ip = "192.0.2.1".parse().unwrap();
        assert_eq!(cast.addresses, [Address { ip, region: "ams3".to_owned(), node: None }]);
    }

    #[test]
    fn selectors_that_nothing_meets_are_told() {
        let spec = |label: &str| json!({ "provider": "digitalocean", "ips": ["192.0.2.1"], "match": { label: "a,!a" } });
        let cast = cast(&[pool("one", &spec("nodeLabel")), pool("two", &spec("podLabel"))]);
        assert_eq!(cast.nodes, []);
        assert_eq!(cast.notes.len(), 2);
    }

    #[test]
    fn numbers_that_would_take_minutes_are_lowered_and_told() {
        let spec = json!({ "provider": "digitalocean", "region": "nyc3", "desiredIPs": 40, "ips": ["192.0.2.1"],
                           "assignmentCoolOffSeconds": 300 });
        let mut documents = [pool("big", &spec), pool("small", &json!({ "assignmentCoolOffSeconds": 20 }))];
        let notes = shorten(&mut documents);
        assert_eq!(notes.len(), 2, "{notes:?}");
        let spec = pool_spec(&documents[0]).unwrap();
        assert_eq!((spec.desired, spec.cool_off_ms), (Some(7), 7_000));
        assert_eq!(pool_spec(&documents[1]).unwrap().cool_off_ms, 20_000);
    }
}
