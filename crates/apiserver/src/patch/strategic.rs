//! Strategic merge patch: like a merge patch, but some lists merge by a key of their elements.
//!
//! The Go types define these lists (`patchStrategy`, `patchMergeKey`). The table below has those of the kinds served
//! here. All other lists are replaced whole, `taints` and `tolerations` among them.

use super::super::meta::as_map;
use serde_json::{Map, Value};

/// Lists of maps that merge, with the field that identifies an element.
pub(crate) fn merge_key(field: &str, sample: &Value) -> Option<&'static str> {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "secrets" => Some("name"),
        "conditions" | "addresses" => Some("type"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ownerReferences" => Some("uid"),
        "hostAliases" | "podIPs" | "hostIPs" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        // Container ports and service ports share a field name but not a key.
        "ports" => Some(if sample.get("port").is_some() { "port" } else { "containerPort" }),
        _ => None,
    }
}

/// Lists of plain values that merge as sets.
pub(crate) fn is_set(field: &str) -> bool {
    matches!(field, "finalizers" | "podCIDRs" | "volumesInUse")
}

/// Applies `patch` to `target`.
pub(crate) fn strategic_merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let kept = changes.iter().filter(|(key, _)| !key.starts_with('$'));
            *target = Value::Object(kept.map(|(k, v)| (k.clone(), v.clone())).collect());
            return;
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return;
        }
        Some(_) | None => {}
    }
    let map = as_map(target);
    for (key, change) in changes {
        merge_field(map, key, change);
    }
    for (key, change) in changes {
        directive(map, key, change);
    }
}

fn merge_field(map: &mut Map<String, Value>, key: &str, change: &Value) {
    if key.starts_with('$') {
        return;
    }
    match change {
        Value::Null => {
            map.remove(key);
        }
        Value::Object(_) => strategic_merge(map.entry(key.to_owned()).or_insert(Value::Null), change),
        Value::Array(elements) => {
            let sample = elements.first().unwrap_or(&Value::Null);
            let current = map.entry(key.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
            match (merge_key(key, sample), current) {
                (Some(by), Value::Array(list)) if sample.is_object() => merge_list(list, elements, by),
                (None, Value::Array(list)) if is_set(key) => add_to_set(list, elements),
                (_, place) => *place = change.clone(),
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            map.insert(key.to_owned(), change.clone());
        }
    }
}

fn merge_list(list: &mut Vec<Value>, changes: &[Value], by: &str) {
    let whole = |change: &Value| change.get("$patch").and_then(Value::as_str) == Some("replace");
    if changes.iter().any(whole) {
        *list = changes.iter().filter(|change| !whole(change)).cloned().collect();
        return;
    }
    for change in changes {
        let Some(key) = change.get(by) else { continue };
        let position = list.iter().position(|element| element.get(by) == Some(key));
        if change.get("$patch").and_then(Value::as_str) == Some("delete") {
            list.retain(|element| element.get(by) != Some(key));
            continue;
        }
        if let Some(element) = position.and_then(|index| list.get_mut(index)) {
            strategic_merge(element, change);
        } else {
            let mut fresh = Value::Null;
            strategic_merge(&mut fresh, change);
            list.push(fresh);
        }
    }
}

fn add_to_set(list: &mut Vec<Value>, elements: &[Value]) {
    for element in elements {
        if !list.contains(element) {
            list.push(element.clone());
        }
    }
}

/// `$deleteFromPrimitiveList/x`, `$setElementOrder/x` and `$retainKeys`.
fn directive(map: &mut Map<String, Value>, key: &str, change: &Value) {
    let Some(values) = change.as_array() else { return };
    if let Some(Value::Array(list)) =
        key.strip_prefix("$deleteFromPrimitiveList/").and_then(|field| map.get_mut(field))
    {
        list.retain(|element| !values.contains(element));
    }
    if key == "$retainKeys" {
        map.retain(|field, _| values.iter().any(|kept| kept.as_str() == Some(field)));
    }
    if let Some(field) = key.strip_prefix("$setElementOrder/")
        && let Some(Value::Array(list)) = map.get_mut(field)
    {
        let by = merge_key(field, values.first().unwrap_or(&Value::Null));
        let identity = |element: &Value| match by {
            Some(by) if element.is_object() => element.get(by).cloned().unwrap_or(Value::Null),
            Some(_) | None => element.clone(),
        };
        let order: Vec<Value> = values.iter().map(identity).collect();
        // Elements not named in the order keep their places, after the named ones.
        list.sort_by_key(|element| order.iter().position(|o| *o == identity(element)).unwrap_or(order.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keyed_lists_merge_and_atomic_lists_are_replaced() {
        let mut node = json!({
            "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Disk", "status": "False" }] },
        });
        let patch = json!({
            "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] },
            "status": { "conditions": [{ "type": "Ready", "status": "False" }],
                        "$setElementOrder/conditions": [{ "type": "Disk" }, { "type": "Ready" }] },
        });
        strategic_merge(&mut node, &patch);
        assert_eq!(node["spec"]["taints"], json!([{ "key": "b", "effect": "NoExecute" }]));
        assert_eq!(
            node["status"]["conditions"],
            json!([{ "type": "Disk", "status": "False" }, { "type": "Ready", "status": "False" }])
        );
    }

    #[test]
    fn directives_delete_elements_and_replace_maps() {
        let mut object = json!({
            "containers": [{ "name": "a" }, { "name": "b" }], "finalizers": ["x", "y"], "labels": { "a": "1" },
        });
        let patch = json!({
            "containers": [{ "name": "a", "$patch": "delete" }, { "name": "c", "image": "i" }],
            "$deleteFromPrimitiveList/finalizers": ["x"],
            "labels": { "$patch": "replace", "b": "2" },
        });
        strategic_merge(&mut object, &patch);
        assert_eq!(
            object,
            json!({ "containers": [{ "name": "b" }, { "name": "c", "image": "i" }], "finalizers": ["y"],
                    "labels": { "b": "2" } })
        );
    }
}
