//! How a pool or a record set follows its nodes: which of them match, which keep their match although they fail, and
//! the findings of the checks on them.
//!
//! Invariant: a check never removes the last matching node. While every node is dead, checks do not count.

use super::effects::Notice;
use super::suspects::{Ended, Look, Membership, Suspects};
use super::suspicion::{Clocks, Suspicion};
use crate::model::catalog::events::EventReason;
use crate::model::spec::Grace;
use crate::model::survey::Explanation;
use crate::model::words::enumerate;
use crate::model::{
    Condition, Criteria, Mismatch, Moment, NodeCheck, NodeFacts, NodeStore, Owner, PodStore, Uid, verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The nodes and pods that an object's watches show.
pub type Stores<'a> = (&'a NodeStore, Option<&'a PodStore>);

/// The nodes of one object that the checks give a finding on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedNodes {
    /// Nodes that are dead, by name, and why they no longer match.
    pub dead: BTreeMap<String, (Uid, Mismatch)>,
    /// Nodes that are chosen only if no node that answers is left.
    pub deprioritized: BTreeSet<Uid>,
    /// Nodes that have shown no sign of life yet.
    pub unproven: BTreeSet<Uid>,
    /// The condition about failures that are not believed.
    pub doubted: Option<Condition>,
}

impl CheckedNodes {
    /// Why the node no longer matches, if it is dead.
    fn why_dead(&self, name: &str, uid: &Uid) -> Option<&Mismatch> {
        self.dead.get(name).filter(|(dead, _)| dead == uid).map(|(_, why)| why)
    }

    /// The nodes that are dead in only one of the two, or for another reason.
    pub fn differ(&self, other: &Self) -> BTreeSet<String> {
        let only = |one: &Self, two: &Self| -> Vec<String> {
            let gone = one.dead.iter().filter(|(name, dead)| two.dead.get(*name) != Some(dead));
            gone.map(|(name, _)| name.clone()).collect()
        };
        only(self, other).into_iter().chain(only(other, self)).collect()
    }
}

/// The knowledge of a pool or a record set about its nodes.
#[derive(Debug, Default)]
pub struct FollowedNodes {
    /// The nodes and pods of the object are completely known.
    pub matched: bool,
    /// The criteria were edited since the last look, so that a node may have lost its match without changing.
    pub edited: bool,
    /// Nodes that fail and keep their match for a while, or are recovering.
    pub suspects: Suspects,
    /// The findings of the checks.
    pub checked: CheckedNodes,
    /// Why no node matches.
    pub no_match: Explanation,
}

impl FollowedNodes {
    /// Drops earlier knowledge, because leadership begins.
    pub fn distrust(&mut self) {
        self.matched = false;
        self.edited = false;
        self.suspects.distrust();
        self.checked = CheckedNodes::default();
    }

    /// Notes other criteria. The first valid ones are not an edit.
    pub fn criteria_changed(&mut self, before: Option<&Criteria>) {
        self.edited |= before.is_some();
        self.no_match.forget();
    }

    /// Whether every node is known and none fails. The order of nodes does not matter while no address moves.
    pub fn is_at_rest(&self) -> bool {
        // News of an unproven node concerns the object at once.
        let CheckedNodes { dead, deprioritized: _, unproven: _, doubted } = &self.checked;
        let well = dead.is_empty() && doubted.is_none();
        self.matched && !self.edited && self.suspects.is_empty() && well
    }
}

/// An object that follows the nodes that match its criteria, its members.
pub trait Follower {
    /// The object.
    fn owner(&self) -> Owner;
    /// The criteria, if any were valid so far.
    fn criteria(&self) -> Option<&Criteria>;
    /// The grace of its nodes.
    fn grace(&self) -> Grace;
    /// The check of its nodes.
    fn node_check(&self) -> Option<NodeCheck>;
    /// Whether it acts at all.
    fn is_live(&self) -> bool;
    /// Whether the spec is sound enough to look at nodes.
    fn can_match(&self) -> bool;
    /// Its knowledge about its nodes.
    fn nodes(&self) -> &FollowedNodes;
    /// The same.
    fn nodes_mut(&mut self) -> &mut FollowedNodes;
    /// The members, each with whether it serves.
    fn members(&self) -> Box<dyn Iterator<Item = (&str, &Uid, bool)> + '_>;
    /// The uid and the provider ID of a member.
    fn member(&self, name: &str) -> Option<(&Uid, &str)>;
    /// Whether the status says that the node serves: `Some`, with the start of the suspicion if the status has one.
    fn serves_by_status(&self, node: &NodeFacts) -> Option<Option<i64>>;
    /// Takes in a matching node, which may be a member already. Returns true if something has changed.
    fn admit(&mut self, node: &Arc<NodeFacts>, member: bool, clocks: Clocks) -> bool;
    /// Removes a node. Returns true if it was a member.
    fn remove(&mut self, name: &str, why: Mismatch, now: Moment) -> bool;
    /// The consequence of the end of the node's grace, for users.
    fn consequence(&self, node: &str) -> String;
    /// The behavior of a node that matches again, for users.
    fn outcome(&self) -> &'static str;
    /// Notes that the members have changed.
    fn note_changed(&mut self, _now: Moment) {}
    /// Forgets the failures of nodes that are gone.
    fn forget_gone(&mut self, nodes: &NodeStore, now: Moment) {
        self.nodes_mut().suspects.keep(nodes, now);
    }

    /// Whether it acts, and knows its nodes and pods completely.
    fn is_following(&self) -> bool {
        self.is_live() && self.nodes().matched
    }

    /// Looks at some nodes again, or at all of them (`None`). Returns true if a plan is due because of that.
    fn rematch(
        &mut self,
        touched: Option<&BTreeSet<String>>,
        (nodes, pods): Stores<'_>,
        clocks: Clocks,
    ) -> bool {
        let complete = nodes.is_complete() && pods.is_none_or(PodStore::is_complete);
        let known = self.nodes().matched;
        let changed = if complete && self.can_match() {
            let touched = touched.filter(|_| known);
            let all: BTreeSet<String> = if touched.is_none() {
                let members = self.members().map(|(name, ..)| name.to_owned());
                nodes.iter().map(|node| node.name.clone()).chain(members).collect()
            } else {
                BTreeSet::new()
            };
            self.nodes_mut().matched = true;
            let (mut changed, mut gone) = (!known, touched.is_none());
            for name in touched.unwrap_or(&all) {
                let node = nodes.shared(name);
                gone |= node.is_none();
                changed |= self.rematch_one(name, node, pods, clocks);
            }
            if gone {
                self.forget_gone(nodes, clocks.now);
            }
            self.nodes_mut().edited = false;
            changed
        } else {
            self.nodes_mut().matched = known && complete;
            known && !complete
        };
        if changed {
            self.note_changed(clocks.now);
        }
        changed | self.nodes_mut().suspects.take_touched()
    }

    /// Looks at one node again. Returns true if something has changed.
    fn rematch_one(
        &mut self,
        name: &str,
        node: Option<&Arc<NodeFacts>>,
        pods: Option<&PodStore>,
        clocks: Clocks,
    ) -> bool {
        let (grace, known) = (self.grace(), self.member(name));
        let member = node.is_some_and(|node| known == Some((&node.uid, node.provider_id.as_str())));
        let Some(node) = node else {
            let uid = known.map(|(uid, _)| uid.clone());
            let suspects = &mut self.nodes_mut().suspects;
            suspects.gone(name, clocks.now);
            suspects.unseen(name, uid.as_ref(), &grace, clocks.now);
            return self.lose(name, Mismatch::Gone, clocks.now);
        };
        if !member {
            self.nodes_mut().suspects.gone(name, clocks.now);
        }
        let Some(criteria) = self.criteria() else { return false };
        let verdict = verdict(criteria, node, pods).and_then(|()| self.check(node));
        let serves_by_status = verdict.as_ref().err().and_then(|_| self.serves_by_status(node));
        let look = Look { node, verdict, member, serves_by_status, edited: self.nodes().edited };
        match self.nodes_mut().suspects.look(look, &grace, clocks) {
            Membership::Member => self.admit(node, member, clocks),
            Membership::Recovering => self.lose(name, Mismatch::Replaced, clocks.now),
            Membership::Out(why) => self.lose(name, why, clocks.now),
        }
    }

    /// Removes a node that no longer matches. Returns true if it did before.
    fn lose(&mut self, name: &str, why: Mismatch, now: Moment) -> bool {
        let why = if self.nodes().edited { Mismatch::Edited } else { why };
        self.remove(name, why, now)
    }

    /// Drops the match of failing nodes that serve nothing, and of those whose grace is over.
    fn settle_suspects(&mut self, serving: &BTreeSet<String>, now: Moment) {
        let grace = self.grace();
        for (name, why) in self.nodes_mut().suspects.settle(serving, &grace, now) {
            if self.lose(&name, why, now) {
                self.note_changed(now);
            }
        }
    }

    /// The nodes that have recovered for long enough to count again, and when the next one is due. A node that is
    /// still in its place counts at once. So does every node while none matches.
    fn recovered(&mut self, in_place: &BTreeSet<String>, now: Moment) -> (BTreeSet<String>, Option<Moment>) {
        let (none_matches, grace) = (self.members().next().is_none(), self.grace());
        let at_once = |node: &str| none_matches || in_place.contains(node);
        self.nodes_mut().suspects.recovered(at_once, &grace, now)
    }

    /// The condition about nodes that fail and keep their match for now.
    fn suspect_condition(&self) -> Option<Condition> {
        let reported: Vec<(&String, &Suspicion)> = self.nodes().suspects.reported().collect();
        let (_, first) = reported.first()?;
        let texts = reported.iter().map(|(node, suspicion)| self.suspicion_text(node, suspicion));
        Some(Condition::new(first.finding(), enumerate(texts)))
    }

    /// The text for users about a node that fails.
    fn suspicion_text(&self, node: &str, suspicion: &Suspicion) -> String {
        suspicion.text(node, &self.consequence(node), &self.grace())
    }

    /// The Events of suspicions that are due to be reported now, and when the next one is.
    fn tell_suspicions(&mut self, now: Moment) -> (Vec<Notice>, Option<Moment>) {
        let (due, later) = self.nodes_mut().suspects.tell(now);
        let owner = self.owner();
        let notice = |(node, suspicion): &(String, Suspicion)| {
            let text = self.suspicion_text(node, suspicion);
            Notice::on(&owner, true, EventReason::FailoverDelayed, node, text)
        };
        (due.iter().map(notice).collect(), later)
    }

    /// The Event of a suspicion that ended, if it was reported and the node keeps its match.
    fn tell_avoided(&self, ended: &Ended) -> Option<Notice> {
        let text = ended.avoided(self.outcome())?;
        Some(Notice::on(&self.owner(), false, EventReason::FailoverAvoided, &ended.node, text))
    }

    /// Whether a node that matches is dead, and another one could take over.
    ///
    /// # Errors
    /// Why it no longer matches.
    fn check(&self, node: &NodeFacts) -> Result<(), Mismatch> {
        let FollowedNodes { checked, suspects, .. } = self.nodes();
        let is_spare = |(name, uid, _): (&str, &Uid, bool)| {
            name != node.name && checked.why_dead(name, uid).is_none() && suspects.of(name).is_none()
        };
        match checked.why_dead(&node.name, &node.uid) {
            Some(why) if self.members().any(is_spare) => Err(why.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// The nodes that are checked, each with whether it serves.
    fn checks(&self) -> Box<dyn Iterator<Item = (&str, &Uid, bool)> + '_> {
        let dead = self.nodes().checked.dead.iter().filter(|(name, _)| self.member(name).is_none());
        Box::new(self.members().chain(dead.map(|(name, (uid, _))| (name.as_str(), uid, false))))
    }
}
