//! One `NodeDNSRecordSet`: its spec, the nodes that match, and which of their addresses it publishes.

mod checked;
mod patience;

use super::object::RecordSetObject;
use super::spec::{AddressSource, NodeSetSpec, RawRecordSetSpec, WhenEmpty};
use super::status::{RecordSetStatus, Remark, SetReport};
use super::view::Choice;
use crate::mechanism::checked::CheckedNodes;
use crate::mechanism::retry::{Pace, Retry, Schedule};
use crate::mechanism::suspects::{Look, Membership, Suspects};
use crate::mechanism::suspicion::Clocks;
use crate::mechanism::writes::Writes;
use crate::model::catalog::record_set::AddressMissing;
use crate::model::condition::Condition;
use crate::model::facts::NodeFacts;
use crate::model::ids::{Address, ObjectRef, Uid};
use crate::model::matching::{NodeStore, PodStore, verdict};
use crate::model::mismatch::Mismatch;
use crate::model::moment::{Context, Moment};
use crate::model::pause::Reason;
use crate::model::provider::Providers;
use crate::model::survey::Explanation;
use crate::model::words::enumerate;
use std::collections::{BTreeMap, BTreeSet};

/// A node in the set.
#[derive(Debug)]
struct Member {
    uid: Uid,
    provider_id: String,
    /// The addresses that are published for it.
    addresses: Vec<Address>,
}

impl Member {
    /// Whether it is this node, on the same machine.
    fn is(&self, node: &NodeFacts) -> bool {
        self.uid == node.uid && self.provider_id == node.provider_id
    }
}

/// A record set with an object of its own.
#[derive(Debug)]
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
    raw: Result<RawRecordSetSpec, String>,
    /// The status as the server has it.
    pub on_server: RecordSetStatus,
    /// The nodes and pods of this set are completely known.
    pub matched: bool,
    /// Nodes that match, with the addresses that are published for them.
    nodes: BTreeMap<String, Member>,
    /// Nodes with published addresses that stopped matching, until an Event reports it.
    losses: BTreeMap<String, Mismatch>,
    /// Nodes that fail and stay in the set for a while, or are recovering.
    pub(crate) suspects: Suspects,
    /// The findings of the checks.
    pub(crate) checked: CheckedNodes,
    /// The criteria were edited since the last plan.
    edited: bool,
    /// Why no node matches.
    pub(crate) no_match: Explanation,
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
        let mut set = Self {
            object: seen.object.clone(),
            created_at_s: seen.created_at_s,
            generation: seen.generation,
            resource_version: String::new(),
            deleting: seen.deleting,
            paused: None,
            spec: NodeSetSpec::unreadable(None, ""),
            raw: Err(String::new()),
            on_server: RecordSetStatus::default(),
            matched: false,
            nodes: BTreeMap::new(),
            losses: BTreeMap::new(),
            suspects: Suspects::default(),
            checked: CheckedNodes::default(),
            edited: false,
            no_match: Explanation::default(),
            conditions: None,
            writes: Writes::default(),
            outdated_crds: None,
        };
        set.update(seen, providers);
        set
    }

    /// Whether a version of the object is older than the known one.
    pub fn is_newer_than(&self, resource_version: &str) -> bool {
        let version = |text: &str| text.parse::<u64>().ok();
        version(&self.resource_version)
            .zip(version(resource_version))
            .is_some_and(|(ours, theirs)| theirs < ours)
    }

    /// Drops earlier knowledge, because leadership begins.
    pub fn distrust(&mut self) {
        self.matched = false;
        self.conditions = None;
        self.losses.clear();
        self.suspects.distrust();
        self.checked = CheckedNodes::default();
    }

    /// Takes in another version of the object. Returns true when the spec changed.
    pub fn update(&mut self, seen: RecordSetObject, providers: &Providers) -> bool {
        self.generation = seen.generation;
        self.resource_version = seen.resource_version;
        self.deleting = seen.deleting;
        self.paused = seen.paused.as_deref().map(Reason::new);
        self.on_server = seen.status;
        self.writes.observed_again();
        if self.raw == seen.spec {
            return false;
        }
        let criteria = self.spec.criteria.clone();
        self.spec = match &seen.spec {
            Ok(raw) => {
                let mut spec = NodeSetSpec::parse(raw, providers);
                spec.set.stay(Some(&self.spec.set), &raw.too_large);
                spec
            }
            Err(message) => {
                let before = Some(self.spec.clone());
                NodeSetSpec::unreadable(before, message)
            }
        };
        self.raw = seen.spec;
        if criteria != self.spec.criteria {
            // The first valid criteria are not an edit.
            self.edited |= criteria.is_some();
            self.no_match.forget();
        }
        true
    }

    /// Whether any node matches, as far as known.
    pub fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Whether the node is in the set.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Looks at some nodes again, or at all of them (`None`). Returns true if the addresses to publish may have
    /// changed.
    pub fn rematch(
        &mut self,
        touched: Option<&BTreeSet<String>>,
        (nodes, pods): (&NodeStore, Option<&PodStore>),
        clocks: Clocks,
    ) -> bool {
        let complete = nodes.is_complete() && pods.is_none_or(PodStore::is_complete);
        let Some(source) = self.spec.source.filter(|_| complete && self.spec.criteria.is_some()) else {
            return std::mem::take(&mut self.matched);
        };
        let mut changed = !self.matched;
        let all = touched.is_none() || !self.matched;
        self.matched = true;
        if all {
            let known = self.nodes.keys().cloned();
            let names: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).chain(known).collect();
            for name in &names {
                changed |= self.rematch_one(name, (nodes.get(name), pods), source, clocks);
            }
        } else {
            for name in touched.into_iter().flatten() {
                changed |= self.rematch_one(name, (nodes.get(name), pods), source, clocks);
            }
        }
        self.edited = false;
        if self.suspects.remembers_nodes() {
            let live: BTreeSet<&Uid> = nodes.iter().map(|node| &node.uid).collect();
            self.suspects.keep(|uid| live.contains(uid), clocks.now);
        }
        changed | self.suspects.take_touched()
    }

    fn rematch_one(
        &mut self,
        name: &str,
        (node, pods): (Option<&NodeFacts>, Option<&PodStore>),
        source: AddressSource,
        clocks: Clocks,
    ) -> bool {
        let Some(criteria) = &self.spec.criteria else { return false };
        let known = self.nodes.get(name);
        let member = known.zip(node).is_some_and(|(known, node)| known.is(node));
        if !member {
            self.suspects.gone(name, clocks.now);
        }
        let Some(node) = node else {
            self.suspects.unseen(name, known.map(|known| &known.uid), &self.spec.grace, clocks.now);
            return self.drop_node(name, Mismatch::Gone);
        };
        let addresses = source.of(node);
        let look = Look {
            node,
            verdict: verdict(criteria, node, pods).and_then(|()| self.check(node)),
            member,
            serves_by_status: || self.on_server.suspicion_of(name, &addresses),
            edited: self.edited,
        };
        match self.suspects.look(look, &self.spec.grace, clocks) {
            Membership::Member => {}
            Membership::Recovering => return self.drop_node(name, Mismatch::Replaced),
            Membership::Out(why) => return self.drop_node(name, why),
        }
        let (uid, provider_id) = (node.uid.clone(), node.provider_id.clone());
        let new = Member { uid, provider_id, addresses };
        let changed = self.nodes.get(name).is_none_or(|before| before.addresses != new.addresses);
        self.nodes.insert(name.to_owned(), new);
        changed
    }

    /// Removes a node that no longer matches. Returns true if it did before.
    fn drop_node(&mut self, name: &str, why: Mismatch) -> bool {
        let Some(member) = self.nodes.remove(name) else { return false };
        if !member.addresses.is_empty() {
            let why = if self.edited { Mismatch::Edited } else { why };
            self.losses.insert(name.to_owned(), why);
        }
        true
    }

    /// The message about the nodes that lost their match since the last plan, and whether it is a warning. A node that
    /// matches again is not a loss. `kept` says that the name is not emptied yet.
    pub(crate) fn tell_losses(&mut self, kept: bool) -> Option<(bool, String)> {
        if !self.matched {
            return None;
        }
        let mut losses = std::mem::take(&mut self.losses);
        losses.retain(|name, _| !self.nodes.contains_key(name));
        let none_left = self.nodes.is_empty();
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
        let told = match why.as_slice() {
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
        Some((none_left, format!("{told}: {next}")))
    }

    /// Whether nothing is left to do, to retry or to tell, apart from the records.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.matched
            && !self.deleting
            && self.paused.is_none()
            && self.spec.check.is_none()
            && self.spec.obstacles().next().is_none()
            && self.has_nodes()
            && self.losses.is_empty()
            && self.suspects.is_empty()
            && self.checked == CheckedNodes::default()
            && self.outdated_crds.is_none()
            && !self.writes.are_under_way()
    }

    /// The addresses to publish. `None` while too little is known.
    pub fn choice(&self) -> Option<Choice> {
        let known = self.matched && !self.deleting && self.spec.obstacles().next().is_none();
        known.then(|| Choice {
            addresses: self.chosen(),
            undecided: BTreeSet::new(),
            any_node: !self.nodes.is_empty(),
            withdrawn: BTreeSet::new(),
        })
    }

    /// The remark about matching nodes without an address to publish.
    pub fn lacking(&self) -> Option<Remark> {
        let source = self.spec.source.filter(|_| self.matched)?;
        let names: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, member)| member.addresses.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        let message = format!(
            "{} of {} matching nodes lack {}: {}",
            names.len(),
            self.nodes.len(),
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
