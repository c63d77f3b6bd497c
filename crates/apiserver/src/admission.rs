//! Defaults and checks for the kinds that the server knows, before an object is stored.

use super::crd;
use super::error::{ApiError, Cause};
use super::meta::{self, as_map, at, list_at, set_at, text, text_at};
use super::resource::Resource;
use super::store::seconds;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// Longest object name: a DNS subdomain.
const NAME_LENGTH_MAX: usize = 253;
/// Longest label value and longest name part of a label key.
const LABEL_LENGTH_MAX: usize = 63;

/// Adds the defaults of an incoming object. They belong to the writer.
pub(crate) fn complete(resource: &Resource, object: &mut Value) {
    if resource.is("", "namespaces") {
        let name = text(object, "name").to_owned();
        set_at(object, &["metadata", "labels", "kubernetes.io/metadata.name"], Value::String(name));
    } else if resource.is("", "secrets") {
        secret(object);
    } else if resource.is(crd::GROUP, crd::PLURAL) {
        crd::complete(object);
    }
    drop_empty_maps(object);
}

/// Adds what the server and its controllers set on their own. It belongs to nobody.
pub(crate) fn settle(resource: &Resource, object: &mut Value, now: Timestamp) {
    if resource.is("", "namespaces") && at(object, &["spec", "finalizers"]).is_none() {
        set_at(object, &["spec", "finalizers"], json!(["kubernetes"]));
    } else if resource.is(crd::GROUP, crd::PLURAL) {
        crd::accept(object, &seconds(now));
    }
}

/// `stringData` is write-only. It is moved to `data`, base64-encoded.
fn secret(object: &mut Value) {
    if text_at(object, &["type"]).is_empty() {
        set_at(object, &["type"], json!("Opaque"));
    }
    let Some(Value::Object(plain)) = as_map(object).remove("stringData") else { return };
    for (name, value) in plain {
        let bytes = value.as_str().unwrap_or_default().as_bytes().to_vec();
        let encoded = serde_json::to_value(ByteString(bytes)).unwrap_or_default();
        set_at(object, &["data", &name], encoded);
    }
}

/// Empty labels and annotations are dropped, as by Go's `omitempty`.
fn drop_empty_maps(object: &mut Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match at(object, &["metadata", field]) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
        };
        if empty {
            meta::set(object, field, Value::Null);
        }
    }
}

/// Checks specific to the kind, and the syntax of labels and annotations.
pub(crate) fn validate(resource: &Resource, object: &Value) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    string_map(object, "labels", &mut causes);
    string_map(object, "annotations", &mut causes);
    for (key, value) in at(object, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten() {
        if !is_qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), "name part must be a qualified name"));
        }
        let text = value.as_str().unwrap_or_default();
        if !text.is_empty() && !is_label_text(text) {
            let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                       '.', and must start and end with an alphanumeric character";
            causes.push(Cause::invalid("metadata.labels", value, why));
        }
    }
    if !causes.is_empty() {
        return Err(resource.invalid(text(object, "name"), &causes));
    }
    if resource.is(crd::GROUP, crd::PLURAL) {
        crd::validate(object)?;
    }
    Ok(())
}

fn string_map(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    let path = format!("metadata.{field}");
    match at(object, &["metadata", field]) {
        None => {}
        Some(Value::Object(map)) => {
            let wrong = |(_, value): &(&String, &Value)| !value.is_string();
            if let Some((key, value)) = map.iter().find(wrong) {
                causes.push(Cause::invalid(format!("{path}.{key}"), value, "must be a string"));
            }
        }
        Some(other) => causes.push(Cause::invalid(path, other, "must be a map of strings")),
    }
}

fn is_label_text(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LABEL_LENGTH_MAX
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && edge(text.chars().next())
        && edge(text.chars().last())
}

fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_text(name),
        None => is_label_text(key),
    }
}

fn is_dns_subdomain(text: &str) -> bool {
    let part_fits = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= NAME_LENGTH_MAX && text.split('.').all(part_fits)
}

/// The rule for names of most kinds.
pub(crate) const NAME_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                                    characters, '-' or '.', and must start and end with an alphanumeric character";

/// Whether `name` is valid for an object of this kind.
pub(crate) fn is_name(resource: &Resource, name: &str) -> bool {
    if resource.group == "rbac.authorization.k8s.io" {
        !matches!(name, "." | "..") && !name.contains(['/', '%'])
    } else {
        is_dns_subdomain(name)
    }
}

/// The taints that the node lifecycle controller wants on a node for its conditions: (key, effect).
pub(crate) fn condition_taints(node: &Value) -> Vec<(&'static str, &'static str)> {
    let conditions = list_at(node, &["status", "conditions"]);
    let status = |kind: &str| {
        let found = conditions.iter().find(|condition| text_at(condition, &["type"]) == kind);
        found.map(|condition| text_at(condition, &["status"]))
    };
    let mut wanted = Vec::new();
    match status("Ready") {
        Some("False") => wanted.extend([(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)]),
        Some(_) | None => {}
    }
    if at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    wanted
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// The node with exactly the taints for its conditions. Other taints stay. `None` if nothing changes.
pub(crate) fn with_condition_taints(node: &Value, now: Timestamp) -> Option<Value> {
    let wanted = condition_taints(node);
    let current = list_at(node, &["spec", "taints"]);
    let is = |taint: &Value, key: &str, effect: &str| {
        text_at(taint, &["key"]) == key && text_at(taint, &["effect"]) == effect
    };
    let ours = |taint: &Value| {
        [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&text_at(taint, &["key"]))
            && [NO_SCHEDULE, NO_EXECUTE].contains(&text_at(taint, &["effect"]))
    };
    let mut taints = current.to_vec();
    taints.retain(|taint| !ours(taint) || wanted.iter().any(|(key, effect)| is(taint, key, effect)));
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| is(taint, key, effect)) {
            let mut taint = json!({ "key": key, "effect": effect });
            if effect == NO_EXECUTE || key == UNSCHEDULABLE {
                set_at(&mut taint, &["timeAdded"], json!(seconds(now)));
            }
            taints.push(taint);
        }
    }
    if taints == current {
        return None;
    }
    let mut changed = node.clone();
    if taints.is_empty() {
        as_map(as_map(&mut changed).entry("spec").or_insert(Value::Null)).remove("taints");
    } else {
        set_at(&mut changed, &["spec", "taints"], Value::Array(taints));
    }
    Some(changed)
}
