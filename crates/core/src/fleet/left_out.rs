//! Nodes that do not match, for people who look at the state of the process. The list is made on demand, because for
//! many objects with many nodes it takes milliseconds, and it is seldom read.

use super::{Fleet, stores};
use crate::model::facts::NodeFacts;
use crate::model::ids::ObjectName;
use crate::model::matching::{Criteria, verdict};
use crate::model::mismatch::Mismatch;
use std::collections::BTreeMap;

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
