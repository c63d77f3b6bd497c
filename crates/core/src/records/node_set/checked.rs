//! The nodes of the set that answer no check: which of them leave it, and which have to answer before they are
//! published.
//!
//! Invariant: a check never removes the last matching node. A node that has never answered keeps an address that is
//! already published.

use super::{Member, NodeSet};
use crate::model::facts::NodeFacts;
use crate::model::ids::{Address, Uid};
use crate::model::mismatch::Mismatch;
use std::collections::BTreeSet;

impl NodeSet {
    /// Whether a node that matches is dead, and another one is in the set.
    pub(crate) fn check(&self, node: &NodeFacts) -> Result<(), Mismatch> {
        let is_spare = |(name, member): (&String, &Member)| {
            let dead = self.checked.is_dead(name, &member.uid);
            *name != node.name && !dead && self.suspects.of(name).is_none()
        };
        self.checked.verdict(node, || self.nodes.iter().any(is_spare))
    }

    /// The nodes that are checked for the set, each with whether an address of it is published.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, &Uid, bool)> {
        let members = self.nodes.iter();
        let members = members.map(|(name, member)| (name.as_str(), &member.uid, self.is_published(member)));
        let dropped = self.checked.dead.iter().filter(|(name, _)| !self.nodes.contains_key(*name));
        members.chain(dropped.map(|(name, (uid, _))| (name.as_str(), uid, false)))
    }

    fn is_published(&self, member: &Member) -> bool {
        member.addresses.iter().any(|ip| self.on_server.addresses.contains(ip))
    }

    /// The addresses to publish. A node that was not yet seen alive is published only if its address already is, or if
    /// the set would otherwise be empty.
    pub(super) fn chosen(&self) -> BTreeSet<Address> {
        let of = |waits: bool| -> BTreeSet<Address> {
            let counts = |member: &&Member| {
                !waits || !self.checked.unproven.contains(&member.uid) || self.is_published(member)
            };
            self.nodes.values().filter(counts).flat_map(|member| &member.addresses).copied().collect()
        };
        let proven = of(true);
        if proven.is_empty() { of(false) } else { proven }
    }
}
