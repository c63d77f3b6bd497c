//! The differences between two versions of an object, for people: fields by path, conditions by type, and states of
//! addresses by address.
//!
//! Invariant: the text depends only on the two objects.

use flipop_apiserver::Change;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Fields that every write changes and nobody asks about.
const HUSHED: [&str; 4] =
    ["metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "metadata.uid"];

/// Fields of conditions and entries that only hold times.
const TIMES: [&str; 3] = ["lastTransitionTime", "lastHeartbeatTime", "creationTimestamp"];

/// The longest value that is shown in full.
const VALUE_CHARS: usize = 80;

/// The differences between two states of an object, each in a few words. Absent states count as empty.
pub(super) fn between(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    let mut all = Vec::new();
    let null = Value::Null;
    walk("", before.unwrap_or(&null), after.unwrap_or(&null), &mut all);
    all
}

fn walk(path: &str, before: &Value, after: &Value, all: &mut Vec<String>) {
    if before == after || HUSHED.contains(&path) {
        return;
    }
    let (old, new) = (fields(before), fields(after));
    let (Some(old), Some(new)) = (old, new) else {
        all.push(change(path, before, after));
        return;
    };
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names.into_iter().filter(|name| !TIMES.contains(&name.as_str())) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let side = |fields: &BTreeMap<String, Value>| fields.get(name).cloned().unwrap_or_default();
        walk(&path, &side(&old), &side(&new), all);
    }
}

/// The parts of a value by name: the fields of an object, or the entries of a list that have a type, an address or a
/// key. An absent value counts as an object without fields.
fn fields(value: &Value) -> Option<BTreeMap<String, Value>> {
    match value {
        Value::Null => Some(BTreeMap::new()),
        Value::Object(fields) => {
            Some(fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        Value::Array(entries) if !entries.is_empty() => entries.iter().map(named).collect(),
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn named(entry: &Value) -> Option<(String, Value)> {
    let name = ["type", "ip", "key"].iter().find_map(|name| entry.get(name)?.as_str())?.to_owned();
    // A condition is shown as one text: its status and the cause.
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let told = text("status").map(|status| {
        let why = [text("reason"), text("message")].into_iter().flatten().filter(|part| !part.is_empty());
        Value::from([status].into_iter().chain(why).collect::<Vec<_>>().join(": "))
    });
    Some((name, told.unwrap_or_else(|| entry.clone())))
}

fn change(path: &str, before: &Value, after: &Value) -> String {
    match (before, after) {
        (Value::Null, new) => format!("{path} = {}", shown(new)),
        (old, Value::Null) => format!("{path} gone (was {})", shown(old)),
        (old, new) => format!("{path}: {} → {}", shown(old), shown(new)),
    }
}

fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.chars().count() <= VALUE_CHARS {
        return text;
    }
    text.chars().take(VALUE_CHARS).chain("…".chars()).collect()
}

/// The subject of a change of the cluster. For a lease only its holder counts, and for an Event its text.
pub(super) fn told(change: &Change) -> Vec<String> {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let text = |object: Option<&Value>, pointer: &str| {
        object
            .and_then(|object| object.pointer(pointer))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match change.storage.plural.as_str() {
        "leases" => {
            let [old, new] = [before, after].map(|lease| text(lease, "/spec/holderIdentity"));
            let changed = (old != new).then(|| format!("the lease goes from {old:?} to {new:?}"));
            changed.into_iter().collect()
        }
        "events" => {
            let said = ["/reason", "/note", "/message"].map(|pointer| text(after, pointer));
            vec![format!("Event {}", said.join(" ").trim())]
        }
        _ if before.is_none() || after.is_none() => Vec::new(),
        _ => between(before, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_conditions_and_states_of_addresses_are_told_by_name() {
        let condition = |status: &str, reason: &str, time: &str| json!([{ "type": "Ready", "status": status, "reason": reason, "lastTransitionTime": time }]);
        let before = json!({
            "metadata": { "resourceVersion": "7", "annotations": { "a/b": "1" } },
            "spec": { "ips": ["192.0.2.1"] },
            "status": { "ips": { "192.0.2.1": { "state": "in-progress" } }, "conditions": condition("False", "Waiting", "1") },
        });
        let after = json!({
            "metadata": { "resourceVersion": "8" },
            "spec": { "ips": ["192.0.2.1", "192.0.2.2"] },
            "status": { "ips": { "192.0.2.1": { "state": "active" } }, "conditions": condition("True", "Done", "2") },
        });
        let told = between(Some(&before), Some(&after));
        let want = [
            "metadata.annotations.a/b gone (was 1)",
            r#"spec.ips: ["192.0.2.1"] → ["192.0.2.1","192.0.2.2"]"#,
            "status.conditions.Ready: False: Waiting → True: Done",
            "status.ips.192.0.2.1.state: in-progress → active",
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn a_time_alone_and_a_version_alone_are_no_difference() {
        let at = |time: &str| {
            json!({ "metadata": { "resourceVersion": time }, "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastHeartbeatTime": time }] } })
        };
        assert_eq!(between(Some(&at("1")), Some(&at("2"))), Vec::<String>::new());
        assert_eq!(between(None, None), Vec::<String>::new());
    }

    #[test]
    fn long_values_are_cut() {
        let told = between(None, Some(&json!({ "note": "x".repeat(200) })));
        assert_eq!(told.first().map(|line| line.chars().count()), Some("note = ".len() + VALUE_CHARS + 1));
    }
}
