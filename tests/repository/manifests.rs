//! The objects that `kubectl apply -n flipop -f k8s` installs: names that existing clusters rely on, minimal rights,
//! and pods that Pod Security `restricted` admits.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop at once")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The environment variables that the operator reads from the secret.
const SECRET_KEYS: [&str; 6] = [
    "DIGITALOCEAN_ACCESS_TOKEN",
    "DIGITALOCEAN_API_URL",
    "DIGITALOCEAN_USER_AGENT",
    "CLOUDFLARE_TOKEN",
    "CLOUDFLARE_API_URL",
    "CLOUDFLARE_USER_AGENT",
];

/// Every object of k8s/, by kind and name. kubectl reads no subfolder.
fn manifests() -> BTreeMap<(String, String), Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("k8s");
    let mut manifests = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        assert!(
            path.extension().is_some_and(|extension| extension == "yaml"),
            "kubectl skips {}",
            path.display()
        );
        let text = fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for object in documents {
            let key = (text_of(&object["kind"]), text_of(&object["metadata"]["name"]));
            assert!(manifests.insert(key.clone(), object).is_none(), "{key:?} stands twice in k8s/");
        }
    }
    manifests
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn object(kind: &str, name: &str) -> Value {
    manifests().remove(&(kind.to_owned(), name.to_owned())).unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn container() -> Value {
    let containers = object("Deployment", "flipop")["spec"]["template"]["spec"]["containers"].clone();
    let [container] = containers.as_array().unwrap().as_slice() else { panic!("more than one container") };
    container.clone()
}

#[test]
fn the_agent_has_root_and_one_capability_and_reads_nodes() {
    let read = |file: &str| -> Vec<Value> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("k8s/agent").join(file);
        serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let account = read("account.yaml");
    assert_eq!(account[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
    let rules = &account[2]["rules"];
    assert_eq!(
        rules,
        &json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] }])
    );
    let pod = &read("daemonset.yaml")[0]["spec"]["template"]["spec"];
    assert_eq!((&pod["hostNetwork"], &pod["hostPID"]), (&json!(true), &Value::Null));
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(
        pod["containers"][0]["securityContext"],
        json!({
            "runAsUser": 0, "runAsGroup": 0, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"], "add": ["NET_ADMIN"] },
        })
    );
}

#[test]
fn the_folder_holds_exactly_what_is_installed() {
    let names: Vec<String> = manifests().into_keys().map(|(kind, name)| format!("{kind} {name}")).collect();
    assert_eq!(
        names,
        [
            "ClusterRole flipop",
            "ClusterRoleBinding flipop",
            "CustomResourceDefinition floatingippools.flipop.digitalocean.com",
            "CustomResourceDefinition nodednsrecordsets.flipop.digitalocean.com",
            "Deployment flipop",
            "PodDisruptionBudget flipop",
            "PriorityClass flipop",
            "Role flipop",
            "RoleBinding flipop",
            "ServiceAccount flipop",
            "ValidatingAdmissionPolicy flipop-node-annotation",
            "ValidatingAdmissionPolicy flipop-warnings-floatingippools",
            "ValidatingAdmissionPolicy flipop-warnings-nodednsrecordsets",
            "ValidatingAdmissionPolicyBinding flipop-node-annotation",
            "ValidatingAdmissionPolicyBinding flipop-warnings-floatingippools",
            "ValidatingAdmissionPolicyBinding flipop-warnings-nodednsrecordsets",
        ]
    );
}

/// `kubectl apply -n flipop` refuses an object of another namespace.
#[test]
fn what_has_a_namespace_is_in_flipop() {
    for ((kind, name), object) in manifests() {
        let expected = match kind.as_str() {
            "Deployment" | "PodDisruptionBudget" | "Role" | "RoleBinding" | "ServiceAccount" => {
                json!("flipop")
            }
            _ => Value::Null,
        };
        assert_eq!(object["metadata"]["namespace"], expected, "{kind} {name}");
    }
}

/// A roleRef cannot be changed, nor can a selector, so applying over the Go operator's objects would fail.
#[test]
fn what_kubernetes_holds_immutable_is_as_in_existing_clusters() {
    for (kind, role) in [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")] {
        let binding = object(kind, "flipop");
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "flipop" });
        assert_eq!(binding["roleRef"], role);
        let subject = json!([{ "kind": "ServiceAccount", "name": "flipop", "namespace": "flipop" }]);
        assert_eq!(binding["subjects"], subject);
    }
    let spec = object("Deployment", "flipop")["spec"].clone();
    assert_eq!(spec["selector"], json!({ "matchLabels": { "app": "flipop" } }));
    assert_eq!(spec["template"]["metadata"]["labels"]["app"], "flipop");
    assert_eq!(container()["name"], "flipop");
}

#[test]
fn the_rights_are_the_least_that_do() {
    let rights: BTreeSet<String> = ["ClusterRole", "Role"].into_iter().flat_map(rights).collect();
    let expected = [
        "ClusterRole /nodes: list patch watch",
        "ClusterRole /pods: list watch",
        "ClusterRole events.k8s.io/events: create patch",
        "ClusterRole flipop.digitalocean.com/floatingippools/status: update",
        "ClusterRole flipop.digitalocean.com/floatingippools: get list update watch",
        "ClusterRole flipop.digitalocean.com/nodednsrecordsets/status: update",
        "ClusterRole flipop.digitalocean.com/nodednsrecordsets: list watch",
        "Role coordination.k8s.io/leases floating-ip-pool-controller-leader-election: get update watch",
        "Role coordination.k8s.io/leases: create",
    ];
    assert_eq!(rights.iter().collect::<Vec<_>>(), expected);
}

/// One line per resource (and name) with its verbs, in however many rules they are.
fn rights(kind: &str) -> BTreeSet<String> {
    let mut verbs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in object(kind, "flipop")["rules"].as_array().unwrap() {
        let listed = |key: &str| rule[key].as_array().unwrap().iter().map(text_of).collect::<Vec<_>>();
        let names =
            if rule["resourceNames"].is_null() { vec![String::new()] } else { listed("resourceNames") };
        for (group, resource, name) in listed("apiGroups").iter().flat_map(|group| {
            let names = &names;
            listed("resources").into_iter().flat_map(move |resource| {
                names.iter().map(move |name| (group.clone(), resource.clone(), name.clone()))
            })
        }) {
            let space = if name.is_empty() { "" } else { " " };
            let key = format!("{kind} {group}/{resource}{space}{name}");
            verbs.entry(key).or_default().extend(listed("verbs"));
        }
    }
    verbs
        .into_iter()
        .map(|(key, verbs)| format!("{key}: {}", verbs.into_iter().collect::<Vec<_>>().join(" ")))
        .inspect(|right| assert!(!right.contains('*'), "{right}"))
        .collect()
}

#[test]
fn a_namespace_that_enforces_the_restricted_standard_admits_the_pods() {
    let pod = object("Deployment", "flipop")["spec"]["template"]["spec"].clone();
    let container = container();
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert!(pod["securityContext"]["runAsUser"].as_u64().unwrap() > 0);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        })
    );
    for forbidden in ["hostNetwork", "hostPID", "hostIPC", "volumes", "initContainers", "ephemeralContainers"]
    {
        assert!(pod.get(forbidden).is_none(), "{forbidden}");
    }
    for port in container["ports"].as_array().unwrap() {
        assert!(port.get("hostPort").is_none());
    }
}

#[test]
fn the_deployment_runs_two_replicas_that_can_be_probed_scraped_and_ended_in_peace() {
    let spec = object("Deployment", "flipop")["spec"].clone();
    assert_eq!(spec["replicas"], 2);
    let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
    assert_eq!(spec["strategy"], rolling);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "flipop");
    // 10 s from SIGTERM to the end, and some time for the kubelet.
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() >= 15);
    let container = container();
    assert_eq!(container["args"], json!(["/app/flipop"]));
    assert!(
        container.get("command").is_none(),
        "it would stand before what existing Deployments pass as args"
    );
    assert_eq!(container["image"], format!("registry.invalid/flipop:{}", env!("CARGO_PKG_VERSION")));
    let port = json!([{ "name": "prometheus", "containerPort": 8080, "protocol": "TCP" }]);
    assert_eq!(container["ports"], port);
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": "prometheus" }));
    }
    for resource in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
        assert!(container["resources"].pointer(resource).is_some(), "{resource}");
    }
}

/// Runs the binary without a cluster. It reports how it understands its arguments, and ends.
#[test]
fn arguments_of_an_existing_deployment_that_mean_nothing_are_told_of_and_not_quoted() {
    for (arguments, told) in [(&["--debug"][..], false), (&["--debug", "run", "a-s3cret"], true)] {
        let ran = Command::new(env!("CARGO_BIN_EXE_flipop"))
            .args(arguments)
            .env_clear()
            .envs([("DIGITALOCEAN_ACCESS_TOKEN", "t"), ("HOME", "/nowhere")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains("failed to find a Kubernetes API server"), "{said}");
        assert_eq!(said.contains("belong to no flag") && said.contains("WARN"), told, "{said}");
        assert!(!said.contains("a-s3cret"), "{said}");
    }
}

/// The lowest priority that Kubernetes reserves for its own classes.
const SYSTEM_PRIORITY: u64 = 1_000_000_000;

#[test]
fn no_failure_or_drain_of_one_node_takes_both_replicas_and_a_dead_ones_is_replaced_soon() {
    let spec = object("Deployment", "flipop")["spec"].clone();
    let pod = &spec["template"]["spec"];
    let [spread] = pod["topologySpreadConstraints"].as_array().unwrap().as_slice() else {
        panic!("not one constraint")
    };
    assert_eq!((&spread["topologyKey"], &spread["maxSkew"]), (&json!("kubernetes.io/hostname"), &json!(1)));
    assert_eq!(spread["labelSelector"], spec["selector"]);
    assert_eq!(spread["matchLabelKeys"], json!(["pod-template-hash"]), "a revision is spread by itself");
    assert_eq!(spread["whenUnsatisfiable"], "ScheduleAnyway", "a cluster may have one node");
    let mut taints = BTreeSet::new();
    for toleration in pod["tolerations"].as_array().unwrap() {
        assert_eq!((&toleration["operator"], &toleration["effect"]), (&json!("Exists"), &json!("NoExecute")));
        assert!((10..=15).contains(&toleration["tolerationSeconds"].as_u64().unwrap()), "{toleration}");
        taints.insert(text_of(&toleration["key"]));
    }
    let dead = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    assert_eq!(taints.iter().collect::<Vec<_>>(), dead);

    let budget = object("PodDisruptionBudget", "flipop")["spec"].clone();
    assert_eq!(budget["selector"], spec["selector"]);
    assert_eq!((&budget["maxUnavailable"], &budget["minAvailable"]), (&json!(1), &Value::Null));
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");

    let class = object("PriorityClass", &text_of(&pod["priorityClassName"]));
    assert_eq!(class["globalDefault"], false, "it is for these pods only");
    let value = class["value"].as_u64().unwrap();
    assert!(value > 0 && value <= SYSTEM_PRIORITY, "{value}");
}

#[test]
fn each_setting_comes_from_a_key_of_the_secret_that_may_be_missing() {
    let mut env: BTreeMap<String, Value> = BTreeMap::new();
    for variable in container()["env"].as_array().unwrap() {
        assert!(variable.get("value").is_none(), "no setting is fixed here");
        env.insert(text_of(&variable["name"]), variable["valueFrom"].clone());
    }
    for (variable, field) in [("POD_NAMESPACE", "metadata.namespace"), ("NODE_NAME", "spec.nodeName")] {
        assert_eq!(env.remove(variable), Some(json!({ "fieldRef": { "fieldPath": field } })), "{variable}");
    }
    let expected: BTreeMap<String, Value> = SECRET_KEYS
        .map(|key| {
            (key.to_owned(), json!({ "secretKeyRef": { "name": "flipop", "key": key, "optional": true } }))
        })
        .into();
    assert_eq!(env, expected);
}

#[test]
fn the_node_policy_narrows_the_operator_and_nobody_else() {
    let spec = object("ValidatingAdmissionPolicy", "flipop-node-annotation")["spec"].clone();
    assert_eq!(spec["failurePolicy"], "Fail");
    let expression = "request.userInfo.username == 'system:serviceaccount:flipop:flipop'";
    assert_eq!(spec["matchConditions"][0]["expression"], expression);
    assert_eq!(spec["matchConditions"].as_array().unwrap().len(), 1);
    assert!(spec.to_string().contains(flipop_core::model::facts::RESERVED_IP_ANNOTATION));
    let binding = object("ValidatingAdmissionPolicyBinding", "flipop-node-annotation")["spec"].clone();
    assert_eq!(binding, json!({ "policyName": "flipop-node-annotation", "validationActions": ["Deny"] }));
}

#[test]
fn the_warnings_refuse_nothing_and_each_says_which_field_it_means() {
    for plural in ["floatingippools", "nodednsrecordsets"] {
        let name = format!("flipop-warnings-{plural}");
        let binding = object("ValidatingAdmissionPolicyBinding", &name)["spec"].clone();
        assert_eq!(binding, json!({ "policyName": name, "validationActions": ["Warn", "Audit"] }));
        let spec = object("ValidatingAdmissionPolicy", &name)["spec"].clone();
        assert_eq!(spec["failurePolicy"], "Ignore");
        assert_eq!(spec["matchConstraints"]["resourceRules"][0]["resources"], json!([plural]));
        for validation in spec["validations"].as_array().unwrap() {
            let message = text_of(&validation["message"]);
            let names = ["spec.", "metadata.", "provider"];
            assert!(names.iter().any(|name| message.contains(name)), "{message}");
            assert!(message.contains(':') || message.contains(','), "{message} says no remedy");
        }
    }
}
