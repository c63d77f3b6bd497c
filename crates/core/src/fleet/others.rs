//! The Events about changes that others made, and lookups of nodes for messages.

use super::Fleet;
use crate::addresses::pool::Pool;
use crate::model::catalog::events::EventReason;
use crate::model::ids::{AccountId, Address};
use crate::model::machine::MachineId;
use crate::model::matching::{NodeStore, verdict};
use crate::model::mismatch::Mismatch;
use crate::model::moment::Moment;

impl Fleet {
    /// Reports that somebody else moved, unassigned, deleted or restored these addresses.
    pub(super) fn tell_overturned(&mut self, account_id: &AccountId, ips: &[Address], now: Moment) {
        let Some(account) = self.accounts.get(account_id) else { return };
        for ip in ips {
            let place = account.place(*ip);
            let node = place.machine().and_then(|machine| self.node_on(machine)).map(str::to_owned);
            let text = place.told_of(*ip, node.as_deref(), account.machines().noun);
            let pools = self.pools.values().filter(|pool| pool.effective().contains(ip));
            let pools = pools.filter(|pool| !pool.was_to_move(*ip, node.as_deref()));
            for pool in pools {
                self.changes.push(pool.change_by_others(*ip, place, now));
                self.outbox.push(pool.notice(true, EventReason::MovedByOthers, ip, text.clone()));
            }
        }
    }

    /// Why a node is not a candidate of a pool, as far as its watch shows.
    pub(super) fn mismatch_of(&self, pool: &Pool, node: &str) -> Option<Mismatch> {
        let criteria = pool.spec.criteria.as_ref()?;
        let node = self.nodes.get(&criteria.node_watch())?.get(node)?;
        let pods = criteria.pod_watch().and_then(|key| self.pods.get(&key));
        verdict(criteria, node, pods).and_then(|()| pool.check(node)).err()
    }

    /// The node on a machine, if an object's labels select it.
    fn node_on(&self, machine: &MachineId) -> Option<&str> {
        let mut nodes = self.nodes.values().flat_map(NodeStore::iter);
        nodes.find(|node| node.machine.as_ref() == Some(machine)).map(|node| node.name.as_str())
    }
}
