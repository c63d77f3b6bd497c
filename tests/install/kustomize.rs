//! The output of kustomize for the repository, and for overlays on it as in docs/operations/kustomize.md.

use crate::objects::{Objects, assert_same, folder, object, parse, scrape_agents};
use crate::tools::{plain, read, root, run};
use flipop_envtest::assets::{self, Found, nothing_may_be_skipped};
use libtest_mimic::{Completion, Failed, Trial};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The components, as overlays name them.
const COMPONENTS: [&str; 3] = ["monitoring", "network-policy", "one-replica"];

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, fn()); 9] = [
        ("the_repository_is_what_k8s_holds", the_repository),
        ("components_add_what_they_say", components),
        ("the_agent_keeps_its_own_namespace", agent),
        ("the_role_for_node_checks_stays_with_the_leases", node_check),
        ("the_limits_of_tenants_know_the_operator_in_any_namespace", tenants),
        ("one_line_changes_the_namespace_everywhere", namespace),
        ("prefix_suffix_and_namespace_change_the_account_everywhere", renamed),
        ("one_replica_needs_no_alert_on_a_standby", one_replica),
        ("an_overlay_may_name_the_image", image),
    ];
    let test = |(name, run): (&str, fn())| {
        Trial::ignorable_test(format!("kustomize::{name}"), move || match kubectl() {
            Err(lack) if nothing_may_be_skipped() => Err(Failed::from(lack)),
            Err(lack) => Ok(Completion::ignored_with(lack)),
            Ok(_) => {
                run();
                Ok(Completion::Completed)
            }
        })
    };
    let mut trials: Vec<Trial> = tests.into_iter().map(test).collect();
    trials.push(plain("kustomize::it_names_every_manifest", names_every_manifest));
    trials
}

/// `kubectl`, from `PATH` or from the tests on a real API server. The error says that there is neither.
fn kubectl() -> &'static Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        if Command::new("kubectl").args(["version", "--client"]).output().is_ok() {
            return Ok(PathBuf::from("kubectl"));
        }
        match assets::find() {
            Ok(Found::Assets(assets)) => Ok(assets.kubectl),
            Ok(Found::Nothing(_)) => Err("needs kubectl, or Go to build it".to_owned()),
            Err(failure) => Err(failure.to_string()),
        }
    })
}

fn build(folder: &Path) -> Objects {
    let kubectl = kubectl().as_ref().unwrap().display().to_string();
    let ran = run(&kubectl, &["kustomize", &folder.display().to_string()], "");
    assert!(ran.success && ran.stderr.is_empty(), "{}", ran.stderr);
    parse(&ran.stdout)
}

/// Builds an overlay beside a link to the repository, which stands for a user's checkout.
fn overlay(components: &[&str], more: &Value) -> Objects {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root(), folder.path().join("flipop")).unwrap();
    let components: Vec<String> =
        components.iter().map(|name| format!("../flipop/kustomize/{name}")).collect();
    let mut overlay = json!({
        "resources": ["../flipop"],
        "components": components,
        "transformers": ["../flipop/kustomize/namespace"],
    });
    overlay.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let own = folder.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("kustomization.yaml"), overlay.to_string()).unwrap();
    build(&own)
}

/// In an overlay without a namespace of its own.
fn agent() {
    let mut wanted = folder("k8s");
    wanted.extend(folder("k8s/agent"));
    assert_same(&overlay(&["agent"], &json!({})), &wanted);
    wanted.extend(parse(&read("kustomize/agent-monitoring/podmonitor.yaml")));
    scrape_agents(&mut wanted);
    assert_same(&overlay(&["agent", "agent-monitoring"], &json!({})), &wanted);
}

/// Its namespace stays as it is where the overlay has one; that of the account does not.
fn node_check() {
    let mut wanted = folder("k8s");
    wanted.extend(folder("k8s/nodecheck"));
    assert_same(&overlay(&["nodecheck"], &json!({})), &wanted);
    let elsewhere = overlay(&["nodecheck"], &json!({ "namespace": "infra" }));
    let binding = object(&elsewhere, "RoleBinding", "flipop-nodecheck");
    assert_eq!(binding["metadata"]["namespace"], "kube-node-lease");
    assert_eq!(binding["subjects"][0]["namespace"], "infra");
    assert_eq!(object(&elsewhere, "Role", "flipop-nodecheck")["metadata"]["namespace"], "kube-node-lease");
}

fn tenants() {
    let mut wanted = folder("k8s");
    wanted.extend(parse(&read("k8s/tenants/policy.yaml")));
    assert_same(&overlay(&["tenants"], &json!({})), &wanted);
    let elsewhere = overlay(&["tenants"], &json!({ "namespace": "infra" }));
    let policy = object(&elsewhere, "ValidatingAdmissionPolicy", "flipop-tenants");
    assert_eq!(policy["metadata"]["namespace"], Value::Null);
    let by = policy["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
    assert!(by.ends_with("!= 'system:serviceaccount:infra:flipop'"), "{by}");
}

fn names_every_manifest() {
    let kustomization: Value = serde_saphyr::from_str(&read("kustomization.yaml")).unwrap();
    let named: BTreeSet<&str> =
        kustomization["resources"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    let files = std::fs::read_dir(root().join("k8s")).unwrap();
    let files: Vec<String> = files
        .map(|file| format!("k8s/{}", file.unwrap().file_name().display()))
        .filter(|name| !["k8s/agent", "k8s/nodecheck", "k8s/tenants"].contains(&name.as_str()))
        .collect();
    assert_eq!(named, files.iter().map(String::as_str).collect());
}

fn the_repository() {
    assert_same(&build(root()), &folder("k8s"));
    assert_same(&overlay(&[], &json!({})), &folder("k8s"));
}

fn components() {
    let found = overlay(&COMPONENTS[..2], &json!({}));
    let mut wanted = folder("k8s");
    for file in
        ["monitoring/podmonitor.yaml", "monitoring/prometheusrule.yaml", "network-policy/networkpolicy.yaml"]
    {
        wanted.extend(parse(&read(&format!("kustomize/{file}"))));
    }
    assert_same(&found, &wanted);
    let alerts: Value = serde_saphyr::from_str(&read("monitoring/alerts.yaml")).unwrap();
    assert_eq!(object(&found, "PrometheusRule", "flipop")["spec"], alerts);
}

fn namespace() {
    let objects = overlay(&COMPONENTS, &json!({ "namespace": "infra" }));
    let mut in_infra = 0;
    for ((kind, name), object) in &objects {
        let text = object.to_string();
        assert!(!text.contains("system:serviceaccount:flipop:"), "{kind} {name}");
        assert!(!text.contains("\"namespace\":\"flipop\""), "{kind} {name}");
        in_infra += text.matches("\"namespace\":\"infra\"").count();
        if kind.starts_with("ValidatingAdmissionPolicy") {
            assert!(object["metadata"]["namespace"].is_null(), "{kind} {name} has a namespace");
        }
        if kind == "ValidatingAdmissionPolicy" {
            let by = object["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
            assert!(by.ends_with("= 'system:serviceaccount:infra:flipop'"), "{by}");
        }
    }
    // Deployment, ServiceAccount, PodDisruptionBudget, Role and RoleBinding, PodMonitor, PrometheusRule, NetworkPolicy,
    // and the subjects of the two bindings.
    assert_eq!(in_infra, 10);
    let wanted: BTreeSet<_> = folder("k8s").into_keys().collect();
    assert!(wanted.is_subset(&objects.into_keys().collect()));
}

/// Everything that names the account, its role or a policy, with all components of the namespace of the overlay.
fn renamed() {
    let components = ["nodecheck", "tenants", COMPONENTS[0], COMPONENTS[1], COMPONENTS[2]];
    let names = json!({ "namePrefix": "prod-", "nameSuffix": "-eu", "namespace": "infra" });
    let objects = overlay(&components, &names);
    let account = &object(&objects, "ServiceAccount", "prod-flipop-eu");
    assert_eq!(account["metadata"]["namespace"], "infra");
    assert_eq!(account.get("user"), None, "the account has no such field");
    let pod = &object(&objects, "Deployment", "prod-flipop-eu")["spec"]["template"]["spec"];
    let references = [&pod["serviceAccountName"], &pod["priorityClassName"]];
    assert_eq!(references, ["prod-flipop-eu", "prod-flipop-eu"]);
    let (mut policies, mut bindings) = (0, 0);
    for ((kind, name), object) in &objects {
        if kind == "ValidatingAdmissionPolicy" {
            let by = object["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
            assert!(by.ends_with("= 'system:serviceaccount:infra:prod-flipop-eu'"), "{name}: {by}");
            policies += 1;
        } else if kind == "ValidatingAdmissionPolicyBinding" {
            assert_eq!(object["spec"]["policyName"], name.as_str());
        } else if kind.ends_with("RoleBinding") {
            let subject = json!({ "kind": "ServiceAccount", "name": "prod-flipop-eu", "namespace": "infra" });
            assert_eq!(object["subjects"], json!([subject]), "{name}");
            assert_eq!(object["roleRef"]["name"], name.as_str());
            bindings += 1;
        }
    }
    assert_eq!((policies, bindings), (4, 3));
    let agents = overlay(&["agent", "agent-monitoring"], &json!({ "namePrefix": "prod-" }));
    let account = object(&agents, "ServiceAccount", "prod-flipop-agent");
    assert_eq!(account["metadata"]["namespace"], "flipop-agent");
    object(&agents, "Namespace", "flipop-agent");
    let subjects = &object(&agents, "ClusterRoleBinding", "prod-flipop-agent")["subjects"];
    assert_eq!(subjects[0]["name"], "prod-flipop-agent");
}

fn one_replica() {
    let alone = overlay(&["one-replica"], &json!({}));
    assert_eq!(object(&alone, "Deployment", "flipop")["spec"]["replicas"], 1);
    let objects = overlay(&COMPONENTS, &json!({}));
    let rules = &object(&objects, "PrometheusRule", "flipop")["spec"]["groups"][0]["rules"];
    let names: Vec<&Value> = rules.as_array().unwrap().iter().map(|rule| &rule["alert"]).collect();
    let alerts: Value = serde_saphyr::from_str(&read("monitoring/alerts.yaml")).unwrap();
    let all = alerts["groups"][0]["rules"].as_array().unwrap().iter().map(|rule| &rule["alert"]);
    assert_eq!(names, all.filter(|name| **name != "FlipopNoStandby").collect::<Vec<_>>());
}

fn image() {
    let image =
        json!({ "name": "registry.invalid/flipop", "newName": "registry.example.com/flipop", "newTag": "9" });
    let objects = overlay(&[], &json!({ "images": [image] }));
    let container = &object(&objects, "Deployment", "flipop")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.com/flipop:9");
}
