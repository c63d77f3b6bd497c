//! What is told of what others changed.

use super::Fleet;
use crate::model::catalog::events::EventReason;
use crate::model::ids::{AccountId, Address};
use crate::model::machine::MachineId;
use crate::model::matching::NodeStore;
use crate::model::moment::Moment;

impl Fleet {
    /// Others have moved, unassigned, deleted or restored these addresses.
    pub(super) fn tell_overturned(&mut self, account_id: &AccountId, ips: &[Address], now: Moment) {
        let Some(account) = self.accounts.get(account_id) else { return };
        for ip in ips {
            let place = account.place(*ip);
            let node = place.machine().and_then(|machine| self.node_on(machine));
            let text = place.told_of(*ip, node, account.machines().noun);
            let pools = self.pools.values().filter(|pool| pool.effective().contains(ip));
            for pool in pools {
                self.changes.push(pool.change_by_others(*ip, place, now));
                self.outbox.push(pool.notice(true, EventReason::MovedByOthers, ip, text.clone()));
            }
        }
    }

    /// The node on a machine, if some object's labels select it.
    fn node_on(&self, machine: &MachineId) -> Option<&str> {
        let mut nodes = self.nodes.values().flat_map(NodeStore::iter);
        nodes.find(|node| node.machine.as_ref() == Some(machine)).map(|node| node.name.as_str())
    }
}
