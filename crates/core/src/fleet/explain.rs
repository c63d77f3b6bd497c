//! Texts about why no node matches and which addresses are idle. They take many nodes into account, so they are
//! renewed only once a minute. The list of the nodes that do not match is made on demand, for people who look at the
//! state of the process.

use super::action::Action;
use super::{Fleet, stores};
use crate::mechanism::effects::Effects;
use crate::model::facts::NodeFacts;
use crate::model::fault::WriteFailure;
use crate::model::ids::ObjectName;
use crate::model::matching::{Criteria, verdict};
use crate::model::mismatch::Mismatch;
use crate::model::moment::Moment;
use crate::model::selector::Selector;
use crate::model::survey::{Explanation, RENEWED_AFTER_MS, survey};
use std::collections::BTreeMap;

/// The number of nodes in the cluster. Fetched only while an object's label selects none of them.
#[derive(Debug, Default)]
pub(super) struct Census {
    nodes: Option<u64>,
    asked: Option<Moment>,
    under_way: bool,
}

impl Census {
    /// Whether to count the nodes now. Otherwise returns when.
    fn due(&mut self, now: Moment) -> Result<(), Option<Moment>> {
        if self.under_way {
            return Err(None);
        }
        match self.asked.map(|at| at.plus_millis(RENEWED_AFTER_MS)).filter(|at| *at > now) {
            Some(at) => Err(Some(at)),
            None => Ok(()),
        }
    }
}

impl Fleet {
    /// Renews the texts that are due.
    pub(super) fn explain(&mut self, now: Moment, out: &mut Effects<Action>) {
        let (nodes, pods) = (&self.nodes, &self.pods);
        let stores = |criteria: &Criteria| stores::of(nodes, pods, criteria);
        let in_cluster = self.census.nodes;
        let (mut unlabelled, mut stirred) = (false, Vec::new());
        let mut explain = |explanation: &mut Explanation, criteria: &Criteria, out: &mut Effects<Action>| {
            let (nodes, pods) = stores(criteria);
            let selects_none = nodes.iter().next().is_none() && criteria.node_selector != Selector::default();
            unlabelled |= selects_none;
            let counted = in_cluster.filter(|_| selects_none);
            let later = explanation.renew(counted, now, || survey(criteria, nodes, pods, counted));
            out.later(Some(later));
        };
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid).filter(|pool| pool.is_live() && pool.matched) else {
                continue;
            };
            let Some(criteria) = pool.spec.criteria.clone() else { continue };
            let before = out.additions();
            if pool.candidates.is_empty() {
                explain(&mut pool.no_match, &criteria, out);
            } else {
                pool.no_match.forget();
            }
            if let Some(account) =
                self.accounts.get(&pool.spec.account_id).filter(|account| account.is_known())
            {
                let (nodes, pods) = stores(&criteria);
                out.later(pool.note_idle(account, nodes, pods, now));
            }
            if out.additions() != before {
                stirred.push(uid.clone());
            }
        }
        for uid in &self.attention.due {
            let Some(set) = self.record_sets.get_mut(uid).filter(|set| !set.deleting && set.matched) else {
                continue;
            };
            let Some(criteria) = set.spec.criteria.clone() else { continue };
            if set.has_nodes() {
                set.no_match.forget();
            } else {
                explain(&mut set.no_match, &criteria, out);
                stirred.push(uid.clone());
            }
        }
        for uid in &stirred {
            self.attention.stirs(uid);
        }
        if !unlabelled {
            self.census.nodes = None;
            return;
        }
        match self.census.due(now) {
            Ok(()) => {
                self.census.under_way = true;
                self.census.asked = Some(now);
                out.act(Action::CountNodes);
            }
            Err(at) => out.later(at),
        }
    }

    /// Takes in the number of the cluster's nodes. Texts based on another number are renewed.
    pub(super) fn nodes_counted(&mut self, result: &Result<u64, WriteFailure>) {
        self.census.under_way = false;
        let Ok(count) = result else { return };
        self.dirty |= self.census.nodes.replace(*count) != Some(*count);
    }
}

/// The most nodes that are named for each reason. The others are counted.
const MAX_NAMED: usize = 20;

/// Nodes that do not match, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason, as the predicate of a sentence about a node.
    pub reason: String,
    /// The number of nodes.
    pub count: usize,
    /// The names of the first ones.
    pub nodes: Vec<String>,
}

/// The nodes that have the labels of an object and do not match it.
pub type NodesLeftOut = BTreeMap<ObjectName, Vec<LeftOut>>;

impl Fleet {
    /// The nodes that pools leave out, and those that record sets leave out.
    pub fn left_out(&self) -> (NodesLeftOut, NodesLeftOut) {
        let of = |criteria: Option<&Criteria>, check: &dyn Fn(&NodeFacts) -> Result<(), Mismatch>| {
            criteria.map(|criteria| self.left_out_by(criteria, check)).unwrap_or_default()
        };
        let pools = self.pools.values().filter(|pool| !pool.deleting);
        let pools = pools.map(|pool| {
            let left = of(pool.spec.criteria.as_ref(), &|node| pool.check(node));
            (pool.object.name.clone(), left)
        });
        let sets = self.record_sets.values().filter(|set| !set.deleting);
        let sets = sets.map(|set| {
            let left = of(set.spec.criteria.as_ref(), &|node| set.check(node));
            (set.object.name.clone(), left)
        });
        (pools.collect(), sets.collect())
    }

    fn left_out_by(
        &self,
        criteria: &Criteria,
        check: &dyn Fn(&NodeFacts) -> Result<(), Mismatch>,
    ) -> Vec<LeftOut> {
        let (nodes, pods) = stores::of(&self.nodes, &self.pods, criteria);
        let mut reasons: BTreeMap<Mismatch, LeftOut> = BTreeMap::new();
        for node in nodes.iter() {
            let Err(why) = verdict(criteria, node, pods).and_then(|()| check(node)) else { continue };
            let reason = why.to_string();
            let left = reasons.entry(why).or_insert(LeftOut { reason, count: 0, nodes: Vec::new() });
            left.count = left.count.saturating_add(1);
            if left.nodes.len() < MAX_NAMED {
                left.nodes.push(node.name.clone());
            }
        }
        let mut reasons: Vec<LeftOut> = reasons.into_values().collect();
        reasons.sort_by_key(|left| std::cmp::Reverse(left.count));
        reasons
    }
}
