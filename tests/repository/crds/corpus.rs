//! Objects from real use: accepted, decoded, and written back unchanged.

use super::schema::{pruned, refusals};
use super::{KINDS, documents, go_schema, our_schema, yaml_files};
use crate::root;
use flipop::api::{FloatingIPPool, NodeDNSRecordSet, given};
use kube::core::DeserializeGuard;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Objects that the Go operator's CRDs accept.
fn accepted_by_go() -> Vec<Value> {
    yaml_files("tests/corpus").iter().flat_map(|path| documents(path)).collect()
}

/// Objects that only ours accept.
fn accepted_by_ours() -> Vec<Value> {
    yaml_files("tests/corpus/ours").iter().flat_map(|path| documents(path)).collect()
}

fn kind(object: &Value) -> &str {
    let kind = object["kind"].as_str().unwrap();
    assert!(KINDS.contains(&kind), "{object}");
    assert_eq!(object["apiVersion"], "flipop.digitalocean.com/v1alpha1");
    kind
}

fn name(object: &Value) -> String {
    format!("{}/{}", kind(object), object["metadata"]["name"].as_str().unwrap())
}

/// An object without the parts that the API server manages.
fn body(object: &Value) -> Value {
    let parts =
        ["spec", "status"].into_iter().filter_map(|part| Some((part.to_owned(), object.get(part)?.clone())));
    Value::Object(parts.collect::<Map<_, _>>())
}

fn refused_by(schema: &Value, object: &Value) -> Vec<String> {
    refusals(schema, &pruned(schema, &body(object)), &name(object))
}

#[test]
fn the_corpus_is_large_and_its_names_are_unique() {
    let names: Vec<String> = accepted_by_go().iter().map(name).collect();
    assert!(names.len() >= 45, "only {} objects", names.len());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert!(names.iter().any(|name| name.starts_with("FloatingIPPool/")));
    assert!(names.iter().any(|name| name.starts_with("NodeDNSRecordSet/")));
}

#[test]
fn what_the_go_crds_accept_ours_accept() {
    for object in accepted_by_go() {
        assert_eq!(refused_by(&go_schema(kind(&object)), &object), Vec::<String>::new());
        assert_eq!(refused_by(&our_schema(kind(&object)), &object), Vec::<String>::new());
    }
    for object in accepted_by_ours() {
        assert_eq!(refused_by(&our_schema(kind(&object)), &object), Vec::<String>::new());
    }
}

/// Wrong types are found here. A rule is only searched for, since evaluating it needs an API server.
#[test]
fn what_is_to_be_refused_says_which_message_the_user_gets() {
    for object in yaml_files("tests/corpus/refused").iter().flat_map(|path| documents(path)) {
        let message = object["metadata"]["annotations"]["corpus/refused"].as_str().unwrap();
        let schema = our_schema(kind(&object));
        let by_type = !refused_by(&schema, &object).is_empty();
        let by_rule = schema.to_string().contains(message);
        assert!(by_type || by_rule, "{}: nothing says {message:?}", name(&object));
    }
}

#[test]
fn each_object_decodes_alone_and_behind_a_guard() {
    fn decode<K: DeserializeOwned + kube::Resource>(object: &Value) {
        if let Err(error) = serde_json::from_value::<K>(object.clone()) {
            panic!("{}: {error}", name(object));
        }
        // As a watch reads it, from text.
        let guarded: DeserializeGuard<K> = serde_json::from_str(&object.to_string()).unwrap();
        if let Err(error) = guarded.0 {
            panic!("{} behind a guard: {error}", name(object));
        }
    }
    for object in accepted_by_go().iter().chain(&accepted_by_ours()) {
        match kind(object) {
            "FloatingIPPool" => decode::<FloatingIPPool>(object),
            _ => decode::<NodeDNSRecordSet>(object),
        }
    }
}

#[test]
fn an_object_is_written_back_with_the_spec_that_was_read() {
    /// The form in which an object is written, if it was read in whole.
    fn written<K: DeserializeOwned + Serialize>(object: &Value, is_whole: fn(&K) -> bool) -> Option<Value> {
        let read: K = serde_json::from_value(object.clone()).unwrap();
        is_whole(&read).then(|| serde_json::to_value(read).unwrap())
    }
    for object in accepted_by_go().iter().chain(&accepted_by_ours()) {
        let written = match kind(object) {
            "FloatingIPPool" => written::<FloatingIPPool>(object, |pool| pool.spec.too_large.is_empty()),
            _ => written::<NodeDNSRecordSet>(object, |set| set.spec.too_large.is_empty()),
        };
        let Some(written) = written else { continue };
        assert_eq!(written["kind"], object["kind"]);
        assert_eq!(written["apiVersion"], object["apiVersion"]);
        assert_eq!(written["metadata"]["name"], object["metadata"]["name"]);
        let schema = &our_schema(kind(object))["properties"]["spec"];
        let empty = json!({});
        let spec = Some(&object["spec"]).filter(|spec| !spec.is_null()).unwrap_or(&empty);
        let stored = without_nulls(&pruned(schema, spec));
        assert_eq!(numbers_unified(&written["spec"]), numbers_unified(&stored), "{}", name(object));
    }
}

/// A null means absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// 3 and 3.0 are the same JSON number.
pub(crate) fn numbers_unified(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers_unified).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), numbers_unified(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn the_status_that_the_go_operator_left_is_read() {
    let object =
        accepted_by_go().into_iter().find(|object| object["metadata"]["name"] == "go-status").unwrap();
    let status = serde_json::from_value::<FloatingIPPool>(object).unwrap().status.unwrap();
    assert_eq!(status.ips["203.0.113.10"].node_name, "alpha");
    assert_eq!(status.ips["203.0.113.10"].provider_id, "digitalocean://101");
    assert_eq!(status.ips["203.0.113.12"].error, "retrieving IP: 404");
    assert_eq!(status.ips["203.0.113.14"].state, "disabled");
    assert_eq!(status.assignable_nodes, ["zeta", "alpha"]);
    assert_eq!(status.orphan_ips, None);
}

#[test]
fn an_empty_list_of_orphans_is_kept_apart_from_none() {
    let mut pool: FloatingIPPool = serde_json::from_value(json!({
        "metadata": {}, "status": { "orphanIPs": [], "conditions": [{ "type": "Ready", "lastTransitionTime": "soon" }] }
    }))
    .unwrap();
    let status = pool.status.as_mut().unwrap();
    assert_eq!(status.orphan_ips, Some(Vec::new()));
    assert_eq!(status.conditions[0].last_transition_time, None);
    status.conditions.clear();
    assert_eq!(serde_json::to_value(&pool).unwrap()["status"], json!({ "orphanIPs": [] }));
    pool.status = Some(flipop::api::FloatingIPPoolStatus::default());
    assert_eq!(serde_json::to_value(&pool).unwrap()["status"], json!({}));
}

#[test]
fn an_empty_text_is_no_answer() {
    assert_eq!(given(None), None);
    assert_eq!(given(Some(&String::new())), None);
    assert_eq!(given(Some(&"nyc3".to_owned())), Some("nyc3"));
}

#[test]
fn the_examples_are_admissible_and_use_documentation_addresses_only() {
    for path in yaml_files("examples") {
        for object in documents(&path) {
            if !object["apiVersion"].as_str().unwrap().starts_with("flipop") {
                continue;
            }
            assert_eq!(refused_by(&our_schema(kind(&object)), &object), Vec::<String>::new());
            // No field of an example is dropped, so none is misspelled.
            let schema = our_schema(kind(&object));
            assert_eq!(pruned(&schema, &body(&object)), body(&object), "{}", path.display());
            for ip in object["spec"]["ips"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(
                    ip.starts_with("203.0.113.") || ip.starts_with("198.51.100."),
                    "{ip} may be someone's"
                );
            }
            let zone = object["spec"]["dnsRecordSet"]["zone"].as_str().unwrap();
            assert!(["example.com", "example.net"].contains(&zone), "{zone} may be someone's");
        }
    }
    assert!(root().join("examples/floatingippool.yaml").is_file());
}
