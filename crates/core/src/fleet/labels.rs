//! The labels of nodes: those of `spec.nodeLabels`.
//!
//! Invariants: a node has labels that name an address only where the annotation may be. Labels of other field managers
//! stay, unless a pool confirms its own address there. One write per node is under way at a time. Labels have separate
//! writes, so that a policy that refuses them does not block annotations.

use super::action::{Action, MarkedNode};
use super::annotations::Desired;
use super::node_writes::NodeWrites;
use crate::addresses::pool::Pool;
use crate::mechanism::Effects;
use crate::model::label_mode::LabelMode;
use crate::model::node_labels::{LabelChanges, Labels, NodeLabels};
use crate::model::{Address, Context, Moment, NodeFacts, Observed, Uid, WriteFailure};
use std::collections::{BTreeMap, BTreeSet};

/// The labels that nodes should have, for one pool or for all pools together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DesiredLabels {
    /// By the uids of the node and of the pool: the node's name, and its labels with this address.
    wanted: BTreeMap<(Uid, Uid), (String, LabelMode, Address)>,
    /// The addresses whose labels stay, for pools with labels only. Its `confirmed` is not used.
    kept: Desired,
    /// Nodes whose labels without an address stay, because too little is known about a pool that matches them.
    kept_nodes: BTreeSet<Uid>,
    /// For some pool it is unknown which nodes it matches.
    unread: bool,
    /// Addresses that are about to move, each with its pool. The labels that name them are removed from every node.
    leaving: BTreeSet<(Address, Uid)>,
    /// Nodes that get a label if they have no address: the name by the uids of the node and of the pool.
    matching: BTreeMap<(Uid, Uid), String>,
}

impl DesiredLabels {
    /// The labels for a pool. `desired` are its annotations. `known` says that its account is known.
    pub(super) fn of_pool(pool: &Pool, desired: &Desired, known: bool) -> Self {
        let mode = pool.spec.labels;
        if mode == LabelMode::Off {
            return Self::default();
        }
        let here = |uid: &Uid| (uid.clone(), pool.object.uid.clone());
        let confirmed = desired.confirmed.iter().filter(|(_, (_, ip))| !pool.is_unlabelling(*ip));
        let mut labels = Self {
            wanted: confirmed.map(|(uid, (node, ip))| (here(uid), (node.clone(), mode, *ip))).collect(),
            kept: Desired { confirmed: BTreeMap::new(), ..desired.clone() },
            leaving: pool.unlabelling().map(|ip| (ip, pool.object.uid.clone())).collect(),
            ..Self::default()
        };
        if mode != LabelMode::Legacy {
            return labels;
        }
        let candidates = pool.candidates.iter().map(|(name, candidate)| (&candidate.node.uid, name));
        if pool.nodes.matched && pool.may_begin() && known {
            labels.matching = candidates.map(|(uid, name)| (here(uid), name.to_string())).collect();
        } else {
            labels.unread = !pool.nodes.matched;
            labels.kept_nodes = candidates.map(|(uid, _)| uid.clone()).collect();
        }
        labels
    }

    /// The labels for a pool that is being deleted.
    pub(super) fn of_deleted(kept: &Desired) -> Self {
        Self { kept: kept.clone(), ..Self::default() }
    }

    /// Whether all labels stay that it does not name.
    pub(super) fn keeps_any(&self) -> bool {
        self.unread || !self.kept_nodes.is_empty() || self.kept != Desired::default()
    }

    /// Adds the labels for another pool.
    pub(super) fn extend(&mut self, other: Self) {
        let Self { wanted, kept, kept_nodes, unread, leaving, matching } = other;
        self.wanted.extend(wanted);
        self.kept.extend(kept);
        self.kept_nodes.extend(kept_nodes);
        self.unread |= unread;
        self.leaving.extend(leaving);
        self.matching.extend(matching);
    }

    /// Replaces the labels for a pool. What stays because of it is not taken away. Returns the nodes whose labels may
    /// be others now.
    pub(super) fn replace(&mut self, old: &Self, new: Self) -> BTreeSet<Uid> {
        let differ = |one: &Self, two: &Self| -> BTreeSet<Uid> {
            let wanted = one.wanted.iter().filter(|(key, wanted)| two.wanted.get(*key) != Some(*wanted));
            let matching = one.matching.keys().filter(|key| !two.matching.contains_key(*key));
            wanted.map(|(key, _)| key).chain(matching).map(|(node, _)| node.clone()).collect()
        };
        let changed = differ(old, &new).into_iter().chain(differ(&new, old)).collect();
        old.wanted.keys().for_each(|key| drop(self.wanted.remove(key)));
        self.leaving.retain(|key| !old.leaving.contains(key));
        old.matching.keys().for_each(|key| drop(self.matching.remove(key)));
        self.extend(new);
        changed
    }

    /// The labels of a node. A node without any address may get one that says so. `desired` are the annotations.
    fn of_node(&self, uid: &Uid, desired: &Desired) -> Option<(&str, Labels)> {
        let from = (uid.clone(), Uid::default());
        let wanted = self.wanted.range(from.clone()..).take_while(|((node, _), _)| node == uid).last();
        if let Some((_, (name, mode, ip))) = wanted {
            return Some((name, mode.labels(Some(*ip))));
        }
        let ((node, _), name) = self.matching.range(from..).next()?;
        let bare = node == uid && !desired.confirmed.contains_key(uid);
        bare.then(|| (name.as_str(), LabelMode::Legacy.labels(None)))
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
    /// The addresses that these labels name.
    naming: BTreeSet<(Address, Uid)>,
    changed: bool,
    /// Nodes that may have labels of ours, which FLIPOP may remove.
    standing: BTreeSet<Uid>,
    writes: NodeWrites<LabelChanges>,
    /// The addresses that were about to move at the last plan.
    left: BTreeSet<Address>,
    /// A sweep has ended since leadership began.
    swept: bool,
    /// At least some nodes were read since leadership began.
    listed: bool,
}

impl NodeLabelling {
    /// Starts again when leadership begins.
    pub(super) fn restart(&mut self) {
        (self.swept, self.listed) = (false, false);
        self.look_at(None);
    }

    /// Has the next plan look at these nodes, or at every node (`None`).
    pub(super) fn look_at(&mut self, nodes: Option<BTreeSet<Uid>>) {
        self.writes.look_at(nodes);
    }

    /// Why a wanted label is refused, if one is.
    pub(super) fn denied(&self) -> Option<&str> {
        self.writes.denied()
    }

    /// The nodes whose labels of ours name an address. Those whose last write failed are left out, because the removal
    /// may take long.
    pub(super) fn naming(&self, ip: Address) -> impl Iterator<Item = (&Uid, &str)> {
        let named = self.naming.range((ip, Uid::default())..).take_while(move |(named, _)| *named == ip);
        // A new leader may move addresses before its sweep has found the labels of its predecessor.
        let ours = named.map(|(_, uid)| uid).filter(|uid| !self.swept || self.standing.contains(*uid));
        let writable = ours.filter(|uid| !self.writes.has_failed(uid));
        writable.filter_map(|uid| Some((uid, self.seen.get(uid)?.0.as_str())))
    }

    /// Takes in a step of a watch of nodes. `of_pool` says that a pool uses the watch.
    pub(super) fn observe(&mut self, observed: &Observed<NodeFacts>, of_pool: bool) {
        match observed {
            Observed::Reset(nodes) => nodes.iter().for_each(|node| self.see(node, of_pool)),
            Observed::Apply(node) => self.see(node, of_pool),
            // The node may only have left the filter. Its labels are then removed as last seen.
            Observed::Delete(node) if self.standing.contains(&node.uid) => self.changed = true,
            Observed::Delete(node) => self.know(&node.uid, None),
        }
    }

    fn see(&mut self, node: &NodeFacts, of_pool: bool) {
        if node.labels.is_empty() && !self.seen.contains_key(&node.uid) {
            return;
        }
        // Events may come late. Before the first sweep too little is known to call a label left over.
        let late = of_pool && self.swept && node.labels.any_ours() && !self.writes.is_under_way(&node.uid);
        let ours = late && self.standing.insert(node.uid.clone());
        let known = self
            .seen
            .get(&node.uid)
            .is_some_and(|(name, labels)| (name, labels) == (&node.name, &node.labels));
        if ours || !known {
            self.changed = true;
            self.know(&node.uid, Some((node.name.clone(), node.labels.clone())));
        }
    }

    /// Finds out again which addresses the labels name.
    pub(super) fn find_naming(&mut self) {
        let named =
            |(uid, (_, labels)): (&Uid, &(String, NodeLabels))| Some((labels.address()?, uid.clone()));
        self.naming = self.seen.iter().filter_map(named).collect();
    }

    /// Notes the labels of a node.
    fn know(&mut self, uid: &Uid, seen: Option<(String, NodeLabels)>) {
        self.writes.look_at_one(uid);
        let named = |seen: &(String, NodeLabels)| Some((seen.1.address()?, uid.clone()));
        let now = seen.as_ref().and_then(named);
        let before = match seen {
            Some(seen) => self.seen.insert(uid.clone(), seen),
            None => self.seen.remove(uid),
        };
        before.as_ref().and_then(named).map(|key| self.naming.remove(&key));
        self.naming.extend(now);
    }

    /// Whether a label changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Decides on writes. `desired` are the annotations. `listed` says that nodes of some pool were read.
    pub(super) fn plan(
        &mut self,
        (labels, desired): (&DesiredLabels, &Desired),
        listed: bool,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let (standing, seen, naming) = (&self.standing, &self.seen, &self.naming);
        self.writes.keep_failures(|uid| standing.contains(uid) || labels.of_node(uid, desired).is_some());
        self.listed |= listed || self.swept;
        let leaving = labels.leaving.iter().map(|(ip, _)| *ip).collect();
        for ip in std::mem::replace(&mut self.left, leaving).symmetric_difference(&self.left) {
            let here = naming.range((*ip, Uid::default())..).take_while(|(named, _)| named == ip);
            here.for_each(|(_, uid)| self.writes.look_at_one(uid));
        }
        let wanted = labels.wanted.keys().chain(labels.matching.keys()).map(|(node, _)| node);
        let all = || wanted.chain(standing).chain(seen.keys()).cloned().collect();
        for uid in self.writes.take_due(all) {
            match labels.of_node(&uid, desired) {
                Some((name, wanted)) => self.look_at_wanted(uid, name, &wanted),
                None => self.look_at_left(uid, labels),
            }
        }
        let action = |node, uid, changes| Action::Label { node, uid, changes };
        self.writes.begin_waiting(now, out, action);
    }

    fn look_at_wanted(&mut self, uid: Uid, name: &str, wanted: &Labels) {
        let changes = self.changes(&uid, wanted);
        if changes.is_empty() {
            // A write whose answer was lost may have done it.
            self.writes.succeeded(&uid);
            self.standing.insert(uid);
        } else {
            self.writes.wait(uid, false, (name.to_owned(), changes));
        }
    }

    fn look_at_left(&mut self, uid: Uid, desired: &DesiredLabels) {
        let seen = self.seen.get(&uid);
        let leaves =
            |(_, labels): &(String, NodeLabels)| labels.address().is_some_and(|ip| self.left.contains(&ip));
        if !self.standing.contains(&uid) && !seen.is_some_and(leaves) {
            return;
        }
        if !self.listed || seen.is_some_and(|(_, labels)| desired.keeps(&uid, labels)) {
            self.writes.look_at_one(&uid);
            return;
        }
        let name = seen.map(|(name, _)| name.clone());
        let changes = self.changes(&uid, &Labels::new());
        if let Some(name) = name.filter(|_| !changes.is_empty()) {
            self.writes.wait(uid, true, (name, changes));
        } else if !self.writes.is_under_way(&uid) {
            // Someone else has removed or replaced them already.
            self.standing.remove(&uid);
        }
    }

    fn changes(&self, uid: &Uid, wanted: &Labels) -> LabelChanges {
        self.seen
            .get(uid)
            .map_or_else(|| NodeLabels::default().changes_to(wanted), |(_, labels)| labels.changes_to(wanted))
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
                let mut seen = self.seen.get(&uid).cloned().unwrap_or((node, NodeLabels::default()));
                seen.1.apply(changes);
                if seen.1.any_ours() {
                    self.standing.insert(uid.clone());
                } else {
                    self.standing.remove(&uid);
                }
                self.know(&uid, Some(seen));
            }
            Err(WriteFailure::Gone) => {
                // The node is gone, or another node has its name. So this one has no label of ours.
                self.standing.remove(&uid);
                self.know(&uid, None);
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
        self.look_at(None);
        for MarkedNode { name, uid, labels, .. } in nodes.iter().filter(|node| !node.labels.is_empty()) {
            self.know(uid, Some((name.clone(), labels.clone())));
            if labels.any_ours() {
                self.standing.insert(uid.clone());
            }
        }
    }
}
