//! How a record set follows its nodes. A failing node whose address is published stays in the set for now, and a node
//! that has never answered a check has to answer before it is published.
//!
//! Invariant: a node that has never answered keeps an address that is already published.

use super::{Member, NodeSet};
use crate::mechanism::{Clocks, FollowedNodes, Follower, Suspicion};
use crate::model::spec::Grace;
use crate::model::{
    Address, Criteria, Mismatch, Moment, NodeCheck, NodeFacts, NodeStore, ObjectKind, Owner, Uid,
};
use crate::records::status::SuspectNode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Follower for NodeSet {
    fn owner(&self) -> Owner {
        Owner { kind: ObjectKind::RecordSet, object: self.object.clone() }
    }

    fn criteria(&self) -> Option<&Criteria> {
        self.spec.criteria.as_ref()
    }

    fn grace(&self) -> Grace {
        self.spec.grace
    }

    fn node_check(&self) -> Option<NodeCheck> {
        self.spec.check
    }

    fn is_live(&self) -> bool {
        !self.deleting
    }

    fn can_match(&self) -> bool {
        self.spec.source.is_some()
    }

    fn nodes(&self) -> &FollowedNodes {
        &self.nodes
    }

    fn nodes_mut(&mut self) -> &mut FollowedNodes {
        &mut self.nodes
    }

    fn members(&self) -> Box<dyn Iterator<Item = (&str, &Uid, bool)> + '_> {
        let members = self.members.iter();
        Box::new(members.map(|(name, member)| (name.as_str(), &member.uid, self.is_published(member))))
    }

    fn member(&self, name: &str) -> Option<(&Uid, &str)> {
        self.members.get(name).map(|member| (&member.uid, member.provider_id.as_str()))
    }

    fn serves_by_status(&self, node: &NodeFacts) -> Option<Option<i64>> {
        self.on_server.suspicion_of(&node.name, &self.spec.source?.of(node))
    }

    fn admit(&mut self, node: &Arc<NodeFacts>, _member: bool, _clocks: Clocks) -> bool {
        let addresses = self.spec.source.map(|source| source.of(node)).unwrap_or_default();
        let changed = self.members.get(&node.name).is_none_or(|before| before.addresses != addresses);
        let member = Member { uid: node.uid.clone(), provider_id: node.provider_id.clone(), addresses };
        self.members.insert(node.name.clone(), member);
        changed
    }

    fn remove(&mut self, name: &str, why: Mismatch, _now: Moment) -> bool {
        let Some(member) = self.members.remove(name) else { return false };
        if !member.addresses.is_empty() {
            self.losses.insert(name.to_owned(), why);
        }
        true
    }

    fn consequence(&self, _node: &str) -> String {
        "its records follow".to_owned()
    }

    fn outcome(&self) -> &'static str {
        "stays in the set"
    }
}

impl NodeSet {
    fn is_published(&self, member: &Member) -> bool {
        member.addresses.iter().any(|ip| self.on_server.addresses.contains(ip))
    }

    /// The failing nodes of which the records hold an address, and the recovering ones. `published` are the records, as
    /// far as they were read.
    pub(crate) fn serving(
        &self,
        published: Option<&[Address]>,
        nodes: &NodeStore,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let standing: BTreeSet<&Address> = published.unwrap_or(&self.on_server.addresses).iter().collect();
        let stands = |addresses: &[Address]| addresses.iter().any(|ip| standing.contains(ip));
        let suspects = &self.nodes.suspects;
        let serves = |node: &&String| self.members.get(*node).is_some_and(|member| stands(&member.addresses));
        let in_place = |node: &&str| {
            self.spec.source.zip(nodes.get(node)).is_some_and(|(source, node)| stands(&source.of(node)))
        };
        (
            suspects.iter().map(|(node, _)| node).filter(serves).cloned().collect(),
            suspects.recovering().filter(in_place).map(str::to_owned).collect(),
        )
    }

    /// The addresses to publish. A node that was not yet seen alive is published only if its address already is, or if
    /// the set would otherwise be empty.
    pub(super) fn chosen(&self) -> BTreeSet<Address> {
        let of = |waits: bool| -> BTreeSet<Address> {
            let counts = |member: &&Member| {
                !waits || !self.nodes.checked.unproven.contains(&member.uid) || self.is_published(member)
            };
            self.members.values().filter(counts).flat_map(|member| &member.addresses).copied().collect()
        };
        let proven = of(true);
        if proven.is_empty() { of(false) } else { proven }
    }

    /// The entries of the status about nodes that fail.
    pub(super) fn suspect_nodes(&self) -> BTreeMap<String, SuspectNode> {
        let entry = |(name, suspicion): (&String, &Suspicion)| {
            let reason = suspicion.why().name().to_owned();
            (name.clone(), SuspectNode { since_s: suspicion.since_s(), reason })
        };
        self.nodes.suspects.reported().map(entry).collect()
    }
}
