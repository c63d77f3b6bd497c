//! The pods on a node, and their eviction.

use super::pools::{key, text};
use flipop_apiserver::{ApiServer, Key, ScenarioError};

/// The pods that run on a node.
pub(super) fn pods_on(api: &ApiServer, node: &str) -> Vec<Key> {
    let pods = api.objects("v1", "Pod");
    pods.iter().filter(|pod| text(pod, "/spec/nodeName") == node).map(key).collect()
}

/// Cordons a node and evicts these pods, as `kubectl drain` does.
///
/// # Errors
/// If the API server refuses.
pub(super) fn evict(api: &ApiServer, node: &str, pods: &[Key]) -> Result<(), ScenarioError> {
    api.set_node_unschedulable(node, true)?;
    pods.iter().try_for_each(|pod| api.delete_object("v1", "Pod", pod, true))
}
