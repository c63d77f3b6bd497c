//! How a pool follows its nodes. A failing node that holds an address keeps both for now.
//!
//! A node is a holder if a used address is on it or is being moved to it. For an address that is not read yet, the last
//! confirmed node counts.

use super::Pool;
use crate::addresses::account::Account;
use crate::addresses::account::belief::Place;
use crate::mechanism::{Clocks, FollowedNodes, Follower, Suspicion};
use crate::model::spec::Grace;
use crate::model::{
    Address, Criteria, MachineId, Mismatch, Moment, NodeCheck, NodeFacts, NodeStore, Owner, Uid,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long the object of a node may outlive it, while another Node on the same machine replaces it: a kubelet that is
/// silent for 50 s is not Ready (`node-monitor-grace-period`).
const REPLACEMENT_S: i64 = 60;

impl Follower for Pool {
    fn owner(&self) -> Owner {
        self.owner()
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
        self.is_live()
    }

    fn can_match(&self) -> bool {
        !self.spec.is_frozen()
    }

    fn nodes(&self) -> &FollowedNodes {
        &self.nodes
    }

    fn nodes_mut(&mut self) -> &mut FollowedNodes {
        &mut self.nodes
    }

    fn members(&self) -> Box<dyn Iterator<Item = (&str, &Uid, bool)> + '_> {
        let holders: BTreeSet<&str> = self.report.active.values().map(String::as_str).collect();
        Box::new(self.candidates.iter().map(move |(name, candidate)| {
            (&**name, &candidate.node.uid, candidate.holds().is_some() || holders.contains(&**name))
        }))
    }

    fn member(&self, name: &str) -> Option<(&Uid, &str)> {
        self.candidates.get(name).map(|known| (&known.node.uid, known.node.provider_id.as_str()))
    }

    fn serves_by_status(&self, node: &NodeFacts) -> Option<Option<i64>> {
        self.on_server.suspicion_of(&node.provider_id)
    }

    fn admit(&mut self, node: &Arc<NodeFacts>, member: bool, clocks: Clocks) -> bool {
        if member {
            return self.candidates.note(node);
        }
        self.lose(&node.name, Mismatch::Replaced, clocks.now);
        let count = self.tick();
        let settles = clocks.moment_after(node.created_at_s, REPLACEMENT_S);
        self.candidates.insert(node, count, settles);
        true
    }

    fn remove(&mut self, name: &str, why: Mismatch, now: Moment) -> bool {
        let Some(candidate) = self.candidates.remove(name) else { return false };
        if let Some(ip) = candidate.holds() {
            self.losses.note(ip, name, why, now);
        }
        true
    }

    fn consequence(&self, node: &str) -> String {
        let address = self.report.active.iter().find(|(_, name)| name.as_str() == node);
        address.map_or_else(|| "its address moves".to_owned(), |(ip, _)| format!("{ip} moves"))
    }

    fn outcome(&self) -> &'static str {
        "keeps its address"
    }

    fn note_changed(&mut self, now: Moment) {
        self.changed_at = now;
    }

    fn forget_gone(&mut self, nodes: &NodeStore, now: Moment) {
        self.nodes.suspects.keep(nodes, now);
        if !self.node_failures.is_empty() || !self.deprioritized.is_empty() {
            let live: BTreeSet<&Uid> = nodes.iter().map(|node| &node.uid).collect();
            self.node_failures.retain(|uid, _| live.contains(uid));
            self.deprioritized.retain(|uid, _| live.contains(uid));
        }
    }
}

impl Pool {
    /// The failing nodes that hold an address.
    pub(crate) fn serving(&self, account: &Account) -> BTreeSet<String> {
        let mut failing = self.nodes.suspects.iter().peekable();
        if failing.peek().is_none() {
            return BTreeSet::new();
        }
        let mut used = self.used();
        used.retain(|ip| !self.report.claimed.contains_key(ip));
        let on = |ip: &Address| {
            let moves_to = account.op(*ip).map(|op| &op.machine);
            account.place(*ip).machine().into_iter().chain(moves_to)
        };
        let machines: BTreeSet<&MachineId> = used.iter().flat_map(on).collect();
        let unread: Vec<&Address> = used.iter().filter(|ip| *account.place(**ip) == Place::Unknown).collect();
        let serves = |node: &&String| {
            let Some(candidate) = self.candidates.get(node) else { return false };
            let holds = candidate.node.machine.as_ref().is_some_and(|machine| machines.contains(machine));
            let held = |ip: &&Address| {
                self.report.active.get(ip) == Some(*node)
                    || self.on_server.is_serving(**ip, &candidate.node.provider_id)
            };
            holds || unread.iter().any(held)
        };
        failing.map(|(node, _)| node).filter(serves).cloned().collect()
    }

    /// The recovering nodes that still have an address of the pool.
    pub(crate) fn in_place(&self, account: &Account, nodes: &NodeStore) -> BTreeSet<String> {
        let used = self.used();
        let has_address = |node: &&str| {
            let machine = nodes.get(node).and_then(|node| node.machine.as_ref());
            machine.is_some_and(|on| used.iter().any(|ip| account.place(*ip).machine() == Some(on)))
        };
        self.nodes.suspects.recovering().filter(has_address).map(str::to_owned).collect()
    }

    /// The suspicion of a node with an active address, once it is reported.
    pub(super) fn suspicion(&self, node: &str) -> Option<&Suspicion> {
        self.nodes.suspects.of(node).filter(|suspicion| suspicion.is_reported())
    }
}
