//! Addresses that lists leave out or show elsewhere. A single list never decides that one is gone.

use crate::model::ids::Address;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// The least time between two lists that together show that an address is new or has left its place.
pub(super) const BETWEEN_LISTS_MS: u64 = 30_000;

/// The first list from which each address was missing. A restart may lose this, because an address counts until it is
/// known to be gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Absences(BTreeMap<Address, Moment>);

impl Absences {
    /// Whether two lists agree that an address is gone. The newer one began at `begun`.
    pub(super) fn is_gone(&mut self, ip: Address, there: bool, begun: Moment) -> bool {
        if there {
            self.0.remove(&ip);
            return false;
        }
        begun.millis_since(*self.0.entry(ip).or_insert(begun)) >= BETWEEN_LISTS_MS
    }

    /// When the next list is wanted after one that began at `begun`, if another is needed.
    pub(super) fn undecided(&self, begun: Moment) -> Option<Moment> {
        let ends = self.0.values().map(|since| since.plus_millis(BETWEEN_LISTS_MS));
        ends.filter(|end| begun < *end).min()
    }

    /// Forgets all addresses but these.
    pub(super) fn keep(&mut self, wanted: impl Fn(&Address) -> bool) {
        self.0.retain(|ip, _| wanted(ip));
    }
}
