//! Generated files: the copies that the chart and kustomize need in their own folders.

use crate::tools::{plain, read, root};
use crate::{dashboard, health};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::fs;

/// Files of k8s/ that the chart renders unchanged.
const MANIFESTS: [&str; 8] = [
    "cluster-role.yaml",
    "crd-floatingippools.yaml",
    "crd-nodednsrecordsets.yaml",
    "policy-node-annotation.yaml",
    "policy-warnings-floatingippools.yaml",
    "policy-warnings-nodednsrecordsets.yaml",
    "role.yaml",
    "service-account.yaml",
];

const CHART_FILES: &str = "charts/flipop/files";

/// The head of the alerts as a Prometheus Operator object.
const RULE: &str =
    "# Made from monitoring/alerts.yaml: UPDATE_INSTALL=1 cargo test --test install. Do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: flipop
  namespace: flipop
  labels:
    app: flipop
spec:
";

pub(crate) fn trials() -> Vec<Trial> {
    vec![plain("copies::what_chart_and_kustomize_hold_is_what_it_is_made_from", copies)]
}

/// The alerts as a Prometheus Operator object.
fn rule() -> String {
    let alerts = read("monitoring/alerts.yaml");
    let indented = alerts.lines().filter(|line| !line.starts_with('#')).map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("  {line}\n"),
    });
    RULE.to_owned() + &indented.collect::<String>()
}

/// Every generated file, with its text.
fn files() -> Vec<(String, String)> {
    let copy = |from: &str, name: &str| (format!("{CHART_FILES}/{name}"), read(from));
    let mut files: Vec<_> = MANIFESTS.iter().map(|name| copy(&format!("k8s/{name}"), name)).collect();
    for name in ["account.yaml", "daemonset.yaml"] {
        files.push((format!("kustomize/agent/{name}"), read(&format!("k8s/agent/{name}"))));
    }
    files.push(("kustomize/nodecheck/role.yaml".to_owned(), read("k8s/nodecheck/role.yaml")));
    files.push(copy("k8s/nodecheck/role.yaml", "nodecheck.yaml"));
    files.push(("kustomize/tenants/policy.yaml".to_owned(), read("k8s/tenants/policy.yaml")));
    files.push(copy("k8s/tenants/policy.yaml", "tenants.yaml"));
    files.push(copy("k8s/agent/account.yaml", "agent-account.yaml"));
    files.push(copy("monitoring/alerts.yaml", "alerts.yaml"));
    files.push(("monitoring/dashboard.json".to_owned(), dashboard::text()));
    files.push((format!("{CHART_FILES}/dashboard.json"), dashboard::text()));
    files.push(copy("kustomize/monitoring/podmonitor.yaml", "podmonitor.yaml"));
    files.push(copy("kustomize/agent-monitoring/podmonitor.yaml", "agent-podmonitor.yaml"));
    files.push(("argocd/health.yaml".to_owned(), health::patch()));
    files.push(("kustomize/monitoring/prometheusrule.yaml".to_owned(), rule()));
    files
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks whether to write instead of compare; no part of the operator"
)]
fn copies() {
    let update = std::env::var_os("UPDATE_INSTALL").is_some();
    let files = files();
    for (path, text) in &files {
        if update {
            fs::write(root().join(path), text).unwrap();
        }
        let found = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(found == *text, "{path} is out of date: run UPDATE_INSTALL=1 cargo test --test install");
    }
    let made: BTreeSet<String> =
        files.into_iter().filter_map(|(path, _)| Some(path.strip_prefix(CHART_FILES)?.to_owned())).collect();
    let held = fs::read_dir(root().join(CHART_FILES)).unwrap();
    let held = held.map(|entry| format!("/{}", entry.unwrap().file_name().display())).collect();
    assert_eq!(made, held, "{CHART_FILES} holds a file that nothing makes");
}
