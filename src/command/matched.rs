//! Which nodes match an object, and why the others do not. The core decides this here, from lists that were read
//! once.

use super::copy::Lists;
use super::output::{first_of, shown};
use flipop_core::model::{Criteria, Mismatch, NodeFacts, verdict};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of one object: those that match, and the others with the reason.
pub(super) struct Matched {
    /// Nodes that match.
    pub(super) matching: BTreeSet<String>,
    /// Why each other node with the labels does not match.
    pub(super) failing: BTreeMap<String, Mismatch>,
    /// Nodes without the labels.
    pub(super) unlabelled: Vec<String>,
    selector: String,
}

/// Nodes that do not match, for one reason.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftOut {
    /// The reason, as the end of a sentence about a node.
    pub(super) reason: String,
    /// Their names.
    pub(super) nodes: Vec<String>,
}

impl LeftOut {
    /// One line with at most this many names.
    pub(super) fn text(&self, most: usize) -> String {
        let Self { reason, nodes } = self;
        let count =
            if let [_] = nodes.as_slice() { "1 node".to_owned() } else { format!("{} nodes", nodes.len()) };
        shown(&format!("{count} ({}): {reason}", first_of(nodes, most)))
    }
}

impl Matched {
    /// Judges every node.
    pub(super) fn new(lists: &Lists, all: &[NodeFacts], criteria: &Criteria) -> Self {
        let (nodes, pods) = (lists.nodes_of(criteria), lists.pods_of(criteria));
        let (mut matching, mut failing) = (BTreeSet::new(), BTreeMap::new());
        for node in nodes.iter() {
            match verdict(criteria, node, pods.as_ref()) {
                Ok(()) => drop(matching.insert(node.name.clone())),
                Err(why) => drop(failing.insert(node.name.clone(), why)),
            }
        }
        let others = all.iter().filter(|node| nodes.get(&node.name).is_none());
        let unlabelled = others.map(|node| node.name.clone()).collect();
        Self { matching, failing, unlabelled, selector: criteria.node_selector.to_string() }
    }

    /// Whether a node matches, or why it does not.
    pub(super) fn health(&self, node: &str) -> String {
        if self.matching.contains(node) {
            return "matches".to_owned();
        }
        match self.failing.get(node) {
            Some(why) => why.to_string(),
            None if self.unlabelled.iter().any(|other| other == node) => self.lacks_labels(),
            None => "is not in the cluster".to_owned(),
        }
    }

    fn lacks_labels(&self) -> String {
        format!("does not match nodeLabel {}", self.selector)
    }

    /// Nodes that do not match, by reason. The most frequent reason comes first.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, why) in &self.failing {
            reasons.entry(why.to_string()).or_default().push(node.clone());
        }
        if !self.unlabelled.is_empty() {
            reasons.insert(self.lacks_labels(), self.unlabelled.clone());
        }
        let mut reasons: Vec<LeftOut> =
            reasons.into_iter().map(|(reason, nodes)| LeftOut { reason, nodes }).collect();
        reasons.sort_by_key(|left_out| std::cmp::Reverse(left_out.nodes.len()));
        reasons
    }
}
