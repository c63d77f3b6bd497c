//! The results of `spec.nodeCheck` for the nodes of one object.

use crate::model::condition::Condition;
use crate::model::facts::NodeFacts;
use crate::model::ids::Uid;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of one object that the checks give a finding on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedNodes {
    /// Nodes that are dead, by name.
    pub dead: BTreeMap<String, Uid>,
    /// Nodes that are chosen only if no node that answers is left.
    pub behind: BTreeSet<Uid>,
    /// Nodes that have shown no sign of life yet.
    pub unproven: BTreeSet<Uid>,
    /// The condition about failures that are not believed.
    pub doubted: Option<Condition>,
}

impl CheckedNodes {
    /// Whether this node is dead.
    pub fn fails(&self, node: &NodeFacts) -> bool {
        self.dead.get(&node.name) == Some(&node.uid)
    }

    /// The nodes that are dead in only one of the two.
    pub fn differ(&self, other: &Self) -> BTreeSet<String> {
        let only = |one: &Self, two: &Self| -> Vec<String> {
            let gone = one.dead.iter().filter(|(name, uid)| two.dead.get(*name) != Some(uid));
            gone.map(|(name, _)| name.clone()).collect()
        };
        only(self, other).into_iter().chain(only(other, self)).collect()
    }
}
