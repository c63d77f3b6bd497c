//! The core catalog's text about Events.

use super::conditions;
use super::page::{Page, code};
use flipop::kube::events::{MAX_NOTE_BYTES, MOST_PER_HOUR};
use flipop_core::fleet::QUIET_AFTER_START_MS;
use flipop_core::model::catalog::events::{ALL, Entry, Severity};

pub(crate) fn render() -> String {
    let mut page = Page::new(
        "Events",
        "For anyone who reads `kubectl describe` or collects Events: every Event that FLIPOP writes about a \
         FloatingIPPool or a NodeDNSRecordSet, and what it means.",
    );
    page.paragraph(
        "FLIPOP writes Events through the API `events.k8s.io`. Each Event is also a line in the log of the leader. A \
         missing right is logged only once for all objects.",
    );
    page.heading(2, "How Events are counted");
    page.paragraph(&format!(
        "Each Event has one text. FLIPOP counts repetitions of a text in the same Event. Another text is another Event. A \
         text is cut after {MAX_NOTE_BYTES} bytes; the condition has the whole text."
    ));
    page.paragraph(&format!(
        "FLIPOP writes at most {MOST_PER_HOUR} Events with the same reason about the same object within an hour. The \
         last of them says that more Events were left out, and how many. The log has all of them, and the conditions \
         show the present state."
    ));
    page.paragraph(&format!(
        "`NotReady` and `RecordSetNotReady` leave out the reasons `Assigning` and `InProgress`, and what was already in \
         the status when the process started. FLIPOP writes them no sooner than {} s after the process started.",
        QUIET_AFTER_START_MS / 1_000
    ));
    page.heading(2, "If there are no Events");
    page.paragraph(
        "If there are no Events, or none in one namespace, FLIPOP lacks the right to write them. Its log says once that \
         it may not `create` or `patch` events in `events.k8s.io`, and the condition \
         [`EventsDenied`](conditions.md#eventsdenied) is True. Apply `k8s/cluster-role.yaml`. The ClusterRole of the Go \
         operator does not grant the right: see [From the Go operator and back](../operations/from-go.md).",
    );
    page.paragraph(
        "FLIPOP retries one refused Event once a minute: the last one of each namespace, in turn. The first one that is \
         written ends the condition. The refused Events of other namespaces are then dropped.",
    );
    for (title, objects) in
        [("Events of a FloatingIPPool", 1), ("Events of a FloatingIPPool or a NodeDNSRecordSet", 2)]
    {
        page.heading(2, title);
        let entries = ALL.iter().filter(|entry| entry.objects.len() == objects).copied();
        let (plain, own): (Vec<Entry>, Vec<Entry>) = entries.partition(became_true);
        table(&mut page, &own);
        let reasons: Vec<String> = plain.iter().map(linked).collect();
        if !reasons.is_empty() {
            let reasons = reasons.join(", ");
            page.paragraph(&format!(
                "These are Warnings. The condition of the same name became True: {reasons}."
            ));
        }
    }
    page.end()
}

/// The condition of the Event's name, with a link.
fn linked(entry: &Entry) -> String {
    let name = entry.reason.as_str();
    format!("[`{name}`](conditions.md#{})", name.to_lowercase())
}

/// Whether the Event says only that the condition of its name became True.
fn became_true(entry: &Entry) -> bool {
    entry.severity == Severity::Warning
        && entry.meaning == format!("The condition {} became True.", linked(entry))
}

/// Reasons with the same meaning share a row.
fn table(page: &mut Page, entries: &[Entry]) {
    let alike = |a: &Entry, b: &Entry| (a.severity, a.meaning) == (b.severity, b.meaning);
    page.table(
        ["reason", "type", "meaning"],
        entries.chunk_by(alike).filter_map(|group| {
            let first = group.first()?;
            let reasons: Vec<String> = group.iter().map(|entry| code(entry.reason.as_str())).collect();
            let kind = match first.severity {
                Severity::Normal => "Normal",
                Severity::Warning => "Warning",
                Severity::Either => "Normal or Warning",
            };
            Some([reasons.join(", "), kind.to_owned(), first.meaning.to_owned()])
        }),
    );
}

#[test]
fn each_condition_that_an_event_links_to_has_a_heading() {
    let (text, conditions) = (render(), conditions::render());
    let mut links = 0;
    for link in text.split("conditions.md#").skip(1).filter_map(|rest| rest.split(')').next()) {
        let heading = |line: &str| {
            line.starts_with('#')
                && line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-") == link
        };
        assert!(conditions.lines().any(heading), "conditions.md#{link} leads nowhere");
        links += 1;
    }
    assert!(links > 10, "{links}");
}
