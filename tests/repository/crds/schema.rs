//! Structural schemas as data: which of two is narrower, and whether one admits an object.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Keys that can refuse a value. They may appear in our schema only as in theirs. `required`, `type`, `minimum` and
/// `enum` are compared by meaning.
const REFUSING: [&str; 18] = [
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "anyOf",
    "allOf",
    "not",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
];

/// The values that `theirs` admits and `ours` refuses, loses or rewrites, one line each.
pub(crate) fn narrower(theirs: &Value, ours: &Value, path: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    compare(theirs, ours, path, &mut complaints);
    complaints
}

fn compare(theirs: &Value, ours: &Value, path: &str, complaints: &mut Vec<String>) {
    let mut complain = |what: String| complaints.push(format!("{path}: {what}"));
    if ours["type"] != theirs["type"] && !(ours["type"] == "number" && theirs["type"] == "integer") {
        complain(format!("type {} was {}", ours["type"], theirs["type"]));
    }
    for missing in strings(&ours["required"]).difference(&strings(&theirs["required"])) {
        complain(format!("{missing} became required"));
    }
    if ours["minimum"].as_f64().unwrap_or(f64::MIN) > theirs["minimum"].as_f64().unwrap_or(f64::MIN) {
        complain(format!("minimum {} was {}", ours["minimum"], theirs["minimum"]));
    }
    if ours.get("enum").is_some() && ours["enum"] != theirs["enum"] {
        complain("enum appeared or changed".to_owned());
    }
    if ours.get("default").is_some_and(|default| !is_of_an_unobserved_status(path, default)) {
        complain("a default would be written into the object".to_owned());
    }
    if theirs["nullable"] == true && ours["nullable"] != true {
        complain("null is no longer admitted".to_owned());
    }
    for key in REFUSING.iter().chain(&["oneOf"]) {
        if ours.get(key).is_some() && ours.get(key) != theirs.get(key) {
            complain(format!("{key} appeared or changed"));
        }
    }
    for (name, property) in properties(theirs) {
        match ours["properties"].get(name) {
            Some(ours) => compare(property, ours, &format!("{path}.{name}"), complaints),
            None => complaints.push(format!("{path}.{name}: would be pruned")),
        }
    }
    for key in ["items", "additionalProperties"] {
        match (theirs.get(key), ours.get(key)) {
            (Some(theirs), Some(ours)) => compare(theirs, ours, &format!("{path}.{key}"), complaints),
            (Some(_), None) => complaints.push(format!("{path}.{key}: would be pruned")),
            (None, _) => {}
        }
    }
}

/// The API server writes this default if an object has no status. It replaces nothing that a user or another operator
/// wrote.
fn is_of_an_unobserved_status(path: &str, default: &Value) -> bool {
    path.split('.').skip(1).eq(["status"]) && *default == json!({ "observedGeneration": -1 })
}

fn strings(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Visits this schema and all below it. The flag says whether it belongs to a named property.
pub(crate) fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value, bool)) {
    visit(path, schema, false);
    for (name, property) in properties(schema) {
        let path = format!("{path}.{name}");
        visit(&path, property, true);
        walk(property, &path, visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(key) {
            walk(schema, &format!("{path}.{key}"), visit);
        }
    }
}

/// The form in which the API server stores a value: it drops unknown fields, and a null where none is allowed.
pub(crate) fn pruned(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| {
                    let schema = schema["properties"].get(name).or(schema.get("additionalProperties"))?;
                    let keep = !value.is_null() || schema["nullable"] == true;
                    keep.then(|| (name.clone(), pruned(schema, value)))
                })
                .collect();
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(|item| pruned(&schema["items"], item)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Why a schema refuses a pruned value, by type, `required` and bounds. Patterns and rules need an API server.
pub(crate) fn refusals(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut refusals = Vec::new();
    if value.is_null() && schema["nullable"] == true {
        return refusals;
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some(_) | None => false,
    };
    if !fits {
        refusals.push(format!("{path}: {value} is no {}", schema["type"]));
    }
    if value.as_f64().unwrap_or(f64::MAX) < schema["minimum"].as_f64().unwrap_or(f64::MIN) {
        refusals.push(format!("{path}: {value} is below {}", schema["minimum"]));
    }
    if value.as_f64().unwrap_or(f64::MIN) > schema["maximum"].as_f64().unwrap_or(f64::MAX) {
        refusals.push(format!("{path}: {value} is above {}", schema["maximum"]));
    }
    if let Some(fields) = value.as_object() {
        for name in strings(&schema["required"]).iter().filter(|name| !fields.contains_key(**name)) {
            refusals.push(format!("{path}: {name} is missing"));
        }
        for (name, value) in fields {
            let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
            refusals.extend(self::refusals(schema, value, &format!("{path}.{name}")));
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        refusals.extend(self::refusals(&schema["items"], item, &format!("{path}[{index}]")));
    }
    refusals
}
