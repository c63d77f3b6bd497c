//! The zones that refuse one account's token, and when each is tried again.
//!
//! Invariant: after a refusal, one call a minute tests the token, over all zones that refuse it. Other zones go on. If
//! two zones newly refuse the token and no call about records was accepted, the token is in doubt. Then all zones wait
//! for that one call, and zones that have refused nothing yet get it first.
//!
//! `RefusedRight` does not fit: its refusals concern all that needs a right, and each ends by itself. Here the zones
//! take turns with one call, and a zone that refuses says little about the others.

use crate::mechanism::{REFUSED_INTERVAL_MS, Schedule};
use crate::model::{Context, Moment};
use crate::records::dns::Access;
use std::collections::{BTreeMap, BTreeSet};

/// A token is in doubt when this many zones newly refuse it and none accepts it. A single zone may be out of scope.
const REFUSALS_TO_DOUBT: usize = 2;

/// How much earlier a token in doubt is tried in a zone that has not refused it.
const HEAD_START_MS: u64 = 500;

/// How long, from its turn, the read of a zone that was found again takes precedence over lookups of other zones.
const READ_FIRST_MS: u64 = 10_000;

/// A zone in which the token was refused.
#[derive(Debug)]
struct ZoneRefusal {
    until: Moment,
    message: String,
    /// The zone was found again. Until then its read takes precedence over lookups of other zones.
    reads_first: Option<Moment>,
}

/// The refusals of one token.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    gates: BTreeMap<(String, Access), ZoneRefusal>,
    probe_due: Moment,
    /// Zones that newly refused the token since a call about records was last accepted.
    refused: BTreeSet<String>,
}

impl Refusals {
    /// The provider's words at the last refusal in a zone.
    pub(super) fn message(&self, zone: &str) -> Option<&str> {
        self.gate(zone, Access::Write).map(|gate| gate.message.as_str())
    }

    /// Whether a zone refuses reads.
    pub(super) fn refuses_reads(&self, zone: &str) -> bool {
        self.gates.contains_key(&(zone.to_owned(), Access::Read))
    }

    /// Whether all zones may refuse the token.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.refused.len() >= REFUSALS_TO_DOUBT
    }

    /// Until when a call to a zone waits.
    pub(super) fn waits_until(&self, zone: &str, access: Access, now: Moment) -> Option<Moment> {
        let in_doubt = self.is_in_doubt();
        let again = self.probe_due.plus_millis(if in_doubt { HEAD_START_MS } else { 0 });
        let gated = self.gate(zone, access).map(|gate| gate.until.max(again));
        gated.or(in_doubt.then_some(self.probe_due)).filter(|until| *until > now)
    }

    /// Until when lookups of doubted zones wait for the read of a zone that was found again. A lookup alone never
    /// proves that a token may read.
    pub(super) fn next_read(&self, now: Moment) -> Option<Moment> {
        self.gates.values().filter_map(|gate| gate.reads_first).filter(|until| *until > now).max()
    }

    /// A token that may not read a zone need not try to write there.
    fn gate(&self, zone: &str, access: Access) -> Option<&ZoneRefusal> {
        let read = self.gates.get(&(zone.to_owned(), Access::Read));
        read.or_else(|| self.gates.get(&(zone.to_owned(), access)))
    }

    /// Notes that a call is sent. If the token was refused, this call tests whether it still is.
    pub(super) fn sent(&mut self, zone: &str, access: Access, now: Moment) {
        if self.gate(zone, access).is_some() || self.is_in_doubt() {
            self.probe_due = now.plus_millis(REFUSED_INTERVAL_MS);
        }
    }

    /// Notes that a call succeeded.
    pub(super) fn granted(&mut self, zone: &str, access: Access, now: Moment) {
        if self.gates.remove(&(zone.to_owned(), access)).is_some() {
            // The token works again, at least here.
            self.try_all(now);
        }
    }

    /// Notes that a call about records was accepted. So refusals elsewhere have another cause than the token.
    pub(super) fn accepted(&mut self, now: Moment) {
        if self.is_in_doubt() {
            self.try_all(now);
        }
        self.refused.clear();
    }

    /// The token is tried at once in every zone that refuses it.
    fn try_all(&mut self, now: Moment) {
        self.probe_due = now;
        self.gates.values_mut().for_each(|gate| gate.until = now);
    }

    /// Notes that the zone with this id refuses the token. `named` holds the ids of all zones in use.
    pub(super) fn refused(
        &mut self,
        (zone, id): (&str, &str),
        (access, message): (Access, &str),
        named: &BTreeSet<&str>,
        Context { now, jitter }: Context,
    ) {
        if !self.gates.keys().any(|(gated, _)| gated == zone) {
            self.refused_anew(id, now);
        }
        let key = (zone.to_owned(), access);
        let gate = ZoneRefusal { until: now, message: message.to_owned(), reads_first: None };
        self.gates.insert(key.clone(), gate);
        // The token is tried once a minute, so this zone is tried again only after every other zone has had its turn.
        let zones = self.gates.keys().map(|(zone, _)| zone.as_str()).filter(|zone| named.contains(zone));
        let turns = zones.collect::<BTreeSet<_>>().len().max(1);
        let turns = u64::try_from(turns).unwrap_or(u64::MAX);
        let wait_ms = Schedule::Unauthorized.delay_ms(1, jitter).saturating_mul(turns);
        self.gates.entry(key).and_modify(|gate| gate.until = now.plus_millis(wait_ms));
    }

    /// Notes a zone that refuses the token for the first time.
    fn refused_anew(&mut self, id: &str, now: Moment) {
        let before = self.is_in_doubt();
        self.refused.insert(id.to_owned());
        if self.is_in_doubt() && !before {
            self.probe_due = self.probe_due.max(now.plus_millis(REFUSED_INTERVAL_MS));
        }
    }

    /// Notes that a zone was found again under its id.
    pub(super) fn found_again(&mut self, id: &str, now: Moment) {
        for (_, gate) in self.gates.iter_mut().filter(|((gated, _), _)| gated == id) {
            gate.until = now;
            gate.reads_first = Some(self.probe_due.max(now).plus_millis(READ_FIRST_MS));
        }
    }

    /// Forgets an id that no zone has any more.
    pub(super) fn forget(&mut self, id: &str) {
        self.gates.retain(|(gated, _), _| gated != id);
    }

    /// Keeps the refusals of zones in use, and all others until they may be retried. An object that comes back before
    /// then waits for its turn.
    pub(super) fn retain(&mut self, is_used: impl Fn(&str) -> bool, now: Moment) {
        self.gates.retain(|(zone, _), gate| gate.until > now || is_used(zone));
    }
}
