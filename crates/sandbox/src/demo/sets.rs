//! The sets of the cast's pods, and enough of Kubernetes to bring evicted pods back: each set keeps its number of pods,
//! and a new pod goes to the matching node with the fewest of them.
//!
//! Level-triggered: [`Sets::turn`] looks at the present cluster and does what is due.

use super::cast::Node;
use super::pools::{key, labels, strings, text};
use flipop_apiserver::{ApiServer, Key, PodSpec, ScenarioError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long a set takes to start a new pod: long enough to be seen.
const DELAY: Duration = Duration::from_secs(2);

/// Creates the sets of these nodes' pods, each with as many replicas as it has pods.
pub(super) fn create(api: &ApiServer, nodes: &[Node]) -> Result<(), ScenarioError> {
    let mut sets: BTreeMap<Key, (Value, u64)> = BTreeMap::new();
    for (node, pod) in nodes.iter().filter_map(|node| Some((node, node.pod.as_ref()?))) {
        let key = Key::new(&pod.namespace, &pod.set);
        let template = json!({
            "metadata": { "labels": pod.labels },
            "spec": { "nodeSelector": node.labels,
                      "containers": [{ "name": "app", "image": "example.invalid/app" }] },
        });
        let (_, count) = sets.entry(key).or_insert((template, 0));
        *count = count.saturating_add(1);
    }
    for (key, (template, replicas)) in sets {
        let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
        let set = json!({
            "metadata": { "name": key.name, "labels": labels },
            "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": template },
        });
        api.create_object("apps/v1", "ReplicaSet", &key.namespace, set, "sandbox")?;
    }
    Ok(())
}

/// The present state of one set.
struct Set {
    key: Key,
    replicas: usize,
    labels: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
}

fn sets(api: &ApiServer) -> Vec<Set> {
    let set = |object: &Value| Set {
        key: key(object),
        replicas: object
            .pointer("/spec/replicas")
            .and_then(Value::as_u64)
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(1),
        labels: strings(object, "/spec/template/metadata/labels"),
        node_selector: strings(object, "/spec/template/spec/nodeSelector"),
    };
    api.objects("apps/v1", "ReplicaSet").iter().map(set).collect()
}

impl Set {
    /// Its pods with their nodes, sorted by name.
    fn pods(&self, api: &ApiServer) -> Vec<(Key, String)> {
        let pods = api.objects("v1", "Pod");
        let own = pods.iter().filter(|pod| {
            text(pod, "/metadata/namespace") == self.key.namespace
                && text(pod, "/metadata/ownerReferences/0/name") == self.key.name
        });
        own.map(|pod| (key(pod), text(pod, "/spec/nodeName").to_owned())).collect()
    }

    /// The nodes for a new pod: schedulable, without hard taints, and with the right labels.
    fn nodes(&self, api: &ApiServer) -> Vec<String> {
        let nodes = api.objects("v1", "Node");
        let fits = |node: &&Value| {
            let labels = labels(node);
            let taints = node.pointer("/spec/taints").and_then(Value::as_array);
            let soft = |taint: &Value| text(taint, "/effect") == "PreferNoSchedule";
            taints.is_none_or(|taints| taints.iter().all(soft))
                && node.pointer("/spec/unschedulable") != Some(&json!(true))
                && self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        nodes.iter().filter(fits).map(|node| text(node, "/metadata/name").to_owned()).collect()
    }

    /// The node for one more pod.
    fn place(&self, api: &ApiServer) -> Option<String> {
        let pods = self.pods(api);
        let count = |node: &String| pods.iter().filter(|(_, on)| on == node).count();
        let nodes = self.nodes(api);
        nodes.into_iter().min_by_key(|node| (count(node), node.clone()))
    }

    /// A name that none of its pods has.
    fn free_name(&self, api: &ApiServer) -> String {
        let taken = self.pods(api);
        let name = |number: u64| format!("{}-again-{number}", self.key.name);
        let is_free = |name: &String| !taken.iter().any(|(key, _)| key.name == *name);
        (1..=u64::MAX).map(name).find(is_free).unwrap_or_default()
    }
}

/// A pod that returned, and its node.
pub(super) type Returned = (String, String);

/// Lets a set have one more pod.
///
/// # Errors
/// If the API server refuses.
pub(super) fn grow(api: &ApiServer, key: &Key) -> Result<(), ScenarioError> {
    let kind = ("apps/v1", "ReplicaSet");
    let Some(set) = api.object(kind.0, kind.1, key) else { return Ok(()) };
    let replicas = set.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    let patch = json!({ "spec": { "replicas": replicas.saturating_add(1) } });
    api.patch_object(kind, key, "", patch, "sandbox").map(drop)
}

/// Keeps the sets complete.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// When sets that lack pods get the next one.
    due: BTreeMap<Key, Instant>,
}

impl Sets {
    /// Starts the pods that are due.
    ///
    /// # Errors
    /// If the API server refuses one.
    pub(super) fn turn(&mut self, api: &ApiServer, now: Instant) -> Result<Vec<Returned>, ScenarioError> {
        let mut returned = Vec::new();
        let sets = sets(api);
        self.due.retain(|key, _| sets.iter().any(|set| set.key == *key));
        for set in sets {
            if set.pods(api).len() >= set.replicas {
                self.due.remove(&set.key);
                continue;
            }
            let due = *self.due.entry(set.key.clone()).or_insert_with(|| now + DELAY);
            if due > now {
                continue;
            }
            let Some(node) = set.place(api) else {
                // It stays pending, and the next turn tries again.
                self.due.insert(set.key, now + DELAY);
                continue;
            };
            let pod = PodSpec {
                namespace: set.key.namespace.clone(),
                name: set.free_name(api),
                labels: set.labels.clone(),
                node: node.clone(),
                ready: true,
                set: set.key.name.clone(),
            };
            api.create_pod(&pod)?;
            self.due.remove(&set.key);
            if set.pods(api).len() < set.replicas {
                self.due.insert(set.key, now);
            }
            returned.push((pod.name, node));
        }
        Ok(returned)
    }

    /// When to look again even without a change.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }
}

/// Makes room for sets that could have a pod on this node but have none. If such a set has two pods on another node,
/// deletes one, which its set then restarts here. Returns the pods' names.
///
/// # Errors
/// If the API server refuses.
pub(super) fn make_room_on(api: &ApiServer, node: &str) -> Result<Vec<String>, ScenarioError> {
    let mut moved = Vec::new();
    for set in sets(api) {
        let pods = set.pods(api);
        if pods.iter().any(|(_, on)| on == node) || !set.nodes(api).iter().any(|fitting| fitting == node) {
            continue;
        }
        let doubled = |on: &String| pods.iter().filter(|(_, other)| other == on).count() > 1;
        if let Some((pod, _)) = pods.iter().rev().find(|(_, on)| doubled(on)) {
            api.delete_object("v1", "Pod", pod, true)?;
            moved.push(pod.name.clone());
        }
    }
    Ok(moved)
}
