//! The metrics, from a scrape of a leader that has one of everything.

#[path = "../../shared/everything.rs"]
mod everything;

use super::page::{Page, cell, code, codes};
use super::sources;
use flipop::kube::trouble::TroubleKind;
use flipop::provider::observe::{Call, Outcome};
use flipop_core::addresses::pool::losses::{MANUAL, UNSEEN};
use flipop_core::addresses::pool::status::IpState;
use flipop_core::model::{Mismatch, ObjectKind};
use std::collections::BTreeSet;

/// The metrics that the Go operator has too, with the same types and labels.
const OF_THE_GO_OPERATOR: [&str; 9] = [
    "flipop_floatingippoolcontroller_ip_assignment_errors",
    "flipop_floatingippoolcontroller_ip_assignments",
    "flipop_floatingippoolcontroller_ip_node",
    "flipop_floatingippoolcontroller_ip_state",
    "flipop_floatingippoolcontroller_node_status",
    "flipop_floatingippoolcontroller_unfulfilled_ips",
    "flipop_nodednsrecordset_records",
    "flipop_providers_call_duration_seconds",
    "flipop_providers_calls_total",
];

/// All series of one metric.
#[derive(Debug, Default)]
struct Family {
    name: String,
    help: String,
    kind: String,
    labels: BTreeSet<String>,
    /// The upper bounds of a histogram.
    buckets: Vec<String>,
}

fn families() -> Vec<Family> {
    let scrape = everything::scrape();
    let mut families: Vec<Family> = Vec::new();
    for line in scrape.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            families.push(Family { name: name.to_owned(), help: help.to_owned(), ..Family::default() });
            continue;
        }
        let family = families.last_mut().unwrap();
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            rest.split_once(' ').unwrap().1.clone_into(&mut family.kind);
            continue;
        }
        let (name, labels) = everything::parts(line.rsplit_once(' ').unwrap().0);
        assert!(name.starts_with(&family.name), "{line}");
        for (label, value) in labels {
            if label == "le" {
                if !family.buckets.iter().any(|bound| bound == value) {
                    family.buckets.push(value.to_owned());
                }
            } else {
                family.labels.insert(label.to_owned());
            }
        }
    }
    families
}

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "Metrics",
        "For administrators who scrape FLIPOP: every metric on `/metrics`, which is in the Prometheus text format.",
    );
    page.paragraph(
        "[Monitoring](../operations/monitoring.md) explains how to scrape FLIPOP and which alerts to use. \
         [Endpoints](endpoints.md) describes `/metrics` itself.",
    );
    page.list([
        "Only the leader has series of pools, record sets and conditions.",
        "Counters start at 0 with each process.",
        "The series of a deleted object, or of an address that its pool no longer has, disappear.",
        "A scrape never waits for a request.",
    ]);
    let (process, own): (Vec<Family>, Vec<Family>) =
        families().into_iter().partition(|family| family.name.starts_with("process_"));
    page.heading(2, "Metrics of FLIPOP");
    page.paragraph("Those marked *Go* have the name, type and labels that they have in the Go operator.");
    page.table(
        ["name", "type", "labels", "meaning"],
        own.iter().map(|family| {
            let known = OF_THE_GO_OPERATOR.contains(&family.name.as_str());
            [
                code(&family.name),
                format!("{}{}", family.kind, if known { ", *Go*" } else { "" }),
                codes(&family.labels),
                cell(&family.help),
            ]
        }),
    );
    page.heading(2, "Metrics of the process");
    page.paragraph("They have no labels, and come from `/proc` at each scrape.");
    page.table(
        ["name", "type", "meaning"],
        process.iter().map(|family| [code(&family.name), family.kind.clone(), cell(&family.help)]),
    );
    page.heading(2, "Buckets");
    page.paragraph("The upper bounds of the buckets of each histogram, in seconds:");
    let histograms = own.iter().filter(|family| !family.buckets.is_empty());
    page.table(
        ["histogram", "bounds"],
        histograms.map(|family| [code(&family.name), family.buckets.join(", ")]),
    );
    labels(&mut page);
    page.end()
}

/// The meanings of the labels, and the values of those with a closed set.
fn labels(page: &mut Page) {
    page.heading(2, "Labels");
    let kinds = codes([ObjectKind::Pool, ObjectKind::RecordSet].map(ObjectKind::as_str));
    let outcomes = Outcome::ALL.iter().map(|outcome| {
        let meaning = cell(outcome.meaning());
        format!("{}: {}{}", code(outcome.as_str()), meaning[..1].to_lowercase(), &meaning[1..])
    });
    let outcomes = outcomes.collect::<Vec<_>>().join(" ");
    let states = codes(IpState::ALL.iter().map(|state| state.as_str()));
    let rows = [
        (
            "namespace, name",
            "The object. In metrics of calls both are empty for a call that serves the whole account.".to_owned(),
        ),
        (
            "kind",
            format!(
                "The kind of the object: {kinds}. It is empty for a call that serves the whole account. In \
                 `flipop_watch_restarts_total` it is the plural of the kind that is watched, for example `nodes`."
            ),
        ),
        ("provider", "`digitalocean` or `cloudflare`.".to_owned()),
        (
            "dns",
            "The fully qualified name of the records, or `recordName` as it is written in the spec until that name is \
             known. It is empty in a pool without `dnsRecordSet`."
                .to_owned(),
        ),
        ("ip", "The address.".to_owned()),
        ("node, provider_id", "The name of the node, and its `spec.providerID`.".to_owned()),
        (
            "state",
            format!("The [state of the address](floatingippool.md#states-of-an-address): {states}."),
        ),
        ("outcome", outcomes),
        (
            "type, status, reason",
            "Those of the condition: see [Conditions](conditions.md). In `flipop_floatingippoolcontroller_node_status` \
             the label `status` is `available` or `assigned`. `reason` means something else in \
             `flipop_watch_restarts_total` and `flipop_moves_total`: see below."
                .to_owned(),
        ),
        (
            "phase",
            "When the time of `flipop_failover_seconds` ends: when a plan has found the loss (`noticed`), when the \
             request is sent (`requested`), when the provider has confirmed it (`confirmed`), and when the records of the \
             pool hold the address (`published`, only of pools with `dnsRecordSet`)."
                .to_owned(),
        ),
        (
            "stage",
            "How the verdict of `flipop_detection_seconds` was reached. `1`: by the checks of one process and the Lease of the \
             node."
                .to_owned(),
        ),
        ("version", "The version of FLIPOP.".to_owned()),
    ];
    page.table(["label", "value"], rows.map(|(names, value)| [codes(names.split(", ")), value]));
    closed_sets(page);
}

/// The values of the labels that have many.
fn closed_sets(page: &mut Page) {
    page.heading(3, "Values of `call`");
    page.table(
        ["value", "operation"],
        Call::ALL.iter().map(|call| [code(call.as_str()), cell(call.meaning())]),
    );
    page.heading(3, "Values of `reason` in `flipop_moves_total`");
    page.paragraph(
        "A series begins with the first move for its reason. A failover to a node counts, and so does a move by hand. \
         The first assignment of an address, and a move that somebody else makes, do not.",
    );
    let of_the_node = Mismatch::every().into_iter().map(|why| {
        let text = why.to_string();
        let text = if let Mismatch::Taint(_) = why { "has a taint that no toleration covers" } else { &text };
        [code(why.kind()), text.to_owned()]
    });
    let others = [
        [code(MANUAL), "(a user asked for the move by an annotation)".to_owned()],
        [code(UNSEEN), "no longer matched when this process began to lead".to_owned()],
    ];
    page.table(["value", "the node that the address left"], of_the_node.chain(others));
    page.heading(3, "Values of `reason` in `flipop_watch_restarts_total`");
    page.table(
        ["value", "meaning"],
        TroubleKind::ALL.iter().map(|kind| [code(kind.label()), cell(kind.meaning())]),
    );
}

#[test]
fn a_label_without_a_value_is_a_label() {
    let (name, labels) = everything::parts(r#"a{b="",c="d",e=""}"#);
    assert_eq!((name, labels), ("a", vec![("b", ""), ("c", "d"), ("e", "")]));
}

#[test]
fn the_page_explains_every_label() {
    let page = render();
    let table = page.split("## Labels").nth(1).unwrap();
    for label in families().iter().flat_map(|family| &family.labels).filter(|label| *label != "call") {
        let explained = table
            .lines()
            .any(|line| line.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{label}`"))));
        assert!(explained, "{label}");
    }
}

#[test]
fn the_names_of_the_go_operator_are_kept() {
    let families = families();
    for name in OF_THE_GO_OPERATOR {
        assert!(families.iter().any(|family| family.name == name), "{name}");
    }
}

#[test]
fn no_metric_stands_in_the_source_that_the_scrape_of_everything_lacks() {
    let families = families();
    let is_name = |text: &str| {
        text.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
            && text.matches('_').count() > 1
    };
    let mut named = 0;
    for (path, literal) in sources::all_literals() {
        // The agent has a page of its own, which lists what it registers.
        if literal.starts_with("flipop_agent_") {
            continue;
        }
        if is_name(&literal) && (literal.starts_with("flipop_") || literal.starts_with("process_")) {
            named += 1;
            assert!(families.iter().any(|family| family.name == literal), "{}: {literal}", path.display());
        }
    }
    assert!(named > 10, "only {named} names in the source");
}
