//! The labels of nodes: those of `spec.nodeLabels`.
//!
//! Invariants: a node has labels that name an address only where the annotation may be. Labels of other field managers
//! stay, unless a pool confirms its own address there. One write per node is under way at a time. Labels have separate
//! writes, so that a policy that refuses them does not block annotations.

use super::action::{Action, MarkedNode};
use super::annotations::Desired;
use super::node_writes::NodeWrites;
use crate::addresses::pool::Pool;
use crate::mechanism::effects::Effects;
use crate::model::facts::{NodeFacts, Observed};
use crate::model::fault::WriteFailure;
use crate::model::ids::{Address, Uid};
use crate::model::label_mode::LabelMode;
use crate::model::moment::{Context, Moment};
use crate::model::node_labels::{LabelChanges, Labels, NodeLabels};
use std::collections::{BTreeMap, BTreeSet};

/// The labels that nodes should have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DesiredLabels {
    /// By the node's uid: its name and its labels.
    pub(super) wanted: BTreeMap<Uid, (String, Labels)>,
    /// The addresses whose labels stay, for pools with labels only. Its `confirmed` is not used.
    pub(super) kept: Desired,
    /// Nodes whose labels without an address stay, because too little is known about a pool that matches them.
    pub(super) kept_nodes: BTreeSet<Uid>,
    /// For some pool it is unknown which nodes it matches.
    pub(super) unread: bool,
    /// Addresses that are about to move. The labels that name them are removed from every node.
    leaving: BTreeSet<Address>,
    /// Nodes that get a label if they have no address: the name by uid.
    matching: BTreeMap<Uid, String>,
}

impl DesiredLabels {
    /// Takes in the labels for a pool. `desired` are its annotations. `known` says that its account is known.
    pub(super) fn of_pool(&mut self, pool: &Pool, desired: &Desired, known: bool) {
        let mode = pool.spec.labels;
        if mode == LabelMode::Off {
            return;
        }
        self.leaving.extend(pool.unlabelling());
        let confirmed = desired.confirmed.iter().filter(|(_, (_, ip))| !pool.is_unlabelling(*ip));
        self.wanted
            .extend(confirmed.map(|(uid, (node, ip))| (uid.clone(), (node.clone(), mode.labels(Some(*ip))))));
        self.kept.extend(Desired { confirmed: BTreeMap::new(), ..desired.clone() });
        if mode != LabelMode::Legacy {
            return;
        }
        let candidates =
            pool.candidates.iter().map(|(name, candidate)| (candidate.node.uid.clone(), name.to_string()));
        if pool.nodes.matched && pool.may_begin() && known {
            self.matching.extend(candidates);
        } else {
            self.unread |= !pool.nodes.matched;
            self.kept_nodes.extend(candidates.map(|(uid, _)| uid));
        }
    }

    /// Gives a label to the matching nodes on which no pool has an address. Every pool must have been taken in before.
    pub(super) fn without_address(&mut self, desired: &Desired) {
        for (uid, name) in std::mem::take(&mut self.matching) {
            if !desired.confirmed.contains_key(&uid) {
                self.wanted.entry(uid).or_insert_with(|| (name, LabelMode::Legacy.labels(None)));
            }
        }
    }

    fn keeps(&self, uid: &Uid, labels: &NodeLabels) -> bool {
        match labels.address() {
            Some(ip) => self.kept.protects(uid, ip),
            None => self.unread || self.kept_nodes.contains(uid),
        }
    }
}

/// State of the labels.
#[derive(Debug, Default)]
pub(super) struct NodeLabelling {
    /// The labels of nodes as last seen or written, with the nodes' names.
    seen: BTreeMap<Uid, (String, NodeLabels)>,
    changed: bool,
    /// Nodes that may have labels of ours, which FLIPOP may remove.
    standing: BTreeSet<Uid>,
    writes: NodeWrites,
    /// A sweep has ended since leadership began.
    swept: bool,
    /// At least some nodes were read since leadership began.
    listed: bool,
}

impl NodeLabelling {
    /// Starts again when leadership begins.
    pub(super) fn restart(&mut self) {
        (self.swept, self.listed) = (false, false);
    }

    /// Why a wanted label is refused, if one is.
    pub(super) fn denied(&self) -> Option<&str> {
        self.writes.denied()
    }

    /// The addresses that our labels name, each with its node. Labels whose last write failed are left out, because
    /// their removal may take long.
    pub(super) fn named(&self) -> impl Iterator<Item = (Address, &Uid, &str)> {
        // A new leader may move addresses before its sweep has found the labels of its predecessor.
        let ours = self.seen.iter().filter(|(uid, _)| !self.swept || self.standing.contains(*uid));
        let writable = ours.filter(|(uid, _)| !self.writes.has_failed(uid));
        writable.filter_map(|(uid, (name, labels))| Some((labels.address()?, uid, name.as_str())))
    }

    /// Takes in a step of a watch of nodes. `of_pool` says that a pool uses the watch.
    pub(super) fn observe(&mut self, observed: &Observed<NodeFacts>, of_pool: bool) {
        match observed {
            Observed::Reset(nodes) => nodes.iter().for_each(|node| self.see(node, of_pool)),
            Observed::Apply(node) => self.see(node, of_pool),
            // The node may only have left the filter. Its labels are then removed as last seen.
            Observed::Delete(node) if self.standing.contains(&node.uid) => self.changed = true,
            Observed::Delete(node) => drop(self.seen.remove(&node.uid)),
        }
    }

    fn see(&mut self, node: &NodeFacts, of_pool: bool) {
        if node.labels.is_empty() && !self.seen.contains_key(&node.uid) {
            return;
        }
        // Events may come late. Before the first sweep too little is known to call a label left over.
        if of_pool && self.swept && node.labels.any_ours() && !self.writes.is_under_way(&node.uid) {
            self.changed |= self.standing.insert(node.uid.clone());
        }
        let seen = (node.name.clone(), node.labels.clone());
        self.changed |= self.seen.insert(node.uid.clone(), seen.clone()) != Some(seen);
    }

    /// Whether a label changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Decides on writes. `listed` says that nodes of some pool were read.
    pub(super) fn plan(
        &mut self,
        desired: &DesiredLabels,
        listed: bool,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let standing = &self.standing;
        self.writes.keep_failures(|uid| desired.wanted.contains_key(uid) || standing.contains(uid));
        for (uid, (name, labels)) in &desired.wanted {
            let changes = self.changes(uid, labels);
            if changes.is_empty() {
                // A write whose answer was lost may have done it.
                self.writes.succeeded(uid);
                self.standing.insert(uid.clone());
            } else {
                self.write(uid, name, changes, now, out);
            }
        }
        self.listed |= listed || self.swept;
        let left = |uid: &&Uid| {
            let kept = || self.seen.get(*uid).is_some_and(|(_, labels)| desired.keeps(uid, labels));
            self.listed && !desired.wanted.contains_key(*uid) && !kept()
        };
        let leaves = |labels: &NodeLabels| labels.address().is_some_and(|ip| desired.leaving.contains(&ip));
        let leaving = self.seen.iter().filter(|(_, (_, labels))| leaves(labels)).map(|(uid, _)| uid);
        let left: BTreeSet<Uid> = self.standing.iter().chain(leaving).filter(left).cloned().collect();
        for uid in left {
            let changes = self.changes(&uid, &Labels::new());
            let name = self.seen.get(&uid).map(|seen| seen.0.clone());
            if let Some(name) = name.filter(|_| !changes.is_empty()) {
                self.write(&uid, &name, changes, now, out);
            } else if !self.writes.is_under_way(&uid) {
                // Someone else has removed or replaced them already.
                self.standing.remove(&uid);
            }
        }
    }

    fn changes(&self, uid: &Uid, wanted: &Labels) -> LabelChanges {
        self.seen
            .get(uid)
            .map_or_else(|| NodeLabels::default().changes_to(wanted), |(_, labels)| labels.changes_to(wanted))
    }

    fn write(
        &mut self,
        uid: &Uid,
        name: &str,
        changes: LabelChanges,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        if self.writes.begin(uid, now, out) {
            out.act(Action::Label { node: name.to_owned(), uid: uid.clone(), changes });
        }
    }

    /// Takes in the answer to a write.
    pub(super) fn written(
        &mut self,
        node: String,
        uid: Uid,
        changes: &LabelChanges,
        result: Result<(), WriteFailure>,
        at: Context,
    ) {
        self.writes.end(&uid);
        match result {
            Ok(()) => {
                self.writes.succeeded(&uid);
                let (_, labels) = self.seen.entry(uid.clone()).or_insert((node, NodeLabels::default()));
                labels.apply(changes);
                if labels.any_ours() {
                    self.standing.insert(uid);
                } else {
                    self.standing.remove(&uid);
                }
            }
            Err(WriteFailure::Gone) => {
                // The node is gone, or another node has its name. So this one has no label of ours.
                self.standing.remove(&uid);
                self.seen.remove(&uid);
                if changes.values().any(Option::is_some) {
                    self.writes.failed(uid, &WriteFailure::Conflict, at);
                } else {
                    self.writes.succeeded(&uid);
                }
            }
            Err(WriteFailure::NotSent) => {}
            Err(failure) => self.writes.failed(uid, &failure, at),
        }
    }

    /// Takes in the result of a sweep. From now on FLIPOP may remove the labels of ours that it found.
    pub(super) fn swept(&mut self, nodes: &[MarkedNode]) {
        self.swept = true;
        for MarkedNode { name, uid, labels, .. } in nodes.iter().filter(|node| !node.labels.is_empty()) {
            self.seen.insert(uid.clone(), (name.clone(), labels.clone()));
            if labels.any_ours() {
                self.standing.insert(uid.clone());
            }
        }
    }
}
