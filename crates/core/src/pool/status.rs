//! The status of a pool as data, and when it is written.

use super::memory::Memory;
use crate::condition::Condition;
use crate::fault::WriteFailure;
use crate::ids::DropletId;
use crate::moment::{Context, Moment};
use crate::retry::{Pace, Retry};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

crate::described! {
    /// State of an address, as status and metrics name it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IpState {
        /// The address is on a matching node, and the provider has confirmed it.
        Active = "active",
        /// An operation on the address is under way.
        InProgress = "in-progress",
        /// The last operation on the address failed, or the address cannot be used. `error` of the address says why.
        Error = "error",
        /// The address is on a droplet that is not a matching node.
        NoMatch = "no-match",
        /// The address is on no droplet.
        Unassigned = "unassigned",
        /// The pool does not use the address, because it already uses `desiredIPs` others.
        Disabled = "disabled",
    }
    /// The word in status and metrics.
    fn as_str -> &'static str;
}

/// One entry of `status.ips`; empty strings mean absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpEntry {
    /// One of [`IpState`]'s words.
    pub state: String,
    /// The matching node that it is on.
    pub node_name: String,
    /// The provider ID of the droplet that it is on.
    pub provider_id: String,
    /// What is wrong.
    pub error: String,
}

/// The status of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolStatus {
    /// By address; entries of `spec.ips` that are no address appear as written.
    pub ips: BTreeMap<String, IpEntry>,
    /// How many addresses the pool uses, those included that are still to be created; `None` before anybody counted.
    pub used_ips: Option<i64>,
    /// Candidates that wait for an address, sorted.
    pub assignable_nodes: Vec<String>,
    /// Candidates whose assignment failed or is blocked, sorted.
    pub node_errors: Vec<String>,
    /// Spec error or last creation error.
    pub error: String,
    /// Conditions, sorted by type.
    pub conditions: Vec<Condition>,
    /// The generation that this describes.
    pub observed_generation: i64,
    /// What has to survive a restart.
    pub memory: Option<Memory>,
    /// The record set as last published.
    pub record_set: Option<PublishedSet>,
}

/// What of a record set is published.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishedSet {
    /// Fully qualified name of the records.
    pub fqdn: String,
    /// The addresses that the records hold, sorted.
    pub addresses: Vec<Ipv4Addr>,
}

impl PoolStatus {
    /// Whether it says that an address serves nowhere.
    #[must_use]
    pub fn calls_idle(&self, ip: Ipv4Addr) -> bool {
        let idle = [IpState::NoMatch, IpState::Unassigned, IpState::Error, IpState::Disabled];
        let state = self.ips.get(&ip.to_string()).map(|entry| entry.state.as_str());
        state.is_some_and(|state| idle.iter().any(|idle| idle.as_str() == state))
    }

    /// Whether an address stands here as created, so that it survives a restart.
    #[must_use]
    pub fn remembers(&self, ip: Ipv4Addr) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_created(ip))
    }

    /// Addresses that, by this status, are active, and their droplets.
    pub fn serving(&self) -> impl Iterator<Item = (Ipv4Addr, DropletId)> {
        let active = self.ips.iter().filter(|(_, entry)| entry.state == IpState::Active.as_str());
        active.filter_map(|(ip, entry)| {
            Some((ip.parse().ok()?, DropletId::from_provider_id(&entry.provider_id)?))
        })
    }

    /// The addresses that, by this status, the pool held: those that it lists, but for entries that are no more than
    /// an error.
    #[must_use]
    pub fn held_addresses(&self) -> BTreeSet<Ipv4Addr> {
        let held = |entry: &IpEntry| entry.state != IpState::Error.as_str() || !entry.provider_id.is_empty();
        self.ips.iter().filter(|(_, entry)| held(entry)).filter_map(|(ip, _)| ip.parse().ok()).collect()
    }
}

impl PoolStatus {
    /// Whether a write would change anything. With `outdated_crds` only what the Go operator's CRDs keep is compared.
    #[must_use]
    pub fn same_as(&self, on_server: &Self, outdated_crds: bool) -> bool {
        if !outdated_crds {
            return self == on_server;
        }
        let Self { ips, assignable_nodes, node_errors, error, .. } = self;
        *ips == on_server.ips
            && *assignable_nodes == on_server.assignable_nodes
            && *node_errors == on_server.node_errors
            && *error == on_server.error
    }

    /// Whether the server kept this without what a creation must not lose, as it does where the installed CRDs know
    /// nothing of it. A pool that has no memory yet shows it by its conditions, of which there are always some.
    #[must_use]
    pub fn is_pruned_to(&self, kept: &Self) -> bool {
        let memory = self.memory.is_some() && self.memory != kept.memory;
        memory || (!self.conditions.is_empty() && kept.conditions.is_empty())
    }
}

/// Writes of one object under way, and their retries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Writes<S = PoolStatus> {
    status_in_flight: Option<Box<S>>,
    /// A conflict was answered: the watch will show the newer version, and until it does the write is tried in vain.
    awaiting_version: bool,
    /// The watch showed the object while the last write was under way.
    observed_in_flight: bool,
    status: Retry,
    ips_in_flight: bool,
    ips: Retry,
    /// Why the last write of `spec.ips` was refused, for a condition. A refused status can tell nothing of itself.
    pub ips_denied: Option<String>,
}

impl<S> Writes<S> {
    /// The watch showed the object.
    pub fn observed_again(&mut self) {
        self.observed_in_flight = true;
        if std::mem::take(&mut self.awaiting_version) {
            self.status.put_off_to(Moment::default());
        }
    }

    /// Whether a status may be written now, and if not, when to look again.
    ///
    /// # Errors
    /// The moment, if it is time alone that is missing.
    pub fn status_ready(&self, now: Moment) -> Result<(), Option<Moment>> {
        match &self.status_in_flight {
            Some(_) => Err(None),
            None if self.status.due() > now => Err(Some(self.status.due())),
            None => Ok(()),
        }
    }

    /// The last status write that was answered has failed.
    #[must_use]
    pub fn is_status_failing(&self) -> bool {
        self.status.is_failing()
    }

    /// A status write goes out.
    pub fn status_sent(&mut self, status: S) {
        self.observed_in_flight = false;
        self.status_in_flight = Some(Box::new(status));
    }

    /// A status write was answered; returns what was written.
    pub fn status_done(
        &mut self,
        failure: Option<&WriteFailure>,
        at @ Context { now, .. }: Context,
    ) -> Option<S> {
        let written = self.status_in_flight.take();
        match failure {
            None => self.status.succeeded(),
            Some(WriteFailure::NotSent) => {}
            Some(failure) => {
                let conflict = matches!(failure, WriteFailure::Conflict);
                if conflict && self.observed_in_flight {
                    // The watch was faster than the answer: what is written next is based on what it showed.
                    self.status.put_off_to(now);
                    return written.map(|status| *status);
                }
                self.awaiting_version = conflict;
                self.status.failed(Pace::of_write(failure), at);
            }
        }
        written.map(|status| *status)
    }

    /// Whether `spec.ips` may be written now, and if not, when to look again.
    ///
    /// # Errors
    /// The moment, if it is time alone that is missing.
    pub fn ips_ready(&self, now: Moment) -> Result<(), Option<Moment>> {
        match self.ips_in_flight {
            true => Err(None),
            false if self.ips.due() > now => Err(Some(self.ips.due())),
            false => Ok(()),
        }
    }

    /// A write of `spec.ips` goes out.
    pub fn ips_sent(&mut self) {
        self.ips_in_flight = true;
    }

    /// A write of `spec.ips` was answered.
    pub fn ips_done(&mut self, failure: Option<&WriteFailure>, at: Context) {
        self.ips_in_flight = false;
        match failure {
            None => {
                self.ips.succeeded();
                self.ips_denied = None;
            }
            Some(WriteFailure::NotSent) => {}
            Some(failure) => {
                self.ips.failed(Pace::of_write(failure), at);
                if let WriteFailure::Forbidden(message) | WriteFailure::Invalid(message) = failure {
                    self.ips_denied = Some(message.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_whose_cause_was_seen_already_is_written_again_at_once() {
        let now = Moment::from_millis(5_000);
        for (seen_before_the_answer, ready) in [(true, Ok(())), (false, Err(Some(now.plus_millis(1_000))))] {
            let mut writes = Writes::default();
            writes.status_sent(PoolStatus::default());
            if seen_before_the_answer {
                writes.observed_again();
            }
            writes.status_done(Some(&WriteFailure::Conflict), Context::exactly(now));
            assert_eq!(writes.status_ready(now), ready);
        }
        let mut writes = Writes::default();
        writes.status_sent(PoolStatus::default());
        writes.status_done(Some(&WriteFailure::Conflict), Context::exactly(now));
        writes.observed_again();
        assert_eq!(writes.status_ready(now), Ok(()), "and at once when the watch shows it");
    }
}
