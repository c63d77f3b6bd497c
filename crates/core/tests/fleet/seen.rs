//! The small world as users see it: statuses and Events.

use crate::world::{World, ip};
use flipop_core::addresses::pool::status::{IpEntry, PoolStatus};
use flipop_core::model::{Condition, Moment};
use flipop_core::records::status::RecordSetStatus;

impl World {
    pub(crate) fn status(&self, pool: &str) -> &PoolStatus {
        &self.pools[pool].status
    }

    pub(crate) fn set_status(&self, set: &str) -> &RecordSetStatus {
        &self.record_sets[set].status
    }

    /// The entry of an address in the status of its pool.
    pub(crate) fn entry(&self, pool: &str, n: u8) -> &IpEntry {
        &self.status(pool).ips[&ip(n).to_string()]
    }

    /// How many addresses of a pool are active.
    pub(crate) fn active(&self, pool: &str) -> usize {
        self.status(pool).ips.values().filter(|entry| entry.state == "active").count()
    }

    /// The condition of this type of a pool or, if no pool has this name, of a record set.
    pub(crate) fn condition(&self, object: &str, kind: &str) -> Option<&Condition> {
        let pool = self.pools.get(object).map(|pool| &pool.status.conditions);
        let conditions = pool.unwrap_or_else(|| &self.set_status(object).conditions);
        conditions.iter().find(|condition| condition.kind == kind)
    }

    pub(crate) fn has(&self, object: &str, kind: &str) -> bool {
        self.condition(object, kind).is_some()
    }

    pub(crate) fn message(&self, object: &str, kind: &str) -> Option<&str> {
        self.condition(object, kind).map(|condition| condition.message.as_str())
    }

    /// Status, reason and message of a condition, empty if there is none.
    pub(crate) fn told(&self, object: &str, kind: &str) -> (&str, &str, &str) {
        self.condition(object, kind).map_or(("", "", ""), |c| (&c.status, &c.reason, &c.message))
    }

    /// Status and reason of a condition, empty if there is none.
    pub(crate) fn verdict(&self, object: &str, kind: &str) -> (&str, &str) {
        let (status, reason, _) = self.told(object, kind);
        (status, reason)
    }

    /// The messages of the Events with this reason.
    pub(crate) fn events_of(&self, reason: &str) -> Vec<&str> {
        let events = self.events.iter().filter(|event| event.reason.as_str() == reason);
        events.map(|event| event.message.as_str()).collect()
    }

    /// How many calls since `from` whose description starts with `prefix`.
    pub(crate) fn count(&self, from: Moment, prefix: &str) -> usize {
        self.calls.iter().filter(|(at, call)| *at >= from && call.starts_with(prefix)).count()
    }

    /// How many calls since the beginning whose description starts with `prefix`.
    pub(crate) fn total(&self, prefix: &str) -> usize {
        self.count(Moment::default(), prefix)
    }
}
