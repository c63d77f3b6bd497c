//! What the shell cannot do for an object, as conditions of it.

use crate::condition::Condition;
use crate::matching::{Criteria, WatchKey};
use std::collections::BTreeMap;

/// The reason of `Ready` where nodes or pods were never read.
pub(super) const NODES_UNREAD: &str = "NodesUnread";

/// Why a watch that an object asks for does not get through.
pub(super) fn watch_trouble(
    troubles: &BTreeMap<WatchKey, String>,
    criteria: Option<&Criteria>,
) -> Option<String> {
    let criteria = criteria?;
    let keys = [Some(criteria.node_watch()), criteria.pod_watch()];
    keys.into_iter().flatten().find_map(|key| troubles.get(&key).cloned())
}

/// Users do not see what happens to their objects.
pub(super) fn events_denied() -> Condition {
    let message =
        "the service account may not write events.k8s.io events, at least in one namespace; apply k8s/";
    Condition::new("EventsDenied", "True", "Forbidden", message.to_owned())
}

/// Nothing was ever told of the object, since its nodes or pods are not known yet.
pub(super) fn nodes_unread(trouble: &str) -> Condition {
    let message = format!("nodes or pods have not been read yet: {trouble}");
    Condition::new("Ready", "Unknown", NODES_UNREAD, message)
}

/// `Ready` says why nodes or pods are not read.
pub(super) fn name_cause(conditions: &mut [Condition], trouble: &str) {
    let unread = |condition: &&mut Condition| condition.kind == "Ready" && condition.reason == "NodesUnread";
    if let Some(condition) = conditions.iter_mut().find(unread) {
        condition.message = format!("nodes or pods have not been read yet: {trouble}");
    }
}

/// A watch of this object does not get through.
pub(super) fn watch_failing(message: String) -> Condition {
    Condition::new("WatchFailing", "True", "Unreadable", message)
}
