//! One `NodeDNSRecordSet`: its spec, the nodes that match, and which of their addresses it publishes.

mod following;

use super::spec::{NodeSetSpec, RawRecordSetSpec, WhenEmpty};
use super::status::{RecordSetObject, RecordSetStatus, Remark, SetReport};
use super::view::Choice;
use crate::mechanism::{FollowedNodes, Follower, Pace, Retry, Schedule, Writes};
use crate::model::catalog::record_set::AddressMissing;
use crate::model::pause::Reason;
use crate::model::provider::Providers;
use crate::model::words::enumerate;
use crate::model::{Address, Condition, Context, Mismatch, Moment, ObjectRef, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// A node in the set.
#[derive(Debug)]
struct Member {
    uid: Uid,
    provider_id: String,
    /// The addresses that are published for it.
    addresses: Vec<Address>,
}

/// A record set with an object of its own.
#[derive(Debug, Default)]
pub struct NodeSet {
    /// The object's name and uid.
    pub object: ObjectRef,
    /// Decides who is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// Version of the object that the next status write replaces.
    pub resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Why it is paused, if it is.
    pub paused: Option<Reason>,
    /// The spec.
    pub spec: NodeSetSpec,
    /// The spec as it was written, or why it cannot be read.
    raw: Option<Result<RawRecordSetSpec, String>>,
    /// The status as the server has it.
    pub on_server: RecordSetStatus,
    /// Its knowledge about its nodes.
    pub(crate) nodes: FollowedNodes,
    /// Nodes that match, with the addresses that are published for them.
    members: BTreeMap<String, Member>,
    /// Nodes with published addresses that stopped matching, until an Event reports it.
    losses: BTreeMap<String, Mismatch>,
    /// The conditions of the last plan, written or not. `None` before the first ones are known.
    pub conditions: Option<Vec<Condition>>,
    /// Writes of the status under way and their retries.
    pub writes: Writes<RecordSetStatus>,
    /// How often the installed CRDs were seen to drop our fields, and when to look again.
    outdated_crds: Option<Retry>,
}

impl NodeSet {
    /// A set at its first sight.
    pub fn new(seen: RecordSetObject, providers: &Providers) -> Self {
        let (object, created_at_s) = (seen.object.clone(), seen.created_at_s);
        let mut set = Self { object, created_at_s, ..Self::default() };
        set.update(seen, providers);
        set
    }

    /// Drops earlier knowledge, because leadership begins.
    pub fn distrust(&mut self) {
        self.nodes.distrust();
        self.conditions = None;
        self.losses.clear();
    }

    /// Takes in another version of the object. Returns true when the spec changed.
    pub fn update(&mut self, seen: RecordSetObject, providers: &Providers) -> bool {
        self.generation = seen.generation;
        self.resource_version = seen.resource_version;
        self.deleting = seen.deleting;
        self.paused = seen.paused.as_deref().map(Reason::new);
        self.on_server = seen.status;
        self.writes.observed_again();
        if self.raw.as_ref() == Some(&seen.spec) {
            return false;
        }
        // Matches by the old spec prove nothing about the new one.
        self.nodes.matched = false;
        let criteria = self.spec.criteria.clone();
        self.spec = match &seen.spec {
            Ok(raw) => {
                let mut spec = NodeSetSpec::parse(raw, providers);
                spec.set.stay(Some(&self.spec.set), &raw.too_large);
                spec
            }
            Err(message) => self.spec.unreadable(message),
        };
        self.raw = Some(seen.spec);
        if criteria != self.spec.criteria {
            self.nodes.criteria_changed(criteria.as_ref());
        }
        true
    }

    /// The message about the nodes that lost their match since the last plan, and whether it is a warning. A node that
    /// matches again is not a loss. `kept` says that the name is not emptied yet.
    pub(crate) fn tell_losses(&mut self, kept: bool) -> Option<(bool, String)> {
        if !self.nodes.matched {
            return None;
        }
        let mut losses = std::mem::take(&mut self.losses);
        losses.retain(|name, _| !self.members.contains_key(name));
        let none_left = self.members.is_empty();
        let next = match (none_left, self.spec.set.when_empty) {
            _ if self.paused.is_some() => "the records stay as they are while the object is paused",
            (false, _) => "the records follow",
            (true, WhenEmpty::Keep) => "no other node matches, and the last records stay (whenEmpty: Keep)",
            (true, WhenEmpty::Delete) if kept => {
                "no other node matches, and the records stay for up to 10 min"
            }
            (true, WhenEmpty::Delete) => {
                "no other node matches, and the records are removed (whenEmpty: Delete)"
            }
        };
        let why: Vec<(String, String)> =
            losses.iter().map(|(name, why)| (format!("{name} {why}"), String::new())).collect();
        let text = match why.as_slice() {
            [] => return None,
            [(only, _)] => only.clone(),
            several => {
                let named = several.iter().map(|(why, _)| why.clone()).take(3).collect::<Vec<_>>().join(", ");
                let more = if several.len() > 3 {
                    format!(", and {} more", several.len() - 3)
                } else {
                    String::new()
                };
                format!("{} nodes no longer match ({named}{more})", several.len())
            }
        };
        Some((none_left, format!("{text}: {next}")))
    }

    /// Whether nothing is left to do, to retry or to tell, apart from the records.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.deleting
            && self.paused.is_none()
            && self.spec.obstacles().next().is_none()
            && !self.members.is_empty()
            && self.losses.is_empty()
            && self.nodes.is_at_rest()
            && self.outdated_crds.is_none()
    }

    /// The addresses to publish. `None` while too little is known.
    pub fn choice(&self) -> Option<Choice> {
        let known = self.nodes.matched && !self.deleting && self.spec.obstacles().next().is_none();
        known.then(|| Choice {
            addresses: self.chosen(),
            undecided: BTreeSet::new(),
            any_node: !self.members.is_empty(),
            withdrawn: BTreeSet::new(),
        })
    }

    /// The remark about matching nodes without an address to publish.
    pub fn lacking(&self) -> Option<Remark> {
        let source = self.spec.source.filter(|_| self.nodes.matched)?;
        let names: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.addresses.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        let message = format!(
            "{} of {} matching nodes lack {}: {}",
            names.len(),
            self.members.len(),
            source.lacking(),
            enumerate(names.iter().cloned())
        );
        (!names.is_empty()).then_some(Remark { finding: AddressMissing::NodeWithoutAddress.into(), message })
    }

    /// The status for a report.
    pub fn render(&self, report: &SetReport) -> RecordSetStatus {
        let mut status = report.status(self.generation, &self.spec.problems);
        status.suspects = self.suspect_nodes();
        status.conditions.extend(self.suspect_condition());
        status.conditions.sort();
        status
    }

    /// Until when to write only the fields that the Go operator's CRDs keep. `None` if all fields are written.
    pub fn writes_go_fields_until(&self, now: Moment) -> Option<Moment> {
        self.outdated_crds.map(|retry| retry.due()).filter(|until| *until > now)
    }

    /// Takes in a written status. If the server kept our fields, its CRDs are current.
    pub fn kept(&mut self, sent: Option<&RecordSetStatus>, kept: &RecordSetStatus, at: Context) {
        if !kept.conditions.is_empty() {
            self.outdated_crds = None;
        } else if sent.is_some_and(|sent| !sent.conditions.is_empty()) {
            self.outdated_crds.get_or_insert_default().failed(Pace::by(Schedule::Slow), at);
        }
    }
}
