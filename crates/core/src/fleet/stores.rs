//! The nodes and pods that the watches of an object show.

use crate::model::matching::{Criteria, NodeStore, PodStore, WatchKey};
use std::collections::BTreeMap;

/// What a watch shows before its first list.
static NO_NODES: NodeStore = NodeStore::unread();
static NO_PODS: PodStore = PodStore::unread();

/// What these criteria look at.
pub(super) fn of<'a>(
    nodes: &'a BTreeMap<WatchKey, NodeStore>,
    pods: &'a BTreeMap<WatchKey, PodStore>,
    criteria: &Criteria,
) -> (&'a NodeStore, Option<&'a PodStore>) {
    let pods = criteria.pod_watch().map(|key| pods.get(&key).unwrap_or(&NO_PODS));
    (nodes.get(&criteria.node_watch()).unwrap_or(&NO_NODES), pods)
}
