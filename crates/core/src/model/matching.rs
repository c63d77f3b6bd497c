//! Which nodes match, over stores fed by filtered watches.
//!
//! A store counts only after its first complete list. The server filters by label, so nothing here looks at labels.

use crate::model::facts::{NodeFacts, Observed, PodFacts, Readiness, Taint};
use crate::model::mismatch::{Class, Mismatch};
use crate::model::selector::Selector;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A toleration of a spec; empty strings mean absent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Toleration {
    /// Effect to tolerate, empty for all.
    pub effect: String,
    /// Key to tolerate, empty for all.
    pub key: String,
    /// `Equal` (also when empty) or `Exists`; any other tolerates nothing.
    pub operator: String,
    /// Value for `Equal`.
    pub value: String,
}

impl Toleration {
    /// `ToleratesTaint` of k8s.io/api v0.32.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

/// One filtered watch. Equal keys share one watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchKey {
    /// Nodes with these labels.
    Nodes {
        /// Canonical label selector, empty for all.
        selector: String,
    },
    /// Pods with these labels.
    Pods {
        /// Namespace, empty for all.
        namespace: String,
        /// Canonical label selector, empty for all.
        selector: String,
    },
}

/// The criteria that a node must meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Criteria {
    /// Node labels.
    pub node_selector: Selector,
    /// Namespace (empty for all) and labels of the pods, one of which must serve on the node.
    pub pods: Option<(String, Selector)>,
    /// Taints that do not matter.
    pub tolerations: Vec<Toleration>,
    node_watch: WatchKey,
    pod_watch: Option<WatchKey>,
}

impl Criteria {
    /// Criteria, with the watches that they need.
    pub fn new(
        node_selector: Selector,
        pods: Option<(String, Selector)>,
        tolerations: Vec<Toleration>,
    ) -> Self {
        let node_watch = WatchKey::Nodes { selector: node_selector.to_string() };
        let pod_watch = pods.as_ref().map(|(namespace, selector)| WatchKey::Pods {
            namespace: namespace.clone(),
            selector: selector.to_string(),
        });
        Self { node_selector, pods, tolerations, node_watch, pod_watch }
    }

    /// The watch that yields the nodes.
    pub const fn node_watch(&self) -> &WatchKey {
        &self.node_watch
    }

    /// The watch that yields the pods, when pods matter.
    pub const fn pod_watch(&self) -> Option<&WatchKey> {
        self.pod_watch.as_ref()
    }

    /// The watches that yield the pods, when pods matter, and the nodes.
    pub fn watches(&self) -> impl Iterator<Item = &WatchKey> {
        self.pod_watch().into_iter().chain([self.node_watch()])
    }
}

/// Nodes of one watch.
#[derive(Debug, Default)]
pub struct NodeStore {
    complete: bool,
    nodes: BTreeMap<String, Arc<NodeFacts>>,
}

impl NodeStore {
    /// An empty store, before the first complete list.
    pub const fn unread() -> Self {
        Self { complete: false, nodes: BTreeMap::new() }
    }

    /// Takes in one step of the watch and returns the names of the nodes that may have changed.
    pub fn observe(&mut self, observed: Observed<NodeFacts>) -> BTreeSet<String> {
        match observed {
            Observed::Reset(nodes) => {
                // Facts that did not change keep their place in memory, so the candidates still share them.
                let shared = |node: NodeFacts| match self.nodes.get(&node.name) {
                    Some(known) if **known == node => Arc::clone(known),
                    Some(_) | None => Arc::new(node),
                };
                let fresh: BTreeMap<_, _> =
                    nodes.into_iter().map(|node| (node.name.clone(), shared(node))).collect();
                let mut touched: BTreeSet<String> =
                    self.nodes.keys().filter(|name| !fresh.contains_key(*name)).cloned().collect();
                let first = !self.complete;
                touched.extend(
                    fresh
                        .iter()
                        .filter(|(name, node)| first || self.nodes.get(*name) != Some(node))
                        .map(|(n, _)| n.clone()),
                );
                self.nodes = fresh;
                self.complete = true;
                touched
            }
            Observed::Apply(node) => {
                if self.get(&node.name) == Some(&node) {
                    return BTreeSet::new();
                }
                let name = node.name.clone();
                self.nodes.insert(name.clone(), Arc::new(node));
                BTreeSet::from([name])
            }
            Observed::Delete(node) => {
                // The deletion of an earlier node with this name does not affect the present one.
                if self.nodes.get(&node.name).is_some_and(|known| known.uid == node.uid) {
                    self.nodes.remove(&node.name);
                    return BTreeSet::from([node.name]);
                }
                BTreeSet::new()
            }
        }
    }

    /// True once the first complete list has arrived.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Counts as incomplete until the next complete list.
    pub fn distrust(&mut self) {
        self.complete = false;
    }

    /// A node by its name.
    pub fn get(&self, name: &str) -> Option<&NodeFacts> {
        self.shared(name).map(Arc::as_ref)
    }

    /// A node by its name, to keep.
    pub fn shared(&self, name: &str) -> Option<&Arc<NodeFacts>> {
        self.nodes.get(name)
    }

    /// All nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &NodeFacts> {
        self.nodes.values().map(Arc::as_ref)
    }
}

/// By the name of a namespace or a pod.
type ByName<T> = BTreeMap<Box<str>, T>;

#[derive(Debug)]
struct StoredPod {
    node: Arc<str>,
    serving: bool,
}

/// Pods of one watch.
#[derive(Debug, Default)]
pub struct PodStore {
    complete: bool,
    /// By namespace and name. A few namespaces hold most pods, so none is repeated for each pod.
    pods: ByName<ByName<StoredPod>>,
    /// How many pods serve on each node that has any.
    serving: BTreeMap<Arc<str>, u32>,
}

impl PodStore {
    /// An empty store, before the first complete list.
    pub const fn unread() -> Self {
        Self { complete: false, pods: BTreeMap::new(), serving: BTreeMap::new() }
    }

    /// Takes in one step of the watch and returns the names of the nodes that gained their first or lost their
    /// last serving pod.
    pub fn observe(&mut self, observed: Observed<PodFacts>) -> BTreeSet<String> {
        match observed {
            Observed::Reset(pods) => {
                let before = std::mem::take(&mut self.serving);
                let first = !self.complete;
                self.pods = self.counted(pods);
                self.complete = true;
                let nodes = before.keys().chain(self.serving.keys());
                nodes
                    .filter(|node| first || before.contains_key(*node) != self.serving.contains_key(*node))
                    .map(ToString::to_string)
                    .collect()
            }
            Observed::Apply(pod) => {
                let PodFacts { namespace, name, node, serving, fails_since_s: _ } = pod;
                let of_namespace = self.pods.get(&*namespace);
                let known = of_namespace.and_then(|pods| pods.get(&*name));
                // Most events of pods change nothing that counts.
                if known.is_some_and(|known| *known.node == *node && known.serving == serving) {
                    return BTreeSet::new();
                }
                let lost = self.remove(&namespace, &name);
                let (gained, pod) = self.count_in(node, serving);
                self.pods.entry(namespace.into()).or_default().insert(name.into(), pod);
                lost.into_iter().chain(gained).map(|node| node.to_string()).collect()
            }
            Observed::Delete(pod) => {
                let lost = self.remove(&pod.namespace, &pod.name);
                lost.into_iter().map(|node| node.to_string()).collect()
            }
        }
    }

    /// Counts the pods of a list, and returns them as they are kept. A map that is made from a whole list needs half
    /// the memory of one that grows.
    fn counted(&mut self, mut pods: Vec<PodFacts>) -> ByName<ByName<StoredPod>> {
        // A pod counts once, even if a list holds it twice.
        pods.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        pods.dedup_by(|one, other| one.namespace == other.namespace && one.name == other.name);
        let mut by_namespace: ByName<Vec<(Box<str>, StoredPod)>> = BTreeMap::new();
        for PodFacts { namespace, name, node, serving, fails_since_s: _ } in pods {
            let (_, pod) = self.count_in(node, serving);
            by_namespace.entry(namespace.into()).or_default().push((name.into(), pod));
        }
        by_namespace.into_iter().map(|(namespace, pods)| (namespace, pods.into_iter().collect())).collect()
    }

    /// Counts a pod. Also returns the node if this is its first pod that serves.
    fn count_in(&mut self, node: String, serving: bool) -> (Option<Arc<str>>, StoredPod) {
        if !serving || node.is_empty() {
            return (None, StoredPod { node: node.into(), serving });
        }
        // All pods that serve on a node share its name.
        let known = self.serving.get_key_value(&*node).map(|(node, _)| Arc::clone(node));
        let first = known.is_none();
        let node = known.unwrap_or_else(|| node.into());
        *self.serving.entry(Arc::clone(&node)).or_insert(0) += 1;
        (first.then(|| Arc::clone(&node)), StoredPod { node, serving })
    }

    /// Returns the node if this was its last serving pod.
    fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<str>> {
        let pods = self.pods.get_mut(namespace)?;
        let StoredPod { node, serving } = pods.remove(name)?;
        if pods.is_empty() {
            self.pods.remove(namespace);
        }
        if !serving {
            return None;
        }
        let count = self.serving.get_mut(&node)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.serving.remove(&node);
        Some(node)
    }

    /// True once the first complete list has arrived.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Counts as incomplete until the next complete list.
    pub fn distrust(&mut self) {
        self.complete = false;
    }

    /// How many pods there are, serving or not.
    pub fn count(&self) -> usize {
        self.pods.values().map(BTreeMap::len).sum()
    }

    /// Whether any of them serves.
    pub fn any_serves(&self) -> bool {
        !self.serving.is_empty()
    }

    /// Whether at least one pod serves on the node.
    pub fn serves_on(&self, node: &str) -> bool {
        self.serving.contains_key(node)
    }
}

/// Whether a node, known to have the labels, matches.
///
/// # Errors
/// The first reason why it does not match. Reasons without a grace come first, then those of the node, then its pods.
pub fn verdict(criteria: &Criteria, node: &NodeFacts, pods: Option<&PodStore>) -> Result<(), Mismatch> {
    if node.deleting {
        return Err(Mismatch::Deleting);
    }
    if node.provider_id.is_empty() {
        return Err(Mismatch::NoProviderId);
    }
    let untolerated =
        || node.taints.iter().filter(|taint| !criteria.tolerations.iter().any(|t| t.tolerates(taint)));
    let as_mismatch = |taint: &Taint| Mismatch::Taint(taint.clone());
    if let Some(decided) = untolerated().map(as_mismatch).find(|why| why.class() == Class::Hard) {
        return Err(decided);
    }
    match node.ready {
        Readiness::Ready => {}
        Readiness::NotReady => return Err(Mismatch::NotReady),
        Readiness::Unknown => return Err(Mismatch::ReadyUnknown),
    }
    if let Some(taint) = untolerated().next() {
        return Err(as_mismatch(taint));
    }
    if criteria.pods.is_some() && !pods.is_some_and(|pods| pods.serves_on(&node.name)) {
        return Err(Mismatch::PodNotReady);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod example {
    //! A node that meets every criterion, for tests.

    use crate::model::facts::{NodeFacts, Readiness};
    use crate::model::ids::Uid;

    pub(crate) fn node(name: &str) -> NodeFacts {
        NodeFacts {
            name: name.into(),
            uid: Uid(format!("uid-{name}").into()),
            provider_id: "digitalocean://1".into(),
            ready: Readiness::Ready,
            ..NodeFacts::default()
        }
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
