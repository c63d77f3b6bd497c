//! What lists say that contradict themselves, and until when it counts.
//!
//! Invariant: such a list shows where addresses stand. It says nothing of those that it leaves out, and confirms nothing.

use super::{Account, Changes};
use crate::model::facts::ReservedIp;
use crate::model::ids::Address;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

impl Account {
    /// The newest list contradicts itself: it says where addresses stand, and not which ones there are.
    #[must_use]
    pub fn lists_contradict_themselves(&self) -> bool {
        self.glimpsed.is_some()
    }

    /// What lists said is out of date.
    pub(super) fn forget_listed(&mut self) {
        self.listed = None;
        self.glimpsed = None;
    }

    /// Takes the places of addresses from a list that may leave others out. It does not confirm what was doubted.
    pub(super) fn glimpse(
        &mut self,
        begun: Moment,
        ips: BTreeMap<Address, ReservedIp>,
        now: Moment,
    ) -> Changes {
        let mut changes = Changes::default();
        let known: Vec<Address> = self.beliefs.keys().copied().collect();
        for ip in known {
            let entry = ips.get(&ip);
            if let Some(op) = self.ops.get_mut(&ip) {
                let ended = op.listed(entry, begun, now);
                self.finish(ip, ended, now, &mut changes);
            } else if entry.is_none() {
                self.reads.single(ip);
            } else if let Some(belief) = self.beliefs.get_mut(&ip).filter(|belief| !belief.is_doubted()) {
                belief.listed(entry, begun, now);
            }
        }
        self.glimpsed.get_or_insert_default().extend(ips);
        changes
    }
}
