//! Takes a pool's memory from its status when leadership begins, and keeps newer knowledge of this process.
//!
//! A process that loses its lease to another ends. So a process that leads again after a gap was the last to buy, and
//! knows how a purchase ended even if that was not written to the server.

use super::Pool;
use super::creation::{Creation, Progress};
use super::memory::{Intent, Memory};
use crate::addresses::pool::status::PoolObject;
use crate::model::{Address, MachineId, Moment};

impl Pool {
    /// True while the pool's memory is unknown. A status write would then delete it.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// The places where addresses serve, by the status on the server.
    pub fn reported_places(&self) -> impl Iterator<Item = (Address, MachineId)> {
        self.spec.machines.into_iter().flat_map(|machines| self.on_server.serving(machines))
    }

    /// Takes the memory from the status at the first sight of the pool and whenever leadership begins. While the object
    /// cannot be read, its memory is unknown.
    pub fn recall(&mut self, seen: &PoolObject) {
        self.unread = seen.spec.is_err();
        if self.unread {
            return;
        }
        let status = &seen.status;
        self.moving.recall(status.last_move.as_ref());
        let mut memory = status.memory.clone();
        if let Some(memory) = &mut memory {
            memory.intent.take_if(|intent| self.has_settled(intent));
        }
        for ip in self.unrecorded() {
            let memory = memory.get_or_insert_default();
            memory.bought(ip, false);
            if let Some(bought) = self.memory.as_ref().and_then(|ours| ours.purchase_of(ip)).cloned() {
                memory.purchase(bought);
            }
        }
        if let Some(memory) = &mut memory {
            // The status may be a copy from another object, whose purchases are not this pool's.
            memory.purchased.retain(|purchased| purchased.uid == self.object.uid);
            self.reclaim.recall(&memory.purchased);
        }
        self.memory = memory;
        self.effective_before = status.effective();
        let named = seen.spec.iter().flat_map(|spec| &spec.ips);
        self.named_first = named.filter_map(|ip| Address::v4(ip)).collect();
        self.creation = self.creation.recalled(self.memory.as_ref());
        self.pause.recall(status);
    }

    /// Whether this process knew the intent that the server has, and knows how it ended.
    fn has_settled(&self, intent: &Intent) -> bool {
        let of = |memory: &Option<Memory>| memory.as_ref().and_then(|memory| memory.intent.clone());
        let ours = of(&self.memory);
        of(&self.on_server.memory).as_ref() == Some(intent)
            && ours.is_none_or(|ours| ours.number != intent.number)
    }

    /// Bought addresses that neither the status nor the spec on the server has.
    fn unrecorded(&self) -> Vec<Address> {
        let created = self.memory.iter().flat_map(|memory| &memory.created);
        let unrecorded = created.filter(|created| !created.written && !self.on_server.remembers(created.ip));
        unrecorded.map(|created| created.ip).collect()
    }
}

impl Creation {
    /// The state of creations after a restart, or after a gap in the leadership. An open intent has to be resolved.
    fn recalled(&self, memory: Option<&Memory>) -> Self {
        let intent = memory.and_then(|memory| memory.intent.as_ref());
        let noted = memory.map(|memory| memory.orphans.as_ref().unwrap_or(&memory.unknown));
        let mut recalled = Self::default();
        recalled.number = intent.map_or(0, |intent| intent.number).max(self.number);
        recalled.orphans = noted.cloned().unwrap_or_default();
        if intent.is_some_and(Intent::is_open) {
            recalled.stage = Progress::Resolving { since: Moment::default(), first: None };
        }
        recalled
    }
}
