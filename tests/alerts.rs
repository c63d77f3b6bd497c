//! Checks the alerts: each has a runbook, uses existing metrics, and passes `promtool`, Prometheus' own tool. Without
//! `promtool` the test is reported as ignored, and fails if `CI` is set.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop at once")]

#[path = "shared/queries.rs"]
mod queries;

use flipop_envtest::assets::nothing_may_be_skipped;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const ALERTS: &str = "monitoring/alerts.yaml";
const CASES: &str = "monitoring/alerts-test.yaml";
const RUNBOOKS: &str = "docs/operations/runbooks.md";

fn main() {
    let arguments = Arguments::from_args();
    let promtool = Command::new("promtool").arg("--version").output().is_ok();
    let mut tried = Trial::test("promtool_sees_each_alert_fire_when_it_should", promtool_passes);
    if !promtool && !nothing_may_be_skipped() {
        tried = tried.with_ignored_flag(true).with_kind("ignored: promtool is not installed");
    }
    let tests: [(&str, fn()); 3] = [
        ("each_alert_leads_to_its_own_runbook_and_each_runbook_is_of_an_alert", led_to),
        ("each_alert_is_seen_firing_and_silent", fires_and_is_silent),
        ("each_alert_is_about_metrics_and_labels_that_exist", about_what_exists),
    ];
    let test = |(name, run): (&str, fn())| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(test).chain([tried]).collect()).exit();
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The alerts by name.
fn alerts() -> BTreeMap<String, Value> {
    let file = yaml(ALERTS);
    let groups = file["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    let mut alerts = BTreeMap::new();
    for rule in rules {
        let name = text(&rule["alert"]).to_owned();
        assert!(alerts.insert(name.clone(), rule.clone()).is_none(), "{name} stands twice");
    }
    alerts
}

fn led_to() {
    let runbooks = read(RUNBOOKS);
    let headings = runbooks.lines().filter_map(|line| line.strip_prefix("## "));
    let headings: Vec<&str> = headings.filter(|heading| heading.starts_with("Flipop")).collect();
    let triage: Vec<&str> = runbooks.lines().filter(|line| line.starts_with("| [Flipop")).collect();
    for (name, alert) in alerts() {
        let severity = text(&alert["labels"]["severity"]);
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        let rows: Vec<_> = triage.iter().filter(|row| row.contains(&format!("[{name}]"))).collect();
        assert!(matches!(rows[..], [row] if row.contains(&format!("| {severity} |"))), "{name}: {rows:?}");
        let runbook = text(&alert["annotations"]["runbook"]);
        assert_eq!(runbook, format!("{RUNBOOKS}#{}", name.to_lowercase()));
        let found = headings.iter().filter(|heading| **heading == name).count();
        assert_eq!(found, 1, "{RUNBOOKS} has {found} headings {name}");
        assert!(!text(&alert["annotations"]["summary"]).is_empty() && alert["for"].is_string(), "{name}");
    }
    assert_eq!(headings.len(), alerts().len(), "{RUNBOOKS} has a heading of an alert that is gone");
}

fn fires_and_is_silent() {
    let cases = yaml(CASES);
    let mut seen: BTreeSet<(String, bool)> = BTreeSet::new();
    for test in cases["tests"].as_array().unwrap() {
        for case in test["alert_rule_test"].as_array().unwrap() {
            let fires = !case["exp_alerts"].as_array().unwrap().is_empty();
            seen.insert((text(&case["alertname"]).to_owned(), fires));
        }
    }
    let all = alerts().into_keys().flat_map(|name| [(name.clone(), false), (name, true)]).collect();
    assert_eq!(seen, all);
}

fn about_what_exists() {
    let mut metrics = queries::metrics();
    metrics.extend(of_the_agent());
    for (name, alert) in alerts() {
        queries::assert_about(&name, text(&alert["expr"]), &metrics);
    }
}

/// The metrics of `flipop agent`.
fn of_the_agent() -> BTreeMap<String, BTreeSet<String>> {
    let report = flipop::agent::report::Report::new("").unwrap();
    report.show_all();
    let text = String::from_utf8(report.metrics().unwrap()).unwrap();
    let series = text.lines().filter(|line| line.starts_with("flipop_agent_"));
    let parts = series.map(|line| queries::everything::parts(line.rsplit_once(' ').unwrap().0));
    parts
        .map(|(name, labels)| {
            (name.to_owned(), labels.into_iter().map(|(label, _)| label.to_owned()).collect())
        })
        .collect()
}

fn promtool_passes() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for arguments in [["check", "rules", ALERTS], ["test", "rules", CASES]] {
        let ran = Command::new("promtool").args(arguments).current_dir(folder).output()?;
        if !ran.status.success() {
            let said = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
            return Err(format!("promtool {}: {}", arguments.join(" "), said.concat()).into());
        }
    }
    Ok(())
}
