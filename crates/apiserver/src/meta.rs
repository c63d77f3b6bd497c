//! Reads and writes `metadata` of objects that are plain JSON.

use serde_json::{Map, Value};

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace. Empty for cluster-wide objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// From namespace (empty for cluster-wide objects) and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A string in `metadata`. Empty if absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The object's resource version. 0 if absent.
pub(crate) fn revision(object: &Value) -> u64 {
    text(object, "resourceVersion").parse().unwrap_or_default()
}

/// A value by path. `None` if any step is absent.
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| value.get(step))
}

/// A string by path. Empty if absent.
pub(crate) fn text_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// A list by path. Empty if absent.
pub(crate) fn list_at<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// `value` as a map. Replaces anything else with an empty map.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("made a map just above")
        }
    }
}

/// `metadata`, created if absent.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    as_map(as_map(object).entry("metadata").or_insert(Value::Null))
}

/// Sets a field of `metadata`. `Value::Null` removes it.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let metadata = metadata_mut(object);
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Sets a value by path. Creates missing maps.
pub(crate) fn set_at(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for step in path {
        place = as_map(place).entry((*step).to_owned()).or_insert(Value::Null);
    }
    *place = value;
}

/// Removes the first-level field `field`.
pub(crate) fn remove(object: &mut Value, field: &str) {
    as_map(object).remove(field);
}

/// The object with another resource version, as a watch shows it at that revision.
pub(crate) fn with_revision(object: &Value, revision: u64) -> Value {
    let mut copy = object.clone();
    set(&mut copy, "resourceVersion", Value::String(revision.to_string()));
    copy
}

/// Whether the object has a deletion timestamp.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Whether finalizers keep the object.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    !list_at(object, &["metadata", "finalizers"]).is_empty()
}

/// `apiVersion` and `kind`.
pub(crate) fn type_of(object: &Value) -> (&str, &str) {
    (text_at(object, &["apiVersion"]), text_at(object, &["kind"]))
}
