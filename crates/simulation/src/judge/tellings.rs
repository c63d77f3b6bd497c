//! I9: each trouble in a status has had an Event, and a burst of troubles leads to few of them. All Events are
//! documented.

use super::conditions::is_trouble;
use super::truth::Pool;
use super::validity::text;
use flipop_core::model::catalog::events;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most Events about one object with one reason that a process may write within any hour. It may write twenty in
/// each of its own hours, any other hour overlaps two of those, and one more was refused before.
const MOST_PER_HOUR: usize = 41;

const HOUR_MS: u64 = 3_600_000;

/// Conditions that warn without an error.
const REMARKS: [&str; 7] = [
    "AddressMissing",
    "TTLRaised",
    "ExternalDNS",
    "RecordSetTTLRaised",
    "RecordSetExternalDNS",
    // Only a node that is taken out has an Event.
    "FirewallWouldIsolate",
    // Nothing follows from checks that are not believed. Only a node that is found dead has an Event.
    "ChecksDoubted",
];

/// The contents of statuses and Events.
#[derive(Debug, Default)]
pub(super) struct Tellings {
    /// By object and the reason of the expected Event: when the status said so.
    begun: BTreeMap<(String, String), u64>,
    events: BTreeSet<(String, String)>,
    /// By object, reason and process: the times of Events within the last hour.
    written: BTreeMap<(String, String, String), VecDeque<u64>>,
}

/// The reason of the Event about a condition; `None` if it is no trouble.
fn event_of(condition: &Value) -> Option<String> {
    let (kind, status, reason) =
        (text(condition, "/type"), text(condition, "/status"), text(condition, "/reason"));
    let event = match kind {
        // `SpecValid` reports what a pool's own spec prevents.
        "Ready" | "RecordSetReady" if status == "False" => reason,
        _ if !is_trouble(condition) || REMARKS.contains(&kind) => return None,
        "SpecValid" => "InvalidSpec",
        "ProviderReady" => "ProviderNotReady",
        "FirewallReady" => "FirewallNotReady",
        "RecordSetConflict" => "NameClaimed",
        "Conflict" if reason == "NameClaimed" => "NameClaimed",
        "Suspect" => "FailoverDelayed",
        "NodesBlocked" if reason == "AssignmentFailed" => "AssignmentFailed",
        other => other,
    };
    Some(event.to_owned())
}

impl Tellings {
    /// The status of an object changed.
    pub(super) fn status(&mut self, object: &Pool, is_pool: bool, now_ms: u64) {
        for condition in object.conditions() {
            let kind = text(condition, "/type");
            // `Ready` of a pool is a summary, and so is that of a set that no node matches. Work in progress is no
            // trouble.
            let sums_up = kind == "Ready" && is_pool;
            if sums_up || ["InProgress", "NoMatchingNode"].contains(&text(condition, "/reason")) {
                continue;
            }
            if let Some(event) = event_of(condition) {
                self.begun.entry((object.uid.clone(), event)).or_insert(now_ms);
            }
        }
    }

    /// An Event was stored or counted again. Returns the mistake in it, if any.
    pub(super) fn event(&mut self, event: &Value, now_ms: u64) -> Option<String> {
        let of = |pointer: &str| text(event, pointer).to_owned();
        let [kind, object, why] =
            ["/type", "/involvedObject/kind", "/reason"].map(|field| text(event, field));
        let undocumented = (!events::contains(object, kind, why))
            .then(|| format!("an Event {kind} {why} of a {object} is documented nowhere"));
        let (uid, reason) = (of("/involvedObject/uid"), of("/reason"));
        self.events.insert((uid.clone(), reason.clone()));
        let writer = (uid, reason, of("/reportingInstance"));
        let written = self.written.entry(writer.clone()).or_default();
        written.push_back(now_ms);
        written.retain(|at_ms| *at_ms > now_ms.saturating_sub(HOUR_MS));
        let count = written.len();
        let (uid, reason, _) = writer;
        let storm = || format!("{count} Events {reason} of {uid} within an hour");
        undocumented.or_else(|| (count > MOST_PER_HOUR).then(storm))
    }

    /// The troubles without an Event.
    pub(super) fn untold(&self) -> Vec<String> {
        let untold = self.begun.iter().filter(|(trouble, _)| !self.events.contains(*trouble));
        untold.map(|((uid, reason), at_ms)| format!("{reason} of {uid} at {at_ms} ms had no Event")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_storm_of_events_is_seen_for_each_object_reason_and_process() {
        let event = |uid: &str, reason: &str, process: &str| {
            let about = json!({ "kind": "FloatingIPPool", "uid": uid });
            json!({ "involvedObject": about, "type": "Normal", "reason": reason, "reportingInstance": process })
        };
        let (mut tellings, storm) = (Tellings::default(), event("a", "Assigned", "one"));
        let quiet = (1..=41).all(|turn| tellings.event(&storm, turn).is_none());
        assert!(quiet);
        for other in
            [event("b", "Assigned", "one"), event("a", "Unassigned", "one"), event("a", "Assigned", "two")]
        {
            assert_eq!(tellings.event(&other, HOUR_MS), None);
        }
        assert!(tellings.event(&storm, HOUR_MS).is_some());
        assert_eq!(tellings.event(&storm, HOUR_MS + 2), None, "two of them are older than an hour");
    }

    #[test]
    fn an_event_that_no_user_can_look_up_is_seen() {
        let mut tellings = Tellings::default();
        for (kind, severity, reason, known) in [
            ("FloatingIPPool", "Normal", "Assigned", true),
            ("FloatingIPPool", "Warning", "Assigned", false),
            ("FloatingIPPool", "Normal", "Reassigned", false),
            ("NodeDNSRecordSet", "Normal", "Assigned", false),
            ("NodeDNSRecordSet", "Warning", "MatchLost", true),
        ] {
            let event =
                json!({ "involvedObject": { "kind": kind, "uid": "a" }, "type": severity, "reason": reason });
            assert_eq!(tellings.event(&event, 0).is_none(), known, "{event}");
        }
    }
}
