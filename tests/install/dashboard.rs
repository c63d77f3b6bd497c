//! The Grafana dashboard: generated from its list of panels, about existing metrics, with each query answered by a real
//! Prometheus that scrapes them.

mod leader;
mod panels;

use crate::queries;
use crate::tools::{needs, plain, run};
use libtest_mimic::Trial;
use panels::{Panel, panels};
use std::collections::BTreeSet;

pub(crate) fn trials() -> Vec<Trial> {
    let name = |name: &str| format!("dashboard::{name}");
    vec![
        plain("dashboard::each_query_is_about_metrics_and_labels_that_exist", about_what_exists),
        plain("dashboard::each_metric_of_ours_is_on_it", complete),
        needs("prometheus", &["--version"], name("each_query_returns_data_from_a_real_prometheus"), || {
            leader::answers_every_query();
        }),
        needs("promtool", &["--version"], name("promtool_objects_to_two_old_names_only"), promtool),
        needs("promtool", &["--version"], name("promtool_objects_to_nothing_of_the_agent"), || {
            let report = flipop::agent::report::Report::new("node-1").unwrap();
            report.show_all();
            let metrics = String::from_utf8(report.metrics().unwrap()).unwrap();
            let ran = run("promtool", &["check", "metrics"], &metrics);
            assert!(ran.success && ran.stderr.is_empty(), "{}{}", ran.stdout, ran.stderr);
        }),
    ]
}

/// The file's text.
pub(crate) fn text() -> String {
    format!("{:#}\n", panels::dashboard())
}

fn about_what_exists() {
    let metrics = queries::metrics();
    for Panel { title, queries: of_panel, .. } in panels() {
        for (query, _) in of_panel {
            queries::assert_about(title, query, &metrics);
        }
    }
}

/// A new metric belongs on the dashboard, or in this list.
fn complete() {
    let shown: String = panels().iter().flat_map(|panel| panel.queries).map(|(query, _)| *query).collect();
    let missing: BTreeSet<String> = queries::metrics()
        .into_keys()
        .filter(|metric| metric.starts_with("flipop_"))
        .filter(|metric| !metric.ends_with("_sum") && !metric.ends_with("_count"))
        .filter(|metric| !shown.contains(metric.as_str()))
        .collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

fn promtool() {
    let ran = run("promtool", &["check", "metrics"], &queries::everything::scrape());
    let said: BTreeSet<&str> = ran.stderr.lines().filter(|line| !line.is_empty()).collect();
    let expected = [
        "flipop_floatingippoolcontroller_ip_assignment_errors counter metrics should have \"_total\" suffix",
        "flipop_floatingippoolcontroller_ip_assignments counter metrics should have \"_total\" suffix",
    ];
    assert_eq!(said, BTreeSet::from(expected), "{}", ran.stdout);
}
