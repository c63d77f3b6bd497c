//! The nodes of a pool that answer no check: which of them lose their match, and which go behind others.
//!
//! Invariant: a check never takes the last matching node. While every node is dead, checks do not count.

use super::Pool;
use super::candidates::Candidate;
use crate::model::facts::NodeFacts;
use crate::model::ids::Uid;
use crate::model::mismatch::Mismatch;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Pool {
    /// Whether a node that matches is dead, and another one could take over.
    pub(crate) fn check(&self, node: &NodeFacts) -> Result<(), Mismatch> {
        let is_spare = |(name, candidate): (&Arc<str>, &Candidate)| {
            let dead = self.checked.is_dead(name, &candidate.node.uid);
            **name != node.name && !dead && self.suspects.of(name).is_none()
        };
        self.checked.verdict(node, || self.candidates.iter().any(is_spare))
    }

    /// The nodes that are checked for the pool, each with whether it holds an address.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, &Uid, bool)> {
        let holders: BTreeSet<&str> = self.report.active.values().map(String::as_str).collect();
        let candidates = self.candidates.iter().map(move |(name, candidate)| {
            (&**name, &candidate.node.uid, candidate.holds().is_some() || holders.contains(&**name))
        });
        let dropped = self.checked.dead.iter().filter(|(name, _)| !self.candidates.contains(name));
        candidates.chain(dropped.map(|(name, (uid, _))| (name.as_str(), uid, false)))
    }
}
