//! How long the phases of a failover take, from the lost match until the name shows the address on its new node.

use super::Fleet;
use super::dns::Dns;
use crate::addresses::pool::losses::{Change, Failover};
use crate::model::{Address, Moment, Uid};
use crate::records::set::Set;
use std::collections::BTreeMap;

/// A phase of a failover, named by how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailoverPhase {
    /// The plan after the loss found it.
    Noticed,
    /// The request to the provider was sent.
    Requested,
    /// The provider confirmed the move.
    Confirmed,
    /// The pool's records hold the address.
    Published,
}

impl FailoverPhase {
    /// All phases, in order.
    pub const ALL: [Self; 4] = [Self::Noticed, Self::Requested, Self::Confirmed, Self::Published];

    /// The phase as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Noticed => "noticed",
            Self::Requested => "requested",
            Self::Confirmed => "confirmed",
            Self::Published => "published",
        }
    }
}

/// An address whose name does not show it yet.
#[derive(Debug)]
struct Unpublished {
    lost: Moment,
    confirmed: Moment,
}

/// The measured times, and the failovers still under way.
#[derive(Debug, Default)]
pub(super) struct Failovers {
    unpublished: BTreeMap<(Uid, Address), Unpublished>,
    /// Milliseconds from the lost match to the end of a phase.
    measured: Vec<(FailoverPhase, u64)>,
}

impl Failovers {
    /// Notes that an address is confirmed on its new node.
    pub(super) fn confirmed(&mut self, pool: &Uid, change: &Change) {
        let Some(Failover { lost, noticed_ms, requested_ms, confirmed_ms }) = change.failover else { return };
        self.measured.extend([
            (FailoverPhase::Noticed, noticed_ms),
            (FailoverPhase::Requested, requested_ms),
            (FailoverPhase::Confirmed, confirmed_ms),
        ]);
        let waits = Unpublished { lost, confirmed: change.at };
        self.unpublished.insert((pool.clone(), change.ip), waits);
    }

    /// Returns the addresses whose names now show them, each with the moment of its confirmation.
    fn published(&mut self, dns: &Dns, now: Moment) -> Vec<(Address, Moment)> {
        let mut shown = Vec::new();
        self.unpublished.retain(|(pool, ip), Unpublished { lost, confirmed }| {
            if dns.set(pool).and_then(Set::site).is_none() {
                return false;
            }
            if dns.shows(pool, *ip) {
                shown.push((*ip, *confirmed));
                self.measured.push((FailoverPhase::Published, now.millis_since(*lost)));
                return false;
            }
            true
        });
        shown
    }

    /// Forgets everything when leadership ends or begins again, because the work of other processes is not measured.
    pub(super) fn forget(&mut self) {
        self.unpublished.clear();
    }
}

impl Fleet {
    /// Notes which failovers are now published.
    pub(super) fn note_published(&mut self, now: Moment) {
        for (ip, confirmed) in self.failovers.published(&self.dns, now) {
            self.changes.published(ip, confirmed, now);
        }
    }

    /// Milliseconds from each lost match to the end of each phase of its failover, since the last call.
    pub fn take_failovers(&mut self) -> Vec<(FailoverPhase, u64)> {
        std::mem::take(&mut self.failovers.measured)
    }
}
