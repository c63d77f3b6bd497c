//! The pods on a node, and their eviction.

use flipop_apiserver::{ApiServer, Key, ScenarioError};
use serde_json::Value;

/// The pods that run on a node.
pub(super) fn pods_on(api: &ApiServer, node: &str) -> Vec<Key> {
    api.objects("v1", "Pod").iter().filter_map(|pod| on(pod, node)).collect()
}

/// Cordons a node and evicts these pods, as `kubectl drain` does.
///
/// # Errors
/// If the API server refuses.
pub(super) fn evict(api: &ApiServer, node: &str, pods: &[Key]) -> Result<(), ScenarioError> {
    api.set_node_unschedulable(node, true)?;
    pods.iter().try_for_each(|pod| api.delete_object("v1", "Pod", pod, true))
}

/// The key of a pod if it runs on this node.
fn on(pod: &Value, node: &str) -> Option<Key> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let here = text("/spec/nodeName") == Some(node);
    here.then(|| {
        Key::new(text("/metadata/namespace").unwrap_or_default(), text("/metadata/name").unwrap_or_default())
    })
}
