//! Addresses that lists leave out, or show elsewhere: no single list decides that one is gone.

use crate::model::ids::Address;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// Between two lists that are believed to show that an address came to the account, or left its place.
pub(super) const BETWEEN_LISTS_MS: u64 = 30_000;

/// Since which list addresses are not where they were. It need not survive a restart: what is not known to be gone
/// counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Absences(BTreeMap<Address, Moment>);

impl Absences {
    /// Whether two lists agree that an address is not there, of which this one was begun at `begun`.
    pub(super) fn is_gone(&mut self, ip: Address, there: bool, begun: Moment) -> bool {
        if there {
            self.0.remove(&ip);
            return false;
        }
        begun.millis_since(*self.0.entry(ip).or_insert(begun)) >= BETWEEN_LISTS_MS
    }

    /// When the next list is wanted after one that was begun at `begun`, if any is.
    pub(super) fn undecided(&self, begun: Moment) -> Option<Moment> {
        let ends = self.0.values().map(|since| since.plus_millis(BETWEEN_LISTS_MS));
        ends.filter(|end| begun < *end).min()
    }

    /// Forgets all but these.
    pub(super) fn keep(&mut self, wanted: impl Fn(&Address) -> bool) {
        self.0.retain(|ip, _| wanted(ip));
    }
}
