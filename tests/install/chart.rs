//! The chart's output, with Helm 3 and Helm 4.

mod refused;
mod rendered;

use crate::objects::{Objects, assert_same, folder, object, parse, scrape_agents};
use crate::tools::{Ran, needs, read, run};
use libtest_mimic::Trial;
use serde_json::{Value, json};

/// Helm 3 and Helm 4 on `PATH`.
const HELMS: [&str; 2] = ["helm3", "helm4"];

const CHART: &str = "charts/flipop";

/// The oldest Kubernetes release that the chart admits.
const OLDEST: &str = "1.30.0";

/// A test with one of the two.
type Test = fn(&'static str);

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 12] = [
        ("lint_finds_nothing", lint),
        ("the_default_is_what_k8s_holds_but_for_the_annotation_that_keeps_crds", the_default),
        ("everything_that_is_switched_on_is_as_in_kustomize", switched_on),
        ("each_value_does_what_it_says", rendered::rows),
        ("labels_are_on_every_object", labels),
        ("a_label_that_two_values_name_is_there_once", same_label),
        ("null_leaves_out_what_is_optional", null),
        ("another_namespace_leaves_none_of_the_first_behind", namespace),
        ("what_is_wrong_is_refused_with_a_word_about_it", refused::rows),
        ("the_values_for_a_token_in_a_file_name_the_file_that_is_mounted", token_file),
        ("alerts_can_be_left_out_and_labelled", alerts),
        ("a_cluster_that_is_too_old_is_refused", too_old),
    ];
    let name = |helm: &str, test: &str| format!("chart::{helm}::{test}");
    let each = |helm: &'static str| {
        tests.map(|(test, run)| needs(helm, &["version"], name(helm, test), move || run(helm)))
    };
    let mut trials: Vec<Trial> = HELMS.into_iter().flat_map(each).collect();
    // Helm 3 asks a cluster for its version even in a dry run.
    trials.push(needs("helm4", &["version"], name("helm4", "the_notes_say_what_to_do_next"), || {
        notes("helm4");
    }));
    trials.push(crate::tools::plain("chart::it_has_the_version_of_the_project", versions));
    trials
}

/// Renders the chart with these values, as `helm template` does.
fn template(helm: &str, namespace: &str, values: &Value, more: &[&str]) -> Ran {
    let start =
        ["template", "flipop", CHART, "--namespace", namespace, "--kube-version", OLDEST, "--values", "-"];
    run(helm, &[&start, more].concat(), &values.to_string())
}

/// The objects rendered in the namespace `flipop`.
fn render(helm: &str, values: &Value) -> Objects {
    let ran = template(helm, "flipop", values, &[]);
    assert!(ran.success, "{values}: {}", ran.stderr);
    parse(&ran.stdout)
}

fn lint(helm: &str) {
    let ran = run(helm, &["lint", "--strict", "--kube-version", OLDEST, CHART], "");
    assert!(ran.success, "{}{}", ran.stdout, ran.stderr);
}

/// Removes the one permitted difference, and returns how many objects had it.
fn without_keep(objects: &mut Objects) -> usize {
    let mut kept = 0;
    for object in objects.values_mut() {
        let metadata = object["metadata"].as_object_mut().unwrap();
        if metadata.get("annotations") == Some(&json!({ "helm.sh/resource-policy": "keep" })) {
            metadata.remove("annotations");
            kept += 1;
        }
    }
    kept
}

fn the_default(helm: &str) {
    let mut found = render(helm, &json!({}));
    assert_eq!(without_keep(&mut found), 2);
    assert_same(&found, &folder("k8s"));
    // crds/ too, in case k8s/ ever differs.
    for ((kind, name), crd) in folder("crds") {
        assert_eq!(object(&found, &kind, &name), &crd);
    }
    let mut whole = render(helm, &json!({ "crds": { "keep": false } }));
    assert_eq!(without_keep(&mut whole), 0);
}

fn switched_on(helm: &str) {
    let on = json!({ "enabled": true });
    let values = json!({ "podMonitor": on, "prometheusRule": on, "networkPolicy": on, "dashboard": on,
            "agent": agent_on(), "nodeCheck": on, "tenants": on });
    let found = render(helm, &values);
    for file in [
        "monitoring/podmonitor.yaml",
        "monitoring/prometheusrule.yaml",
        "network-policy/networkpolicy.yaml",
        "agent-monitoring/podmonitor.yaml",
    ] {
        for ((kind, name), wanted) in parse(&read(&format!("kustomize/{file}"))) {
            assert_eq!(object(&found, &kind, &name), &wanted, "{file}");
        }
    }
    let tenants = parse(&read("k8s/tenants/policy.yaml"));
    let mut agent = folder("k8s/agent");
    let plain = object(&render(helm, &json!({ "agent": agent_on() })), "DaemonSet", "flipop-agent").clone();
    assert_eq!(&plain, object(&agent, "DaemonSet", "flipop-agent"));
    scrape_agents(&mut agent);
    let mut alone = json!({ "agent": agent_on() });
    alone["agent"]["metrics"] = json!({ "hostIP": true });
    let alone = object(&render(helm, &alone), "DaemonSet", "flipop-agent").clone();
    assert_eq!(&alone, object(&agent, "DaemonSet", "flipop-agent"));
    let parts = agent.into_iter().chain(folder("k8s/nodecheck")).chain(tenants);
    for ((kind, name), wanted) in parts {
        assert_eq!(object(&found, &kind, &name), &wanted, "{kind} {name}");
    }
    // YAML 1.1 takes an unquoted off for false.
    for off in [json!("None"), json!(false)] {
        let selector = json!({ "role": "edge" });
        let agent =
            json!({ "enabled": true, "egress": off, "nodeSelector": selector, "args": ["--mark=0x1000"] });
        let changed = render(helm, &json!({ "agent": agent }));
        let pod = &object(&changed, "DaemonSet", "flipop-agent")["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], selector, "no other label is left of a default");
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        for wanted in ["--egress=None", "--mark=0x1000"] {
            assert!(arguments.contains(&json!(wanted)), "{arguments:?}");
        }
    }
    let dashboard = object(&found, "ConfigMap", "flipop-dashboard");
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = dashboard["data"]["flipop.json"].as_str().unwrap();
    let of_file: Value = serde_json::from_str(&read("monitoring/dashboard.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), of_file);
}

/// The agent on the nodes of the manifests.
fn agent_on() -> Value {
    json!({ "enabled": true, "nodeSelector": { "pool": "egress" } })
}

/// Values that render every object.
fn everything() -> Value {
    let on = json!({ "enabled": true });
    json!({
        "podMonitor": on, "prometheusRule": on, "networkPolicy": on, "dashboard": on,
        "userRoles": { "view": true, "edit": true }, "nodeCheck": on, "agent": agent_on(), "tenants": on,
    })
}

fn labels(helm: &str) {
    let mut values = everything();
    values["labels"] = json!({ "team": "edge", "tier": "1" });
    values["podMonitor"]["labels"] = json!({ "release": "prometheus" });
    let objects = render(helm, &values);
    assert_eq!(objects.len(), folder("k8s").len() + folder("k8s/agent").len() + 11);
    for ((kind, name), object) in &objects {
        let labels = &object["metadata"]["labels"];
        assert_eq!((&labels["team"], &labels["tier"]), (&json!("edge"), &json!("1")), "{kind} {name}");
        let own = match (kind.as_str(), name.as_str()) {
            ("CustomResourceDefinition", _) => Value::Null,
            (_, "flipop-agent") => json!("flipop-agent"),
            _ => json!("flipop"),
        };
        assert_eq!(labels["app"], own, "{kind} {name}");
    }
    let pods = &object(&objects, "Deployment", "flipop")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(pods, &json!({ "app": "flipop", "team": "edge", "tier": "1" }));
    let monitor = &object(&objects, "PodMonitor", "flipop")["metadata"]["labels"];
    assert_eq!(monitor["release"], "prometheus");
}

/// If two values name the same label, it appears once, and the more specific value wins.
fn same_label(helm: &str) {
    let mut values = everything();
    values["labels"] = json!({ "team": "edge" });
    values["podLabels"] = json!({ "team": "pods" });
    for part in ["podMonitor", "prometheusRule", "dashboard"] {
        values[part]["labels"] = json!({ "team": part });
    }
    // The parser is strict: it refuses a duplicate key.
    let objects = render(helm, &values);
    let team = |kind: &str, name: &str, path: &str| {
        object(&objects, kind, name).pointer(&format!("{path}/metadata/labels/team")).cloned()
    };
    assert_eq!(team("Deployment", "flipop", ""), Some(json!("edge")));
    assert_eq!(team("Deployment", "flipop", "/spec/template"), Some(json!("pods")));
    assert_eq!(team("PodMonitor", "flipop", ""), Some(json!("podMonitor")));
    assert_eq!(team("PrometheusRule", "flipop", ""), Some(json!("prometheusRule")));
    assert_eq!(team("ConfigMap", "flipop-dashboard", ""), Some(json!("dashboard")));
}

/// Null removes a value: an optional one is left out, and a required one is demanded.
fn null(helm: &str) {
    let objects = render(helm, &json!({}));
    for optional in [
        "labels",
        "podLabels",
        "podMonitor",
        "prometheusRule",
        "dashboard",
        "networkPolicy",
        "userRoles",
        "tenants",
    ] {
        assert_same(&render(helm, &json!({ optional: null })), &objects);
    }
    for (optional, kind) in
        [("priorityClass", "PriorityClass"), ("podDisruptionBudget", "PodDisruptionBudget")]
    {
        let found = render(helm, &json!({ optional: null }));
        assert!(found.keys().all(|(found, _)| found != kind), "{optional}");
    }
    let mut everything = everything();
    for part in ["podMonitor", "prometheusRule", "dashboard"] {
        everything[part]["labels"] = Value::Null;
    }
    everything["labels"] = Value::Null;
    everything["prometheusRule"]["without"] = Value::Null;
    everything["replicas"] = json!(1);
    render(helm, &everything);
}

fn namespace(helm: &str) {
    in_namespace(helm, "infra");
    // YAML would read these as numbers.
    in_namespace(helm, "123");
    in_namespace(helm, "1e3");
}

fn in_namespace(helm: &str, wanted: &str) {
    let ran = template(helm, wanted, &everything(), &[]);
    let objects = parse(&ran.stdout);
    assert_eq!(object(&objects, "Deployment", "flipop")["metadata"]["namespace"], wanted);
    for ((kind, name), object) in &objects {
        // The agent has a namespace of its own.
        if name == "flipop-agent" {
            continue;
        }
        let namespace = &object["metadata"]["namespace"];
        // The Leases of nodes are in one namespace, whatever that of the operator is.
        let there = if name == "flipop-nodecheck" { "kube-node-lease" } else { wanted };
        assert!(namespace.is_null() || namespace == there, "{kind} {name} is in {namespace}");
        if let Some(subjects) = object["subjects"].as_array() {
            assert_eq!(subjects[0]["namespace"], wanted, "{kind} {name}");
        }
        if kind == "ValidatingAdmissionPolicy" {
            let by = object["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
            assert!(by.ends_with(&format!("= 'system:serviceaccount:{wanted}:flipop'")), "{by}");
        }
        let text = object.to_string();
        assert!(!text.contains("system:serviceaccount:flipop:"), "{kind} {name}");
    }
}

/// The values in docs/operations/helm.md for a token in a file.
fn token_file(helm: &str) {
    let page = read("docs/operations/helm.md");
    let (_, after) = page.split_once("```yaml not applied: these are values of the chart\n").unwrap();
    let values: Value = serde_saphyr::from_str(after.split_once("```").unwrap().0).unwrap();
    let deployment = object(&render(helm, &values), "Deployment", "flipop").clone();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let env = container["env"].as_array().unwrap();
    let variable = |name: &str| env.iter().find(|variable| variable["name"] == name);
    let file = variable("DIGITALOCEAN_ACCESS_TOKEN_FILE").unwrap()["value"].as_str().unwrap();
    let volume = &pod["volumes"][0];
    let item = &volume["secret"]["items"][0];
    assert_eq!(item["key"], "DIGITALOCEAN_ACCESS_TOKEN");
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], volume["name"]);
    let mounted = format!("{}/{}", mount["mountPath"].as_str().unwrap(), item["path"].as_str().unwrap());
    assert_eq!(file, mounted);
    assert_eq!(variable("DIGITALOCEAN_ACCESS_TOKEN"), None);
}

fn alerts(helm: &str) {
    let rules = |values: Value| {
        let rule = object(&render(helm, &values), "PrometheusRule", "flipop").clone();
        rule["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
    };
    let named = |rules: &[Value], name: &str| rules.iter().any(|rule| rule["alert"] == name);
    let all = rules(json!({ "prometheusRule": { "enabled": true } }));
    assert!(named(&all, "FlipopQuotaLow") && named(&all, "FlipopNoStandby"));
    let some = json!({
        "enabled": true,
        "without": ["FlipopQuotaLow"],
        "alertLabels": { "team": "edge" },
        "severities": { "FlipopPaused": "page" },
    });
    let some = rules(json!({ "prometheusRule": some }));
    assert_eq!(some.len(), all.len() - 1);
    assert!(!named(&some, "FlipopQuotaLow"));
    for rule in &some {
        let plain = all.iter().find(|plain| plain["alert"] == rule["alert"]).unwrap();
        let paused = rule["alert"] == "FlipopPaused";
        let severity = if paused { &json!("page") } else { &plain["labels"]["severity"] };
        assert_eq!(rule["labels"], json!({ "severity": severity, "team": "edge" }), "{}", rule["alert"]);
    }
    assert!(all.iter().all(|rule| rule["annotations"]["runbook_url"].is_null()));
    let linked = json!({ "enabled": true, "runbookURL": "https://git.example.com/flipop/" });
    for (linked, plain) in rules(json!({ "prometheusRule": linked })).iter().zip(&all) {
        let (linked, plain) = (&linked["annotations"], &plain["annotations"]);
        let url = format!("https://git.example.com/flipop/{}", plain["runbook"].as_str().unwrap());
        assert_eq!(linked["runbook_url"], url);
        assert_eq!((&linked["runbook"], &linked["summary"]), (&plain["runbook"], &plain["summary"]));
    }
    let single = rules(json!({ "replicas": 1, "prometheusRule": { "enabled": true } }));
    assert_eq!(single.len(), all.len() - 1);
    assert!(!named(&single, "FlipopNoStandby"));
}

fn notes(helm: &str) {
    let notes = |values: &Value| {
        let start = ["install", "flipop", CHART, "--namespace", "infra", "--dry-run=client", "--values", "-"];
        let ran = run(helm, &start, &values.to_string());
        assert!(ran.success, "{}", ran.stderr);
        ran.stdout.split_once("NOTES:").unwrap().1.to_owned()
    };
    let first = notes(&json!({}));
    for said in [
        "2 replica(s)",
        "No registry has the image registry.invalid/flipop:0.1.0",
        "kubectl create secret generic flipop -n infra",
        "kubectl rollout status deployment/flipop -n infra",
        "--from-literal=DIGITALOCEAN_ACCESS_TOKEN=\"$DIGITALOCEAN_ACCESS_TOKEN\"",
        "Monitoring is off",
    ] {
        assert!(first.contains(said), "{said:?} is not in {first}");
    }
    let image = json!({ "repository": "registry.example.com/flipop" });
    let second = notes(&json!({ "image": image, "secretName": "tokens", "podMonitor": { "enabled": true } }));
    assert!(second.contains("create secret generic tokens -n infra"), "{second}");
    assert!(!second.contains("No registry") && !second.contains("Monitoring is off"), "{second}");
    let off = "set\nagent.egress to None, upgrade, and wait";
    assert!(!first.contains(off), "{first}");
    assert!(notes(&json!({ "agent": agent_on() })).contains(off));
    for name in ["DIGITALOCEAN_ACCESS_TOKEN_FILE", "CLOUDFLARE_TOKEN_FILE"] {
        let third = notes(&json!({ "env": [{ "name": name, "value": "/token/it" }] }));
        assert!(!third.contains("create secret"), "{name}: {third}");
    }
}

fn too_old(helm: &str) {
    let arguments = ["template", "flipop", CHART, "--kube-version", "1.29.9"];
    let ran = run(helm, &arguments, "");
    assert!(!ran.success && ran.stderr.contains("requires kubeVersion: >=1.30.0-0"), "{}", ran.stderr);
}

fn versions() {
    let chart: Value = serde_saphyr::from_str(&read("charts/flipop/Chart.yaml")).unwrap();
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}
