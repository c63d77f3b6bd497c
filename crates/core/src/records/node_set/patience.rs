//! Nodes that fail and stay in the set for now: which ones they are, the text for users, and when they leave it.

use super::NodeSet;
use crate::mechanism::effects::Notice;
use crate::mechanism::suspects::Ended;
use crate::mechanism::suspicion::Suspicion;
use crate::model::catalog::events::EventReason;
use crate::model::condition::Condition;
use crate::model::facts::NodeFacts;
use crate::model::ids::{Address, ObjectKind, Owner};
use crate::model::matching::NodeStore;
use crate::model::moment::Moment;
use crate::model::words::enumerate;
use crate::records::status::SuspectNode;
use std::collections::{BTreeMap, BTreeSet};

impl NodeSet {
    /// The addresses that the records hold, as far as they were read.
    fn standing(&self, published: Option<&[Address]>) -> BTreeSet<Address> {
        published.unwrap_or(&self.on_server.addresses).iter().copied().collect()
    }

    /// Takes failing nodes out of the set, if none of their addresses is published or their grace is over.
    pub(crate) fn settle_suspects(&mut self, published: Option<&[Address]>, now: Moment) {
        let (standing, nodes) = (self.standing(published), &self.nodes);
        let serves = |name: &str| {
            let addresses = nodes.get(name).map(|member| member.addresses.as_slice()).unwrap_or_default();
            addresses.iter().any(|ip| standing.contains(ip))
        };
        for (name, why) in self.suspects.settle(serves, &self.spec.grace, now) {
            self.drop_node(&name, why);
        }
    }

    /// The nodes that have recovered for long enough to count again, and when the next one is due. A node whose
    /// address is still in the records counts at once. So does every node while none matches.
    pub(crate) fn recovered(
        &mut self,
        published: Option<&[Address]>,
        nodes: &NodeStore,
        now: Moment,
    ) -> (BTreeSet<String>, Option<Moment>) {
        let none_matches = self.nodes.is_empty();
        let standing = self.standing(published);
        let source = self.spec.source;
        let stands = |node: &NodeFacts| {
            source.is_some_and(|source| source.of(node).iter().any(|ip| standing.contains(ip)))
        };
        let at_once = |name: &str| none_matches || nodes.get(name).is_some_and(stands);
        self.suspects.recovered(at_once, &self.spec.grace, now)
    }

    /// The entries of the status about nodes that fail.
    pub(super) fn suspect_nodes(&self) -> BTreeMap<String, SuspectNode> {
        let entry = |(name, suspicion): (&String, &Suspicion)| {
            let reason = suspicion.why().name().to_owned();
            (name.clone(), SuspectNode { since_s: suspicion.since_s(), reason })
        };
        self.suspects.told().map(entry).collect()
    }

    /// The condition about nodes that fail and stay in the set for now.
    pub(super) fn suspect_condition(&self) -> Option<Condition> {
        let told: Vec<(&String, &Suspicion)> = self.suspects.told().collect();
        let (_, first) = told.first()?;
        let texts = told.iter().map(|(node, suspicion)| self.suspicion_text(node, suspicion));
        Some(Condition::new(first.finding(), enumerate(texts)))
    }

    fn suspicion_text(&self, node: &str, suspicion: &Suspicion) -> String {
        let grace = &self.spec.grace;
        suspicion.text(node, "its records follow", grace)
    }

    /// The Events of suspicions that are due to be reported now, and when the next one is.
    pub(crate) fn tell_suspicions(&mut self, now: Moment) -> (Vec<Notice>, Option<Moment>) {
        let (told, later) = self.suspects.tell(now);
        let told = told.iter().map(|(node, suspicion)| {
            let text = self.suspicion_text(node, suspicion);
            Notice::on(&self.owner(), true, EventReason::FailoverDelayed, node, text)
        });
        (told.collect(), later)
    }

    /// The Event of a suspicion that ended, if it was reported and the node stays in the set.
    pub(crate) fn tell_avoided(&self, ended: &Ended) -> Option<Notice> {
        let text = ended.avoided("stays in the set")?;
        Some(Notice::on(&self.owner(), false, EventReason::FailoverAvoided, &ended.node, text))
    }

    fn owner(&self) -> Owner {
        Owner { kind: ObjectKind::RecordSet, object: self.object.clone() }
    }
}
