//! Lists that contradict themselves, and how long their content counts.
//!
//! Invariant: such a list shows where addresses are. It says nothing about addresses that it leaves out, and confirms
//! nothing.

use super::{Account, Changes};
use crate::model::facts::ReservedIp;
use crate::model::ids::Address;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

impl Account {
    /// Whether the newest list contradicts itself. It shows where addresses are, but not which addresses exist.
    pub fn lists_contradict_themselves(&self) -> bool {
        self.glimpsed.is_some()
    }

    /// Drops the content of old lists.
    pub(super) fn forget_listed(&mut self) {
        self.beliefs.all_move();
        self.listed = None;
        self.glimpsed = None;
    }

    /// Takes the places of addresses from a list that may be incomplete. It settles no doubt.
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
        self.beliefs.all_move();
        self.glimpsed.get_or_insert_default().extend(ips);
        changes
    }
}
