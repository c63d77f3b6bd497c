//! Where one account's token is refused, and when it is tried there again.
//!
//! Invariant: where a token was refused, one call a minute finds out whether it still is, and no more than one a minute
//! over all zones of the token; other zones go on. A token that two zones have newly refused, while no call about records
//! was accepted, is in doubt: with it all zones wait for that one call, and those that refused nothing yet have it first.

use crate::mechanism::retry::Schedule;
use crate::model::moment::{Context, Moment};
use crate::records::dns::Access;
use std::collections::{BTreeMap, BTreeSet};

/// Refused, a token is tried once a minute.
pub(super) const REFUSED_INTERVAL_MS: u64 = 60_000;

/// So many zones that refuse a token which no other one accepts are enough to put it in doubt. One may be out of scope.
const REFUSALS_TO_DOUBT: usize = 2;

/// How much earlier a token in doubt is tried where it was not refused than where it was.
const HEAD_START_MS: u64 = 500;

/// How long, from its turn, the read of a zone that was found again goes before the lookups of others.
const READ_FIRST_MS: u64 = 10_000;

/// A zone in which the token was refused.
#[derive(Debug)]
struct Gate {
    until: Moment,
    message: String,
    /// Its zone was found again: until then its read goes before the lookups of others.
    reads_first: Option<Moment>,
}

/// What one token was refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    gates: BTreeMap<(String, Access), Gate>,
    probe_due: Moment,
    /// Zones that refused the token, and had not before, since a call about records was accepted.
    refused: BTreeSet<String>,
}

impl Refusals {
    /// Why the token is refused in a zone.
    pub(super) fn message(&self, zone: &str) -> Option<&str> {
        self.gate(zone, Access::Write).map(|gate| gate.message.as_str())
    }

    /// The token may not read in a zone.
    pub(super) fn refuses_reads(&self, zone: &str) -> bool {
        self.gates.contains_key(&(zone.to_owned(), Access::Read))
    }

    /// The token may be refused wherever it is tried.
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

    /// Until when lookups of doubted zones wait for the read of one that was found again: with a lookup alone no token shows
    /// that it may read.
    pub(super) fn next_read(&self, now: Moment) -> Option<Moment> {
        self.gates.values().filter_map(|gate| gate.reads_first).filter(|until| *until > now).max()
    }

    /// Whoever may not read need not try to write.
    fn gate(&self, zone: &str, access: Access) -> Option<&Gate> {
        let read = self.gates.get(&(zone.to_owned(), Access::Read));
        read.or_else(|| self.gates.get(&(zone.to_owned(), access)))
    }

    /// A call goes out. Where the token was refused it is the one that finds out whether it still is.
    pub(super) fn sent(&mut self, zone: &str, access: Access, now: Moment) {
        if self.gate(zone, access).is_some() || self.is_in_doubt() {
            self.probe_due = now.plus_millis(REFUSED_INTERVAL_MS);
        }
    }

    /// A call went well.
    pub(super) fn granted(&mut self, zone: &str, access: Access, now: Moment) {
        if self.gates.remove(&(zone.to_owned(), access)).is_some() {
            // The token is right again, at least here.
            self.try_all(now);
        }
    }

    /// A call about records was accepted: what is refused elsewhere is so for another reason than the token.
    pub(super) fn accepted(&mut self, now: Moment) {
        if self.is_in_doubt() {
            self.try_all(now);
        }
        self.refused.clear();
    }

    /// The token is tried at once wherever it is refused.
    fn try_all(&mut self, now: Moment) {
        self.probe_due = now;
        self.gates.values_mut().for_each(|gate| gate.until = now);
    }

    /// A zone, which has this id, refuses the token. `named` are the ids of all zones that are in use.
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
        let gate = Gate { until: now, message: message.to_owned(), reads_first: None };
        self.gates.insert(key.clone(), gate);
        // One try a minute for the token: every other zone has its turn before this one comes again.
        let zones = self.gates.keys().map(|(zone, _)| zone.as_str()).filter(|zone| named.contains(zone));
        let turns = zones.collect::<BTreeSet<_>>().len().max(1);
        let turns = u64::try_from(turns).unwrap_or(u64::MAX);
        let wait_ms = Schedule::Unauthorised.delay_ms(1, jitter).saturating_mul(turns);
        self.gates.entry(key).and_modify(|gate| gate.until = now.plus_millis(wait_ms));
    }

    /// A zone refuses the token which did not before.
    fn refused_anew(&mut self, id: &str, now: Moment) {
        let before = self.is_in_doubt();
        self.refused.insert(id.to_owned());
        if self.is_in_doubt() && !before {
            self.probe_due = self.probe_due.max(now.plus_millis(REFUSED_INTERVAL_MS));
        }
    }

    /// A zone was found again under its id.
    pub(super) fn found_again(&mut self, id: &str, now: Moment) {
        for (_, gate) in self.gates.iter_mut().filter(|((gated, _), _)| gated == id) {
            gate.until = now;
            gate.reads_first = Some(self.probe_due.max(now).plus_millis(READ_FIRST_MS));
        }
    }

    /// A zone has this id no more.
    pub(super) fn forget(&mut self, id: &str) {
        self.gates.retain(|(gated, _), _| gated != id);
    }

    /// Keeps what was refused in zones that are still in use, and elsewhere until it may be tried again: an object that comes
    /// back meanwhile waits for its turn.
    pub(super) fn retain(&mut self, is_used: impl Fn(&str) -> bool, now: Moment) {
        self.gates.retain(|(zone, _), gate| gate.until > now || is_used(zone));
    }
}
