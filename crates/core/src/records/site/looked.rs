//! What somebody wants to know who waits until a name holds an address no more.

use super::Site;
use crate::model::ids::Address;
use crate::model::moment::Moment;

impl Site {
    /// When the last read was begun that counted.
    #[must_use]
    pub fn read_at(&self) -> Option<Moment> {
        self.read_at
    }

    /// A change set is under way.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.applying.is_some()
    }

    /// A read is wanted that is begun at `since` or later.
    pub fn want_read(&mut self, since: Moment) {
        if self.read_at < Some(since) {
            self.read_due = self.read_due.min(since);
        }
    }

    /// The addresses that stand there, each with its TTL; `None` for one that the provider chooses.
    pub fn ttls(&self) -> impl Iterator<Item = (Address, Option<u32>)> {
        let records = self.records.iter().flatten();
        records.filter_map(|record| Some((record.address()?, Some(record.ttl).filter(|_| !record.proxied))))
    }
}
