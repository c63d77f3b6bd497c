//! Rules that hold for every action on an address, whatever happened before.

use crate::world::World;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::{Address, MachineId, NodeFacts, ObjectRef};

impl World {
    /// Whether a node matches. Pods count once there are any.
    pub(crate) fn matches(&self, node: &NodeFacts) -> bool {
        let served = self.pods.values().any(|pod| pod.serving && pod.node == node.name);
        node.ready.is_ready() && (served || self.pods.is_empty())
    }

    /// The rules that hold for every assignment, whatever happened before.
    pub(crate) fn check_assignment(&self, pool: &ObjectRef, ip: Address, to: &MachineId, node: &str) {
        self.check_pause(pool);
        let spec = self.pools.get(&pool.name.name).and_then(|pool| pool.spec.as_ref().ok());
        if let Some(spec) = spec {
            let named = used(spec).any(|named| *named == ip.to_string());
            let created = self.pools[&pool.name.name]
                .status
                .memory
                .as_ref()
                .is_some_and(|memory| memory.has_created(ip));
            assert!(named || created, "{ip} is none of {:?}", spec.ips);
        }
        let ready =
            self.nodes.get(node).is_some_and(|node| self.matches(node) && node.machine.as_ref() == Some(to));
        assert!(ready, "{node} does not match");
        let stands = self.cloud.get(&ip).and_then(|read| read.machine.clone());
        let lives = |node: &NodeFacts| !node.deleting && !self.dead.contains(&node.name);
        let well = |node: &NodeFacts| self.matches(node) && node.taints.is_empty() && lives(node);
        let valid = self.nodes.values().any(|node| well(node) && node.machine == stands);
        // The server knows of a move by hand before anything is sent.
        let told = self.pools.get(&pool.name.name).and_then(|pool| pool.status.last_move.as_ref());
        let asked = told.is_some_and(|told| told.is_pending() && told.ip == Some(ip) && told.to == node);
        assert!(
            stands.is_none() || !valid || asked || self.moved.contains(&ip),
            "{ip} is taken off a node that matches"
        );
        let holder = self.cloud.values().find(|read| read.machine.as_ref() == Some(to));
        // The end of an operation within the last minute cannot be known yet, if a crashed process began it.
        let lately = self
            .pending
            .values()
            .any(|p| p.target.as_ref() == Some(to) && self.now.millis_since(p.ends) < 60_000);
        assert!(holder.is_none() || lately || !self.moved.is_empty(), "{node} already has {holder:?}");
    }

    /// An address leaves its droplet only to make room there for a used one.
    pub(crate) fn check_unassignment(&self, pool: &ObjectRef, ip: Address, from: &MachineId) {
        self.check_pause(pool);
        let spec = self.pools.get(&pool.name.name).and_then(|pool| pool.spec.as_ref().ok());
        if self.is_given_back(pool, ip) {
            return;
        }
        if let Some(spec) = spec {
            assert!(!used(spec).any(|named| *named == ip.to_string()), "{ip} is used by {pool:?}");
        }
        let wanted =
            self.nodes.values().any(|node| self.matches(node) && node.machine.as_ref() == Some(from));
        assert!(wanted, "{ip} makes room on {from:?}, which does not match");
    }
}

/// The addresses that a spec uses, as far as it names them.
fn used(spec: &RawPoolSpec) -> impl Iterator<Item = &String> {
    let wanted = if spec.desired_ips > 0 { usize::try_from(spec.desired_ips).unwrap() } else { usize::MAX };
    spec.ips.iter().filter(|ip| !spec.released_ips.contains(ip)).take(wanted)
}
