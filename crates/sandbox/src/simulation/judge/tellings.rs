//! I9: each trouble that a status tells of has had an Event.

use super::conditions::is_trouble;
use super::truth::Pool;
use super::validity::text;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Conditions that warn of something that is no error.
const REMARKS: [&str; 5] =
    ["AddressMissing", "TTLRaised", "ExternalDNS", "RecordSetTTLRaised", "RecordSetExternalDNS"];

/// What statuses and Events told.
#[derive(Debug, Default)]
pub(super) struct Tellings {
    /// By object and reason of the Event that has to be there: when the status told.
    begun: BTreeMap<(String, String), u64>,
    events: BTreeSet<(String, String)>,
}

/// The reason of the Event that tells of a condition; `None` if it is no trouble.
fn event_of(condition: &Value) -> Option<String> {
    let (kind, status, reason) =
        (text(condition, "/type"), text(condition, "/status"), text(condition, "/reason"));
    let event = match kind {
        // What a pool's own spec stops is told by `SpecValid`.
        "Ready" | "RecordSetReady" if status == "False" => reason,
        _ if !is_trouble(condition) || REMARKS.contains(&kind) => return None,
        "SpecValid" => "InvalidSpec",
        "ProviderReady" => "ProviderNotReady",
        "RecordSetConflict" => "NameClaimed",
        "Conflict" if reason == "NameClaimed" => "NameClaimed",
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
            // `Ready` of a pool sums up, and what is in progress is no trouble.
            let sums_up = kind == "Ready" && is_pool;
            if sums_up || text(condition, "/reason") == "InProgress" {
                continue;
            }
            if let Some(event) = event_of(condition) {
                self.begun.entry((object.uid.clone(), event)).or_insert(now_ms);
            }
        }
    }

    /// An Event was stored.
    pub(super) fn event(&mut self, event: &Value) {
        let uid = text(event, "/involvedObject/uid").to_owned();
        self.events.insert((uid, text(event, "/reason").to_owned()));
    }

    /// What no Event told of.
    pub(super) fn untold(&self) -> Vec<String> {
        let untold = self.begun.iter().filter(|(trouble, _)| !self.events.contains(*trouble));
        untold.map(|((uid, reason), at_ms)| format!("{reason} of {uid} at {at_ms} ms had no Event")).collect()
    }
}
