//! The report of `status` as data: the form of `-o json` and `-o yaml`.

use crate::command::leader::Leader;
use crate::command::matched::LeftOut;
use crate::command::steer::Named;
use flipop_core::model::{Condition, ConditionType, ObjectKind};
use serde::Serialize;

/// Everything that is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::command) struct Report {
    /// The time of the report, by the API server's clock.
    pub(super) time: String,
    /// The leader. Absent if the Lease cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leader: Option<Leader>,
    /// No replica leads, so every status may be outdated.
    pub(super) stale: bool,
    /// The facts that this report lacks, and why.
    pub(in crate::command) notes: Vec<String>,
    /// Checked nodes that do not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) failing_checks: Vec<FailingCheck>,
    /// The pools.
    pub(super) pools: Vec<PoolReport>,
    /// The record sets.
    #[serde(rename = "nodeDNSRecordSets")]
    pub(super) record_sets: Vec<SetReport>,
}

/// A checked node that does not answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FailingCheck {
    pub(super) node: String,
    pub(super) text: String,
}

/// One pool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolReport {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) state: State,
    /// The number of addresses that the pool uses.
    pub(super) used: i64,
    /// The number of active addresses.
    pub(super) active: usize,
    pub(super) addresses: Vec<AddressReport>,
    /// The move by hand that is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pending_move: Option<PendingMove>,
    /// Matching nodes without an address. In the order of the queue if the leader reported it.
    pub(super) line: Vec<Waiting>,
    /// Nodes that do not match.
    pub(super) left_out: Vec<LeftOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<Records>,
}

/// One `NodeDNSRecordSet`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetReport {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) state: State,
    pub(super) records: Records,
    /// Nodes that match, each with its published addresses.
    pub(super) nodes: Vec<Published>,
    pub(super) left_out: Vec<LeftOut>,
}

/// The state of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    /// Status of the condition `Ready`.
    pub(super) ready: String,
    pub(super) reason: String,
    pub(super) message: String,
    /// The text of the annotation that pauses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<String>,
    /// Since when the operator has held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paused_since: Option<String>,
    /// Whether the status describes the present spec.
    pub(super) current: bool,
    /// The other conditions that deserve attention.
    pub(super) warnings: Vec<Warning>,
}

/// A condition.
#[derive(Debug, Serialize)]
pub(super) struct Warning {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// One address of a pool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressReport {
    pub(super) address: String,
    /// The node where it was last seen.
    pub(super) node: String,
    /// The node to which it is being moved.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) target: String,
    #[serde(rename = "providerID")]
    pub(super) provider_id: String,
    pub(super) state: String,
    /// When it arrived there, if the leader saw that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
    /// The names that hold it.
    pub(super) dns: Vec<String>,
    /// Whether its node matches, and why not.
    pub(super) health: String,
    /// The next event for it, and when.
    pub(super) next: String,
    /// Its mistake or failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) error: String,
}

/// A move by hand that is not finished.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingMove {
    /// The request as it was written.
    pub(super) request: String,
    /// The node that had the address when the move began.
    pub(super) from: String,
    /// When the operator accepted it. Absent before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
    /// Why it has not begun. Empty once it has.
    pub(super) waits_for: String,
}

/// A matching node without an address.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    pub(super) node: String,
    /// The thing that it waits for, if the leader reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for: Option<String>,
}

/// A node whose addresses are published.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Published {
    pub(super) node: String,
    pub(super) addresses: Vec<String>,
    /// Why it is about to leave. Empty if it stays.
    pub(super) health: String,
}

/// The records of an object.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Records {
    /// The fully qualified name if it is known, else the name in the spec.
    pub(super) name: String,
    pub(super) provider: String,
    /// In seconds. Absent if the provider's default applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<i64>,
    pub(super) addresses: Vec<String>,
    /// Status of `RecordSetReady`, or of `Ready` of a record set.
    pub(super) ready: String,
    pub(super) reason: String,
}

impl Report {
    /// Whether this object is shown.
    pub(in crate::command) fn has(&self, named: &Named) -> bool {
        self.pools.iter().any(|pool| named.is(ObjectKind::Pool, &pool.name))
            || self.record_sets.iter().any(|set| named.is(ObjectKind::RecordSet, &set.name))
    }
}

/// The state of an object, from its conditions.
pub(super) fn state(
    conditions: &[Condition],
    (paused, paused_since): (Option<&String>, Option<&String>),
    (observed, generation): (i64, i64),
) -> State {
    let ready = conditions.iter().find(|condition| condition.kind == "Ready");
    let of = |text: fn(&Condition) -> &String| ready.map(text).cloned().unwrap_or_default();
    State {
        ready: ready.map_or("Unknown".to_owned(), |ready| ready.status.clone()),
        reason: ready.map_or("NotLookedAt".to_owned(), |ready| ready.reason.clone()),
        message: of(|condition| &condition.message),
        paused: paused.cloned(),
        paused_since: paused_since.filter(|_| paused.is_some()).cloned(),
        current: observed == generation,
        warnings: conditions.iter().filter(|condition| is_warning(condition)).map(warning).collect(),
    }
}

/// Whether a condition is shown as a warning. `Ready` has a place of its own.
fn is_warning(Condition { kind, status, .. }: &Condition) -> bool {
    kind != ConditionType::Ready.as_str() && ConditionType::is_trouble(kind, status)
}

fn warning(condition: &Condition) -> Warning {
    let Condition { kind, reason, message, .. } = condition.clone();
    Warning { kind, reason, message }
}
