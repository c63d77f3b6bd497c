//! The last changes of addresses, for people who want to know later what happened, and the Events about changes that
//! others made.

use super::Fleet;
use crate::addresses::pool::Pool;
use crate::addresses::pool::losses::Change;
use crate::mechanism::Follower;
use crate::model::catalog::events::EventReason;
use crate::model::{AccountId, Address, Mismatch, Moment, Uid, verdict};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of changes to keep. It is enough for a large failover and the events before it.
const MAX_KEPT: usize = 200;

/// The last changes, the oldest first. Snapshots share them, since they are taken far more often than a change happens.
#[derive(Debug, Default, Clone)]
pub(super) struct Changes(Arc<VecDeque<Change>>);

impl Changes {
    pub(super) fn push(&mut self, change: Change) {
        let kept = Arc::make_mut(&mut self.0);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(change);
    }

    /// Notes that the records now hold an address that was confirmed at that moment.
    pub(super) fn published(&mut self, ip: Address, confirmed: Moment, now: Moment) {
        let is_it = |change: &&mut Change| change.ip == ip && change.at == confirmed;
        let phases = Arc::make_mut(&mut self.0).iter_mut().rev().find(is_it).map(|change| &mut change.phases);
        if let Some(Some(phases)) = phases {
            phases.published_ms = Some(now.millis_since(confirmed));
        }
    }

    pub(super) fn shared(&self) -> Arc<VecDeque<Change>> {
        self.0.clone()
    }
}

impl Fleet {
    /// Reports that somebody else moved, unassigned, deleted or restored these addresses.
    pub(super) fn tell_overturned(&mut self, account_id: &AccountId, ips: &[Address], now: Moment) {
        let Some(account) = self.accounts.get(account_id) else { return };
        for ip in ips {
            let place = account.place(*ip);
            let node = place.machine().and_then(|machine| self.watched.node_on(machine));
            let node = node.map(|node| node.name.clone());
            let text = place.message(*ip, node.as_deref(), account.machines().noun);
            let namers: Vec<Uid> = self.namers(*ip).into_iter().cloned().collect();
            let pools = namers.iter().filter_map(|uid| self.pools.get(uid));
            let pools = pools.filter(|pool| pool.effective().contains(ip));
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
        let (nodes, pods) = self.watched.stores(pool)?;
        let node = nodes.get(node)?;
        verdict(criteria, node, pods).and_then(|()| pool.check(node)).err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectName;

    #[test]
    fn the_last_two_hundred_changes_are_kept() {
        let mut changes = Changes::default();
        for number in 0..250_u64 {
            changes.push(Change {
                at: Moment::from_millis(number),
                object: ObjectName { namespace: "n".into(), name: "p".into() },
                ip: Address::from([192, 0, 2, 1]),
                from: String::new(),
                to: String::new(),
                reason: String::new(),
                moved: None,
                phases: None,
                failover: None,
            });
        }
        let kept = changes.shared();
        assert_eq!(
            (kept.len(), kept[0].at, kept[199].at),
            (200, Moment::from_millis(50), Moment::from_millis(249))
        );
    }
}
