//! The annotations and labels that pools ask for: which node should name which address.
//!
//! Each pool's part is kept, so that a plan makes only those of its own pools again.

use super::Fleet;
use super::annotations::Desired;
use super::labels::DesiredLabels;
use crate::addresses::account::Account;
use crate::addresses::pool::candidates::Candidate;
use crate::model::{Address, Criteria, ObjectRef, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// The annotations and labels that pools ask for.
#[derive(Debug, Default)]
pub(super) struct Intended {
    by_pool: BTreeMap<Uid, (Desired, DesiredLabels)>,
    /// The annotations of all pools together.
    all: Desired,
    /// The labels of all pools together.
    labels: DesiredLabels,
    /// How many nodes the parts name, a node of two parts twice.
    named: usize,
    /// The parts have changed in more than the nodes that one of them names.
    stale: bool,
    /// Pools about which too little is known to sweep for annotations that are left over.
    unread: BTreeSet<Uid>,
    /// Nodes for which something has changed since the last review. `None`: every node.
    changed: Option<BTreeSet<Uid>>,
}

impl Intended {
    /// The annotations that all pools together ask for.
    pub(super) const fn desired(&self) -> &Desired {
        &self.all
    }

    /// The labels that all pools together ask for.
    pub(super) const fn labels(&self) -> &DesiredLabels {
        &self.labels
    }

    /// Whether enough is known of every pool to sweep for annotations that are left over.
    pub(super) fn all_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// Forgets all other pools.
    fn keep(&mut self, is_kept: impl Fn(&Uid) -> bool) {
        self.unread.retain(&is_kept);
        let gone: Vec<Uid> = self.by_pool.keys().filter(|uid| !is_kept(uid)).cloned().collect();
        for uid in gone {
            self.replace(&uid, Desired::default(), DesiredLabels::default(), true);
            self.by_pool.remove(&uid);
        }
    }

    /// Replaces the part of a pool.
    fn replace(&mut self, uid: &Uid, desired: Desired, labels: DesiredLabels, read: bool) {
        if read {
            self.unread.remove(uid);
        } else {
            self.unread.insert(uid.clone());
        }
        let part = (desired, labels);
        let known = self.by_pool.get(uid);
        if known == Some(&part) || (known.is_none() && part == Default::default()) {
            return;
        }
        let (old, old_labels) = self.by_pool.insert(uid.clone(), part.clone()).unwrap_or_default();
        let (desired, labels) = part;
        self.stale |= old_labels.keeps_any() || labels.keeps_any();
        let labelled = self.labels.replace(&old_labels, labels);
        if let Some(changed) = &mut self.changed {
            changed.extend(old.confirmed.keys().chain(desired.confirmed.keys()).cloned());
            changed.extend(labelled);
        }
        // Where two parts name one node, taking one of them away would take the other's away too.
        self.stale |= self.named != self.all.confirmed.len();
        self.stale |= !(old.is_only_confirmed() && desired.is_only_confirmed());
        self.named = self.named - old.confirmed.len() + desired.confirmed.len();
        for node in old.confirmed.keys() {
            self.all.confirmed.remove(node);
        }
        self.all.confirmed.extend(desired.confirmed);
        self.stale |= self.named != self.all.confirmed.len();
    }

    /// Ends a review. Returns the nodes for which something has changed, or `None` for every node.
    fn end_review(&mut self) -> Option<BTreeSet<Uid>> {
        if std::mem::take(&mut self.stale) {
            (self.all, self.labels) = (Desired::default(), DesiredLabels::default());
            for (desired, labels) in self.by_pool.values().cloned() {
                self.all.extend(desired);
                self.labels.extend(labels);
            }
            self.changed = None;
        }
        self.changed.replace(BTreeSet::new())
    }
}

impl Fleet {
    /// Looks again at the annotations and labels that the pools of this plan ask for.
    pub(super) fn review_intended(&mut self, owners: &BTreeMap<Address, ObjectRef>) {
        if self.looks_at_all() {
            let pools = &self.pools;
            self.intended.keep(|uid| pools.contains_key(uid));
        }
        self.intended.stale |= self.settings.thorough;
        let due = self.attention.due.iter().filter_map(|uid| self.pools.get(uid));
        for pool in due.clone().filter(|pool| !pool.deleting) {
            let account = self.accounts.get(&pool.spec.account_id);
            let known = account.is_some_and(Account::is_known);
            let read = (known || pool.spec.is_frozen()) && !pool.is_unread();
            let watch = pool.spec.criteria.as_ref().map(Criteria::node_watch);
            let watched = watch.and_then(|watch| self.watched.nodes(watch));
            // A candidate from before a gap in the leadership may be another node by now.
            let seen = self.matched_once.contains(&pool.object.uid);
            let still = pool.pause.holds();
            let mut one = Desired::default();
            let mut here = BTreeSet::new();
            // A node that matches again while its address moves elsewhere would have the annotation only for a moment.
            let placements = pool.report.placements.iter();
            for (ip, node) in placements.filter_map(|(ip, placement)| Some((ip, placement.node()?))) {
                let frozen = pool.spec.is_frozen();
                let owned = owners.get(ip).map_or(frozen, |owner| owner.uid == pool.object.uid);
                // A frozen pool does not look at its nodes again, and another node may have the name by now.
                let shown = watched.and_then(|nodes| nodes.get(node));
                let stands =
                    |candidate: &&Candidate| shown.is_some_and(|node| node.uid == candidate.node.uid);
                let due = |uid: &Uid| !still || pool.pause.finishes_on(*ip, uid);
                let candidate = pool.candidates.get(node).filter(|_| owned && seen);
                let candidate = candidate.filter(|candidate| due(&candidate.node.uid));
                if let Some(candidate) = candidate.filter(stands) {
                    one.confirmed.insert(candidate.node.uid.clone(), (node.to_owned(), *ip));
                    here.insert(*ip);
                }
            }
            if still {
                let ours = |ip: &Address| owners.get(ip).is_none_or(|owner| owner.uid == pool.object.uid);
                one.protected.extend(pool.kept_still(known).into_iter().filter(ours));
            } else if !pool.nodes.matched || pool.spec.is_frozen() {
                // An address that is known to be on one node is on no other.
                let stays = |ip: &&Address| !pool.has_left(**ip) && !here.contains(*ip);
                one.protected.extend(pool.effective().iter().chain(pool.effective_before()).filter(stays));
            } else if !known {
                let nodes = pool.candidates.iter().map(|(_, candidate)| candidate.node.uid.clone()).collect();
                one.unconfirmed.push((nodes, pool.effective().into_iter().collect()));
            }
            one.protected.extend(pool.annotated_still());
            let labels = DesiredLabels::of_pool(pool, &one, known);
            self.intended.replace(&pool.object.uid, one, labels, read);
        }
        for pool in due.filter(|pool| pool.deleting) {
            let protected = if pool.is_going() { pool.annotated_still() } else { BTreeSet::new() };
            let kept = Desired { protected, ..Desired::default() };
            let labels = DesiredLabels::of_deleted(&kept);
            self.intended.replace(&pool.object.uid, kept, labels, true);
        }
        let changed = self.intended.end_review();
        self.annotations.look_at(changed.clone());
        self.labels.look_at(changed);
    }
}
