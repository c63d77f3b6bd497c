//! The schema of the chart's values: it knows all of them, and no others.

use crate::tools::{plain, read};
use libtest_mimic::Trial;
use serde_json::Value;

const SCHEMA: &str = "charts/flipop/values.schema.json";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        plain("schema::each_object_is_closed_or_a_map_or_left_to_kubernetes_or_helm", closed),
        plain("schema::each_value_is_in_the_schema_and_the_other_way_round", same_keys),
        plain("schema::no_word_to_choose_from_is_something_else_in_yaml", words),
    ]
}

/// Words that YAML 1.1 takes for a boolean or for nothing, in lower case.
const NO_TEXT: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];

fn words() {
    let mut chosen = Vec::new();
    enums(&schema(), &mut chosen);
    assert!(chosen.contains(&"IfNotPresent".to_owned()) && chosen.contains(&"None".to_owned()), "{chosen:?}");
    let odd = chosen.iter().find(|word| NO_TEXT.contains(&word.to_lowercase().as_str()));
    assert_eq!(odd, None, "a user would have to quote it");
}

/// Every word of every list to choose from.
fn enums(schema: &Value, chosen: &mut Vec<String>) {
    let listed = schema["enum"].as_array().into_iter().flatten();
    chosen.extend(listed.filter_map(Value::as_str).map(str::to_owned));
    let parts: Vec<&Value> = match schema {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for part in parts {
        enums(part, chosen);
    }
}

fn schema() -> Value {
    serde_json::from_str(&read(SCHEMA)).unwrap()
}

fn closed() {
    let mut left = Vec::new();
    walk("", &schema(), &mut left);
    // Long Kubernetes structures. The API server and Helm refuse unknown fields there.
    let expected = [
        "/affinity/nodeAffinity",
        "/affinity/podAffinity",
        "/affinity/podAntiAffinity",
        "/global",
        "/volumes/*",
    ];
    assert_eq!(left, expected);
}

/// Lists the objects that admit any key.
fn walk(path: &str, schema: &Value, left: &mut Vec<String>) {
    if schema["type"] == "object" && !(schema["additionalProperties"] == false) {
        if schema["additionalProperties"].is_null() {
            left.push(path.to_owned());
        } else {
            assert!(!schema["additionalProperties"]["type"].is_null(), "{path} takes anything");
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}/{name}"), property, left);
    }
    if !schema["items"].is_null() {
        walk(&format!("{path}/*"), &schema["items"], left);
    }
}

fn same_keys() {
    let values: Value = serde_saphyr::from_str(&read("charts/flipop/values.yaml")).unwrap();
    compare("", &values, &schema());
}

fn compare(path: &str, values: &Value, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let Some(values) = values.as_object() else { return };
    for (name, value) in values {
        let property = properties.get(name).unwrap_or_else(|| panic!("{path}/{name} is in no schema"));
        compare(&format!("{path}/{name}"), value, property);
    }
    // A security context has defaults for some of its fields.
    if path.contains("ecurityContext") {
        return;
    }
    // An unset affinity or resource has no default.
    let optional =
        ["/global", "/affinity/nodeAffinity", "/affinity/podAffinity", "/affinity/podAntiAffinity"];
    for name in properties.keys() {
        let path = format!("{path}/{name}");
        assert!(values.contains_key(name) || optional.contains(&path.as_str()), "values.yaml lacks {path}");
    }
}
