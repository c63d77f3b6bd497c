//! The nodes and pods that an object's watches show.

use crate::model::matching::{Criteria, NodeStore, PodStore, WatchKey};
use std::collections::BTreeMap;

/// The content of a watch before its first list.
static NO_NODES: NodeStore = NodeStore::unread();
static NO_PODS: PodStore = PodStore::unread();

/// The nodes and pods for these criteria.
pub(super) fn of<'a>(
    nodes: &'a BTreeMap<WatchKey, NodeStore>,
    pods: &'a BTreeMap<WatchKey, PodStore>,
    criteria: &Criteria,
) -> (&'a NodeStore, Option<&'a PodStore>) {
    let pods = criteria.pod_watch().map(|key| pods.get(&key).unwrap_or(&NO_PODS));
    (nodes.get(&criteria.node_watch()).unwrap_or(&NO_NODES), pods)
}
