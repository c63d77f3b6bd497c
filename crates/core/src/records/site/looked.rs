//! Queries for callers that wait until a name no longer holds an address.

use super::Site;
use crate::model::ids::Address;
use crate::model::moment::Moment;

impl Site {
    /// When the last read that counted began.
    pub fn read_at(&self) -> Option<Moment> {
        self.read_at
    }

    /// Whether a change set is under way.
    pub fn is_changing(&self) -> bool {
        self.applying.is_some()
    }

    /// Asks for a read at `since`, unless the last read that counted began then or later.
    pub fn want_read(&mut self, since: Moment) {
        if self.read_at < Some(since) {
            self.read_due = self.read_due.min(since);
        }
    }

    /// The addresses that the records hold, each with its TTL. `None` if the provider chooses the TTL.
    pub fn ttls(&self) -> impl Iterator<Item = (Address, Option<u32>)> {
        let records = self.records.iter().flatten();
        records.filter_map(|record| Some((record.address()?, Some(record.ttl).filter(|_| !record.proxied))))
    }
}
