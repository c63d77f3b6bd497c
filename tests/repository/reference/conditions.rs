//! The core catalog's text about conditions and kinds of failure.

use super::page::{Page, code};
use flipop_core::model::catalog::{self, Row, Section};
use flipop_core::model::words::MAX_NAMED;
use flipop_core::model::{ConditionType, FaultKind, ObjectKind};
use std::collections::BTreeSet;

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "Conditions",
        "For anyone who reads the status of a FloatingIPPool or a NodeDNSRecordSet: every condition and reason, \
         with the remedy.",
    );
    page.paragraph(
        "`kubectl flipop status`, `kubectl describe` and the metric [`flipop_condition`](metrics.md) show the \
         conditions of an object.",
    );
    page.paragraph(&format!(
        "`Ready`, `SpecValid` and `RecordSetReady` stay and change their status; FLIPOP removes any other \
         condition that no longer holds. Where a table has no column for it, the status is True. A message names \
         the first {MAX_NAMED} addresses or nodes and counts the rest, but lists every mistake of `SpecValid` and \
         every address of `CreationUncertain`."
    ));
    of_pools(&mut page);
    of_records(&mut page);
    kinds_of_failure(&mut page);
    page.end()
}

fn of_pools(page: &mut Page) {
    page.heading(2, "Conditions of a FloatingIPPool");
    page.paragraph(
        "They cover the pool and its addresses. [Conditions of DNS records](#conditions-of-dns-records) cover its \
         records.",
    );
    let own = catalog::of_pools().iter().chain(catalog::of_firewalls()).chain(catalog::of_reclaims());
    let mut all: Vec<&Section> = own.chain(catalog::of_both()).collect();
    all.sort_by_key(|section| section.kind);
    for section in all {
        page.heading(3, section.kind.as_str());
        page.paragraph(section.holds);
        table(page, section.rows.iter().copied());
    }
}

fn of_records(page: &mut Page) {
    let shared: BTreeSet<ConditionType> = catalog::of_records().iter().map(|section| section.kind).collect();
    let of_pools: BTreeSet<ConditionType> = catalog::of_pools().iter().map(|section| section.kind).collect();
    let heading = |kind: ConditionType| {
        let suffix = if of_pools.contains(&kind) { " of a NodeDNSRecordSet" } else { "" };
        format!("{}{suffix}", kind.as_str())
    };
    let (within, alone): (Vec<&Section>, Vec<&Section>) =
        catalog::of_record_sets().iter().partition(|section| shared.contains(&section.kind));
    let both = catalog::of_both().iter().map(|section| section.kind.as_str().to_owned());
    let others = alone.iter().map(|section| heading(section.kind)).chain(both);
    let others: Vec<String> = others.map(|heading| format!("[{heading}](#{})", anchor(&heading))).collect();
    page.heading(2, "Conditions of DNS records");
    page.paragraph(&format!(
        "A NodeDNSRecordSet has these conditions under their plain names. A pool with `dnsRecordSet` has them with the \
         prefix `RecordSet`. A NodeDNSRecordSet also has {}.",
        enumerated(&others)
    ));
    for section in catalog::of_records() {
        let kind = section.kind;
        let on_a_pool = kind.about_records(ObjectKind::Pool).as_str();
        page.heading(3, &format!("{} and {on_a_pool}", kind.as_str()));
        let own = within.iter().filter(|own| own.kind == kind).flat_map(|own| own.rows);
        let missing: BTreeSet<&str> = own.clone().map(|row| row.status.as_str()).collect();
        let never: Vec<String> = missing
            .into_iter()
            .filter(|status| !section.rows.iter().any(|row| row.status.as_str() == *status))
            .map(|status| format!(" `{on_a_pool}` is never {status}."))
            .collect();
        page.paragraph(&format!("{}{}", section.holds, never.concat()));
        table(page, section.rows.iter().chain(own).copied());
    }
    for section in alone {
        page.heading(3, &heading(section.kind));
        page.paragraph(section.holds);
        table(page, section.rows.iter().copied());
    }
}

fn kinds_of_failure(page: &mut Page) {
    page.heading(2, "Kinds of failure");
    page.paragraph(
        "Every failed call to a provider is of one of these kinds, which is the reason of a condition and the \
         first word of a message. [Retries](../concepts/health.md#retries) says when FLIPOP tries again.",
    );
    page.table(
        ["kind", "the provider answered", "remedy"],
        FaultKind::ALL
            .iter()
            .map(|kind| [code(kind.reason()), kind.answered().to_owned(), kind.remedy().to_owned()]),
    );
}

/// Reasons that say the same share a row. If every status is True, the table does not repeat it.
fn table(page: &mut Page, rows: impl Iterator<Item = Row>) {
    let rows: Vec<Row> = rows.collect();
    let alike = |a: &Row, b: &Row| (a.status, a.meaning, a.remedy) == (b.status, b.meaning, b.remedy);
    let cells = rows.chunk_by(alike).filter_map(|group| {
        let first = group.first()?;
        let reasons: Vec<String> = group.iter().map(|row| code(row.reason)).collect();
        let [meaning, remedy] = [first.meaning, first.remedy].map(str::to_owned);
        Some([first.status.as_str().to_owned(), reasons.join(", "), meaning, remedy])
    });
    if rows.iter().all(|row| row.status.as_str() == "True") {
        let cells = cells.map(|[_, reason, meaning, remedy]| [reason, meaning, remedy]);
        page.table(["reason", "meaning", "remedy"], cells);
    } else {
        page.table(["status", "reason", "meaning", "remedy"], cells);
    }
}

/// The anchor of a heading without punctuation.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

fn enumerated(items: &[String]) -> String {
    match items.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

#[test]
fn each_heading_and_each_link_to_one_is_unique_and_right() {
    let text = render();
    let headings: Vec<&str> =
        text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' ')).collect();
    let anchors: BTreeSet<String> = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches(['#', ' '])))
        .collect();
    assert!(headings.len() >= anchors.len() && anchors.len() > 20, "{anchors:?}");
    let all = text.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(anchors.len(), all, "two headings have one anchor");
    for link in text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(anchors.contains(link), "#{link} leads nowhere");
    }
}
