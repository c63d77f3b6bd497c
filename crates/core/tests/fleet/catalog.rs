//! The catalog of conditions and Events agrees with the code. Everything that the code emits is in the catalog, and the
//! code emits everything in the catalog.

use flipop_core::model::catalog::{self, Row, Section, events};
use flipop_core::model::{ConditionType, FaultKind, ObjectKind, Status};
use std::collections::BTreeSet;

/// Pages that a text may link to, and the beginning of every other link.
const BESIDE: [&str; 5] = ["conditions.md", "events.md", "endpoints.md", "floatingippool.md", "#"];

/// The source of the core outside the catalog, and of the shell, without comments.
fn sources() -> Vec<(String, String)> {
    let mut found = ["src", "../../src"].map(crate::purity::sources).concat();
    found.retain(|(path, _)| !path.contains("/catalog/"));
    assert!(found.len() > 100, "only {} files were looked at", found.len());
    found
}

/// Whether a file is the core's.
fn is_of_core(path: &str) -> bool {
    !path.contains("../../src")
}

/// Whether code names this as a whole word.
fn names(sources: &[(String, String)], what: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    sources.iter().any(|(_, code)| {
        code.match_indices(what).any(|(at, _)| {
            let (before, after) = (&code[..at], &code[at + what.len()..]);
            !before.ends_with(is_word) && !after.starts_with(is_word)
        })
    })
}

fn sections() -> impl Iterator<Item = &'static Section> {
    let all = [
        catalog::of_pools(),
        catalog::of_firewalls(),
        catalog::of_reclaims(),
        catalog::of_both(),
        catalog::of_records(),
        catalog::of_record_sets(),
    ];
    all.into_iter().flatten()
}

fn rows() -> impl Iterator<Item = &'static Row> {
    sections().flat_map(|section| section.rows)
}

/// Whether a reason is a kind of failure that a provider's client reports, and its enum is made from such kinds.
fn is_told_as_a_fault(sources: &[(String, String)], row: &Row) -> bool {
    let (name, _) = row.variant.split_once("::").unwrap();
    let made = [format!("{name}::from"), format!("{name}::of")];
    FaultKind::ALL.iter().any(|kind| kind.reason() == row.reason)
        && names(sources, &format!("FaultKind::{}", row.reason))
        && made.iter().any(|made| names(sources, made))
}

#[test]
fn every_reason_in_the_catalog_is_emitted_somewhere() {
    let sources = sources();
    let dead = |row: &&Row| !names(&sources, row.variant) && !is_told_as_a_fault(&sources, row);
    let dead: Vec<&str> = rows().filter(dead).map(|row| row.variant).collect();
    assert_eq!(dead, Vec::<&str>::new(), "nobody emits these");
}

#[test]
fn every_reason_of_an_event_in_the_catalog_is_emitted_somewhere() {
    let sources = sources();
    assert!(names(&sources, "set.announce"), "every obstacle of records has an Event");
    let hinders = |reason: &str| rows().any(|row| row.variant.strip_prefix("Obstacle::") == Some(reason));
    let dead = |entry: &&events::Entry| {
        let reason = entry.reason.as_str();
        !names(&sources, &format!("EventReason::{reason}")) && !hinders(reason)
    };
    let dead: Vec<_> = events::ALL.iter().filter(dead).map(|entry| entry.reason).collect();
    assert_eq!(dead, [], "nobody emits these");
}

#[test]
fn only_the_catalog_makes_conditions() {
    for (path, code) in sources() {
        let core = is_of_core(&path) && !path.ends_with("condition.rs");
        let built = code.lines().find(|line| {
            let brace = line.find("Condition {").map(|at| &line[..at]);
            brace.is_some_and(|before| !before.trim_end().ends_with("->") && !before.contains("let "))
        });
        assert!(!core || built.is_none(), "{path} makes a condition without the catalog: {built:?}");
    }
}

#[test]
fn each_type_has_what_it_can_say() {
    for object in [ObjectKind::Pool, ObjectKind::RecordSet] {
        let mut said = BTreeSet::new();
        for (kind, row) in catalog::of(object) {
            let told = (kind.as_str(), row.status.as_str(), row.reason);
            assert!(said.insert(told), "{object:?} says {told:?} twice");
            assert!(catalog::contains(object.as_str(), told.0, told.1, told.2), "{told:?}");
        }
        assert!(!said.is_empty());
    }
    let of_pools: BTreeSet<_> = catalog::of(ObjectKind::Pool).map(|(kind, _)| kind).collect();
    let of_sets: BTreeSet<_> = catalog::of(ObjectKind::RecordSet).map(|(kind, _)| kind).collect();
    let all: BTreeSet<_> = ConditionType::ALL.iter().copied().collect();
    assert_eq!(&of_pools | &of_sets, all);
    assert_eq!(
        &of_sets - &of_pools,
        [ConditionType::AddressMissing, ConditionType::TTLRaised, ConditionType::ExternalDNS].into()
    );
    for kind in all {
        assert_eq!(ConditionType::parse(kind.as_str()), Some(kind));
        let of_records = kind.as_str().starts_with("RecordSet");
        let prefixed = kind.about_records(ObjectKind::Pool).as_str().starts_with("RecordSet");
        let alone = ConditionType::parse(&format!("RecordSet{}", kind.as_str())).is_some();
        assert_eq!(prefixed, of_records || alone, "{kind:?}");
    }
}

#[test]
fn what_nobody_says_is_not_in_the_catalog() {
    let pool = |kind, status, reason| catalog::contains("FloatingIPPool", kind, status, reason);
    let set = |kind, status, reason| catalog::contains("NodeDNSRecordSet", kind, status, reason);
    assert!(pool("Ready", "True", "Assigned") && !set("Ready", "True", "Assigned"));
    assert!(!pool("Ready", "False", "Assigned") && !pool("Ready", "True", "Published"));
    assert!(set("Ready", "True", "Published") && pool("RecordSetReady", "True", "Published"));
    assert!(!set("RecordSetReady", "True", "Published"));
    assert!(set("Ready", "Unknown", "NodesUnread") && !pool("RecordSetReady", "Unknown", "NodesUnread"));
    assert!(!set("Ready", "False", "Throttled") && pool("ProviderReady", "False", "Throttled"));
    assert!(!catalog::contains("Node", "Ready", "True", "Assigned"));
    let event = events::contains;
    assert!(event("FloatingIPPool", "Normal", "Assigned") && !event("FloatingIPPool", "Warning", "Assigned"));
    assert!(!event("NodeDNSRecordSet", "Normal", "Assigned") && !event("FloatingIPPool", "Normal", "Odd"));
    for (kind, known) in [("Normal", true), ("Warning", true), ("Odd", false)] {
        assert_eq!(event("NodeDNSRecordSet", kind, "MatchLost"), known);
    }
}

/// The texts are whole sentences in Markdown that fit into a table cell.
#[test]
fn the_texts_are_sentences_and_their_links_start_from_the_reference() {
    let conditions = sections().flat_map(|section| {
        let rows = section.rows.iter().flat_map(|row| [row.meaning, row.remedy]);
        std::iter::once(section.holds).chain(rows)
    });
    let faults = FaultKind::ALL.iter().flat_map(|kind| [kind.answered(), kind.remedy()]);
    let events = events::ALL.iter().map(|entry| entry.meaning);
    for text in conditions.chain(faults).chain(events).filter(|text| !text.is_empty()) {
        assert!(text.ends_with('.') && !text.contains(['|', '\n']) && !text.contains("  "), "{text}");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let near = BESIDE.iter().any(|page| link.starts_with(page));
            assert!(near || link.starts_with("../") || link.starts_with("https://"), "{link}");
        }
    }
}

#[test]
fn a_status_has_the_name_of_the_api() {
    assert_eq!(
        [Status::True, Status::False, Status::Unknown].map(Status::as_str),
        ["True", "False", "Unknown"]
    );
}
