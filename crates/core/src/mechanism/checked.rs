//! The results of `spec.nodeCheck` for the nodes of one object.

use crate::model::condition::Condition;
use crate::model::facts::NodeFacts;
use crate::model::ids::Uid;
use crate::model::mismatch::Mismatch;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of one object that the checks give a finding on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedNodes {
    /// Nodes that are dead, by name, and why they no longer match.
    pub dead: BTreeMap<String, (Uid, Mismatch)>,
    /// Nodes that are chosen only if no node that answers is left.
    pub behind: BTreeSet<Uid>,
    /// Nodes that have shown no sign of life yet.
    pub unproven: BTreeSet<Uid>,
    /// The condition about failures that are not believed.
    pub doubted: Option<Condition>,
}

impl CheckedNodes {
    /// Whether the node with this name and uid is dead.
    pub fn is_dead(&self, name: &str, uid: &Uid) -> bool {
        self.dead.get(name).is_some_and(|(dead, _)| dead == uid)
    }

    /// Whether a node matches: it is not dead, or no other node could take over.
    ///
    /// # Errors
    /// Why it no longer matches.
    pub fn verdict(&self, node: &NodeFacts, has_spare: impl FnOnce() -> bool) -> Result<(), Mismatch> {
        match self.dead.get(&node.name).filter(|(uid, _)| *uid == node.uid) {
            Some((_, why)) if has_spare() => Err(why.clone()),
            Some(_) | None => Ok(()),
        }
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
