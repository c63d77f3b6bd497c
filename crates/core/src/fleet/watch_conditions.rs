//! Conditions about failures of the shell that affect an object.

use crate::model::catalog::record_set::Unread;
use crate::model::catalog::shared::{EventsDenied, WatchFailing};
use crate::model::condition::{Condition, ConditionType};
use crate::model::matching::{Criteria, WatchKey};
use std::collections::BTreeMap;

/// Why a watch that an object needs is failing.
pub(super) fn watch_trouble(
    troubles: &BTreeMap<WatchKey, String>,
    criteria: Option<&Criteria>,
) -> Option<String> {
    let criteria = criteria?;
    let keys = [Some(criteria.node_watch()), criteria.pod_watch()];
    keys.into_iter().flatten().find_map(|key| troubles.get(&key).cloned())
}

/// The condition that says that Events cannot be written.
pub(super) fn events_denied() -> Condition {
    let message =
        "the service account may not write events.k8s.io events, at least in one namespace; apply k8s/";
    Condition::new(EventsDenied::Forbidden, message.to_owned())
}

/// The condition of an object without any report so far, because its nodes or pods are not known yet.
pub(super) fn nodes_unread(trouble: &str) -> Condition {
    let message = format!("nodes or pods have not been read yet: {trouble}");
    Condition::new(Unread::NodesUnread, message)
}

/// Whether the condition says that nodes or pods were never read.
pub(super) fn is_unread(condition: &Condition) -> bool {
    condition.reason == Unread::NodesUnread.as_str()
}

/// Adds to `Ready` why nodes or pods are not read.
pub(super) fn name_cause(conditions: &mut [Condition], trouble: &str) {
    let unread = |condition: &&mut Condition| condition.is(ConditionType::Ready) && is_unread(condition);
    if let Some(condition) = conditions.iter_mut().find(unread) {
        condition.message = format!("nodes or pods have not been read yet: {trouble}");
    }
}

/// The condition that says that a watch of this object is failing.
pub(super) fn watch_failing(message: String) -> Condition {
    Condition::new(WatchFailing::Unreadable, message)
}
