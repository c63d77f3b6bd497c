//! Converts between the stored form of an object and the forms in which it is served.
//!
//! Versions of a custom resource differ only by `apiVersion` (conversion `None`). Events exist in core/v1 and
//! events.k8s.io/v1, with different names for the same fields. They are stored in the core form.

use super::meta::as_map;
use super::resource::Resource;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// (core/v1, events.k8s.io/v1)
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// `stored`, in the form that `resource` serves.
pub(crate) fn to_served<'a>(resource: &Resource, stored: &'a Value) -> Cow<'a, Value> {
    if !is_new_event(resource) && resource.version == resource.storage_version {
        return Cow::Borrowed(stored);
    }
    let mut object = stored.clone();
    if is_new_event(resource) {
        rename(&mut object, EVENT_FIELDS.iter().map(|(core, new)| (*core, *new)));
    }
    set_type(&mut object, &resource.api_version(), &resource.kind);
    Cow::Owned(object)
}

/// `served`, received through `resource`, in its stored form.
pub(crate) fn to_stored(resource: &Resource, served: Value) -> Value {
    let mut object = served;
    if is_new_event(resource) {
        rename(&mut object, EVENT_FIELDS.iter().map(|(core, new)| (*new, *core)));
    }
    set_type(&mut object, &resource.stored_api_version(), &resource.kind);
    object
}

fn is_new_event(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    let map = as_map(object);
    map.insert("apiVersion".to_owned(), Value::String(api_version.to_owned()));
    map.insert("kind".to_owned(), Value::String(kind.to_owned()));
}

fn rename<'a>(object: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let map: &mut Map<String, Value> = as_map(object);
    for (from, to) in names {
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}
