//! Queries of alerts and dashboards, compared with the existing metrics.

#[path = "everything.rs"]
pub(crate) mod everything;

use std::collections::{BTreeMap, BTreeSet};

/// Each metric with its labels, from a leader that has one of everything.
pub(crate) fn metrics() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in everything::scrape().lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = everything::parts(line.rsplit_once(' ').unwrap().0);
        let labels = labels.into_iter().map(|(label, _)| label.to_owned());
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The metrics in an expression, each with the labels that select it.
fn selected(expression: &str) -> Vec<(String, Vec<String>)> {
    let starts = ["flipop_", "process_"].into_iter().flat_map(|start| expression.match_indices(start));
    let starts = starts.map(|(at, _)| &expression[at..]);
    starts
        .map(|rest| {
            let end = rest.find(|letter| !is_of_a_name(letter)).unwrap_or(rest.len());
            let matchers = rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let matchers = matchers.map_or("", |(matchers, _)| matchers).split("\",");
            let labels = matchers.filter_map(|matcher| matcher.split_once('='));
            let labels =
                labels.map(|(label, _)| label.trim_matches(|letter| !is_of_a_name(letter)).to_owned());
            (rest[..end].to_owned(), labels.collect())
        })
        .collect()
}

/// Fails unless a query is about our metrics and their labels.
pub(crate) fn assert_about(name: &str, query: &str, metrics: &BTreeMap<String, BTreeSet<String>>) {
    let selected = selected(query);
    assert!(!selected.is_empty(), "{name} is about no metric of ours");
    for (metric, labels) in selected {
        let Some(known) = metrics.get(&metric) else { panic!("{name}: there is no metric {metric}") };
        // Prometheus adds the job.
        let missing: Vec<&String> =
            labels.iter().filter(|label| *label != "job" && !known.contains(*label)).collect();
        assert!(missing.is_empty(), "{name}: {metric} has no label {missing:?}, but {known:?}");
    }
    let grouped = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    for label in grouped.flat_map(|labels| labels.split(", ")) {
        assert!(metrics.values().any(|known| known.contains(label)), "{name} groups by {label}");
    }
}
