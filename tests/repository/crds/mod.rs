//! Every copy of the CRDs matches the types. What the Go operator's CRDs accept, ours accept and our types decode.
//! (tests/apiserver applies the same corpus to a real API server.)
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop at once")]

mod corpus;
mod schema;

use crate::root;
use flipop::api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// All YAML documents of a file.
fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The YAML files directly inside a folder, sorted.
fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder} is empty");
    paths
}

/// Our schema for a kind.
fn our_schema(kind: &str) -> Value {
    let crd = crd::all().into_iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The schema that the Go operator's users have.
fn go_schema(kind: &str) -> Value {
    let path = root().join(format!("tests/corpus/go-crds/{}s.yaml", kind.to_lowercase()));
    documents(&path)[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

const KINDS: [&str; 2] = ["FloatingIPPool", "NodeDNSRecordSet"];

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "asks whether to write instead of compare; no part of the operator"
)]
fn the_crds_and_their_copies_in_k8s_are_what_the_types_say() {
    let update = std::env::var_os("UPDATE_CRDS").is_some();
    for file in crd::files().unwrap() {
        for path in [format!("crds/{}", file.name), format!("k8s/crd-{}", file.name)] {
            if update {
                fs::write(root().join(&path), &file.yaml).unwrap();
            }
            let found = fs::read_to_string(root().join(&path)).unwrap_or_default();
            assert_eq!(
                found, file.yaml,
                "{path} is out of date: run UPDATE_CRDS=1 cargo test --test repository -- crds"
            );
        }
    }
    assert_eq!(yaml_files("crds").len(), KINDS.len(), "crds/ holds a file that nothing generates");
}

#[test]
fn the_printed_stream_holds_both_crds_as_kubernetes_reads_them() {
    let crds: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&crd::all_yaml().unwrap()).unwrap();
    let names: Vec<_> = crds.iter().map(|crd| crd.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(
        names,
        ["floatingippools.flipop.digitalocean.com", "nodednsrecordsets.flipop.digitalocean.com"]
    );
    for (crd, short_name) in crds.iter().zip(["fipool", "nodedns"]) {
        assert_eq!(crd.spec.scope, "Namespaced");
        assert_eq!(crd.spec.names.short_names.as_deref(), Some([short_name.to_owned()].as_slice()));
        assert_eq!(crd.spec.names.categories.as_deref(), Some(["flipop".to_owned()].as_slice()));
        let [version] = crd.spec.versions.as_slice() else { panic!("more than one version") };
        assert_eq!((version.name.as_str(), version.served, version.storage), ("v1alpha1", true, true));
        assert!(version.subresources.as_ref().is_some_and(|sub| sub.status.is_some()));
        let columns = version.additional_printer_columns.as_deref().unwrap_or_default();
        assert_eq!(
            columns.last().map(|column| column.json_path.as_str()),
            Some(".metadata.creationTimestamp")
        );
    }
    for (typed, written) in crds.iter().zip(crd::all()) {
        let typed = corpus::numbers_unified(&serde_json::to_value(typed).unwrap());
        assert!(typed == corpus::numbers_unified(&written), "Kubernetes' types lose a key that we wrote");
    }
}

#[test]
fn no_schema_of_ours_is_narrower_than_the_go_operators() {
    for kind in KINDS {
        let complaints = schema::narrower(&go_schema(kind), &our_schema(kind), kind);
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

#[test]
fn the_comparison_notices_each_way_in_which_a_schema_can_be_narrower() {
    let go = go_schema("FloatingIPPool");
    let spec = "/properties/spec";
    let narrowings = [
        (String::new(), "required", json!(["spec"])),
        (spec.to_owned(), "required", json!(["provider", "match"])),
        (spec.to_owned(), "x-kubernetes-validations", json!([{ "rule": "true" }])),
        (format!("{spec}/properties/region"), "enum", json!(["nyc3"])),
        (format!("{spec}/properties/region"), "pattern", json!("^[a-z0-9]+$")),
        (format!("{spec}/properties/region"), "minLength", json!(1)),
        (format!("{spec}/properties/region"), "maxLength", json!(63)),
        (format!("{spec}/properties/region"), "format", json!("hostname")),
        (format!("{spec}/properties/region"), "type", json!("integer")),
        (format!("{spec}/properties/region"), "default", json!("nyc3")),
        (format!("{spec}/properties/desiredIPs"), "minimum", json!(1)),
        (format!("{spec}/properties/desiredIPs"), "maximum", json!(100)),
        (format!("{spec}/properties/desiredIPs"), "exclusiveMinimum", json!(true)),
        (format!("{spec}/properties/assignmentCoolOffSeconds"), "type", json!("integer")),
        (format!("{spec}/properties/assignmentCoolOffSeconds"), "multipleOf", json!(1)),
        (format!("{spec}/properties/ips"), "x-kubernetes-list-type", json!("set")),
        (format!("{spec}/properties/ips"), "maxItems", json!(10)),
        (format!("{spec}/properties/ips"), "minItems", json!(1)),
        (format!("{spec}/properties/ips/items"), "oneOf", json!([{ "pattern": "^1" }])),
        (format!("{spec}/properties/ips/items"), "not", json!({ "pattern": ":" })),
        (format!("{spec}/properties/match/properties/tolerations/items"), "required", json!(["key"])),
        (format!("{spec}/properties/match/properties"), "podLabel", Value::Null),
        ("/properties/status/properties/ips/additionalProperties".to_owned(), "required", json!(["state"])),
        ("/properties/status/properties/ips".to_owned(), "maxProperties", json!(3)),
        ("/properties/status".to_owned(), "default", json!({ "observedGeneration": -1, "error": "x" })),
        ("/properties/status/properties/error".to_owned(), "default", json!("x")),
        (spec.to_owned(), "default", json!({ "observedGeneration": -1 })),
    ];
    for (at, key, value) in narrowings {
        let mut ours = go.clone();
        let target = ours.pointer_mut(&at).and_then(Value::as_object_mut).unwrap();
        if value.is_null() {
            target.remove(key);
        } else {
            target.insert(key.to_owned(), value);
        }
        assert!(!schema::narrower(&go, &ours, "pool").is_empty(), "{key} at {at:?} goes unnoticed");
    }
    assert!(schema::narrower(&go, &go, "pool").is_empty());
}

/// Otherwise a server-side apply of what the Go operator's types wrote would be refused.
#[test]
fn null_is_admitted_for_every_field_of_a_spec() {
    for kind in KINDS {
        let spec = our_schema(kind)["properties"]["spec"].clone();
        assert_eq!(spec["nullable"], true);
        schema::walk(&spec, kind, &mut |path, schema, is_property| {
            assert!(!is_property || schema["nullable"] == true, "{path} refuses null");
        });
    }
}

#[test]
fn every_field_is_described_and_nothing_is_required_or_filled_in_but_an_absent_status() {
    for kind in KINDS {
        schema::walk(&our_schema(kind), kind, &mut |path, schema, is_property| {
            assert!(!is_property || schema["description"].is_string(), "{path} has no description");
            for key in ["required", "default", "format"] {
                let default = (key, path) == ("default", &format!("{kind}.status"));
                let right = default.then(|| json!({ "observedGeneration": -1 }));
                assert_eq!(schema.get(key), right.as_ref(), "{key} of {path}");
            }
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                assert!(
                    rule["message"].as_str().is_some_and(|message| message.len() > 20),
                    "{path} refuses mutely"
                );
            }
        });
    }
}
