//! Argo CD's health checks, run with Lua on every condition that FLIPOP can write.

use crate::tools::{needs, plain, read, run};
use flipop_core::model::{ObjectKind, catalog};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The version of Argo CD's own Lua.
const LUA: &str = "lua5.1";

const KINDS: [ObjectKind; 2] = [ObjectKind::Pool, ObjectKind::RecordSet];

const SCRIPT: &str = "argocd/health.lua";

/// Reasons that end by themselves.
const PASSING: [&str; 5] = ["Assigning", "InProgress", "MissingAddresses", "NodesUnread", "ProviderUnread"];

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, fn()); 2] = [
        ("each_condition_has_the_health_that_it_means", each_condition),
        ("an_object_is_as_healthy_as_its_worst_condition", worst),
    ];
    let test = |(name, run): (&str, fn())| needs(LUA, &["-v"], format!("health::{name}"), run);
    let mut trials: Vec<Trial> = tests.into_iter().map(test).collect();
    trials.push(plain("health::the_recipe_has_the_script_for_both_kinds", shown));
    trials
}

/// The text that registers both kinds with Argo CD: a patch of its `ConfigMap`.
pub(crate) fn patch() -> String {
    let script = read(SCRIPT);
    let script = script.lines().flat_map(|line| ["    ", line, "\n"]).collect::<String>();
    let kinds = KINDS.map(|kind| {
        format!("  resource.customizations.health.flipop.digitalocean.com_{}: |\n{script}", kind.as_str())
    });
    format!(
        "# Made from {SCRIPT}: UPDATE_INSTALL=1 cargo test --test install. Do not edit.\ndata:\n{}",
        kinds.concat()
    )
}

/// A value in Lua syntax.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("[{name:?}] = {}", lua(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("{{ {} }}", items.iter().map(lua).collect::<Vec<_>>().join(", ")),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => value.to_string(),
    }
}

/// An object's health and message.
fn health(object: &Value) -> (String, String) {
    let mut program = format!("obj = {}\nlocal function health()\n{}end\n", lua(object), read(SCRIPT));
    writeln!(program, "local hs = health()\nio.write(hs.status, '\\n', hs.message)").unwrap();
    let ran = run(LUA, &["-"], &program);
    assert!(ran.success, "{}\n{program}", ran.stderr);
    let (status, message) = ran.stdout.split_once('\n').unwrap();
    (status.to_owned(), message.to_owned())
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": "words" })
}

fn with(conditions: &[Value]) -> Value {
    json!({ "metadata": { "generation": 3 }, "status": { "observedGeneration": 3, "conditions": conditions } })
}

fn each_condition() {
    let mut passing = BTreeSet::new();
    for object in KINDS {
        for (kind, row) in catalog::of(object) {
            let (kind, status, reason) = (kind.as_str(), row.status.as_str(), row.reason);
            let counts = ["Ready", "RecordSetReady", "ProviderReady"].contains(&kind);
            let expected = match (counts, status) {
                _ if [kind, reason].contains(&"Paused") => "Suspended",
                (false, _) | (_, "True") => "Healthy",
                _ if PASSING.contains(&reason) => "Progressing",
                _ => "Degraded",
            };
            if expected == "Progressing" {
                passing.insert(reason);
            }
            let ready = condition("Ready", "True", "Assigned");
            let own = condition(kind, status, reason);
            let mut conditions = if kind == "Ready" { vec![own] } else { vec![own, ready] };
            if expected == "Suspended" && kind != "Paused" {
                conditions.push(condition("Paused", "True", "Annotation"));
            }
            let (found, message) = health(&with(&conditions));
            assert_eq!(found, expected, "{kind} {status} {reason}: {message}");
            let named = match expected {
                "Healthy" => "Ready",
                "Suspended" => "Paused",
                _ => kind,
            };
            assert!(message.starts_with(named) && message.ends_with(": words"), "{message}");
        }
    }
    assert_eq!(passing, BTreeSet::from(PASSING));
}

fn worst() {
    let ready = condition("Ready", "True", "Assigned");
    let waits = condition("RecordSetReady", "False", "InProgress");
    let fails = condition("RecordSetReady", "False", "CNAME");
    let assigning = condition("Ready", "False", "Assigning");
    let refused = condition("ProviderReady", "False", "Unauthorized");
    let paused = condition("Paused", "True", "Annotation");
    let stands = condition("Ready", "False", "Paused");
    for (conditions, expected, said) in [
        (vec![paused.clone(), ready.clone()], "Suspended", "Paused Annotation: words"),
        (vec![stands, paused.clone(), waits.clone()], "Suspended", "Paused Annotation: words"),
        (vec![paused, fails.clone()], "Degraded", "RecordSetReady CNAME: words"),
        (vec![ready.clone()], "Healthy", "Ready Assigned: words"),
        (vec![ready.clone(), waits.clone()], "Progressing", "RecordSetReady InProgress: words"),
        (vec![waits, ready.clone()], "Progressing", "RecordSetReady InProgress: words"),
        (vec![ready, fails.clone()], "Degraded", "RecordSetReady CNAME: words"),
        (vec![assigning.clone(), fails], "Degraded", "RecordSetReady CNAME: words"),
        (vec![assigning, refused], "Degraded", "ProviderReady Unauthorized: words"),
        (vec![], "Progressing", "FLIPOP has not said yet whether the object is ready"),
    ] {
        assert_eq!(health(&with(&conditions)), (expected.to_owned(), said.to_owned()));
    }
    let unseen = "FLIPOP has not looked at this version of the object yet";
    let mut old = with(&[condition("Ready", "True", "Assigned")]);
    old["status"]["observedGeneration"] = json!(2);
    for object in [
        old,
        json!({ "metadata": { "generation": 1 } }),
        json!({ "metadata": { "generation": 1 }, "status": { "observedGeneration": -1 } }),
    ] {
        assert_eq!(health(&object), ("Progressing".to_owned(), unseen.to_owned()));
    }
}

fn shown() {
    let patch: Value = serde_saphyr::from_str(&patch()).unwrap();
    for kind in ["FloatingIPPool", "NodeDNSRecordSet"] {
        let key = format!("resource.customizations.health.flipop.digitalocean.com_{kind}");
        assert_eq!(patch["data"][&key].as_str().unwrap(), read(SCRIPT), "{kind}");
    }
    assert!(read("docs/recipes/gitops.md").contains("--patch-file argocd/health.yaml"));
}
