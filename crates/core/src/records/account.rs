//! The parts of an account that record sets share: its budget, the zones that its token can see, the calls under way,
//! and the zones that refuse the token (`refusals`).
//!
//! A zone that was recreated has a new id, and its former id refuses the token. So when a zone that was found by name
//! refuses the token, every other retry looks up the name.
//!
//! A former id is not always refused at once, and a zone may change its plan. So a name in use is looked up again now
//! and then, one name at a time and after all other calls. The known zone is used until such a lookup returns another.

use super::name::ZoneRef;
use super::refusals::Refusals;
use crate::mechanism::{Budget, Epoch, Failure, Outage, Pace, REFUSED_INTERVAL_MS, Schedule};
use crate::model::provider::{Rules, ZoneForm};
use crate::model::{AccountId, CallFailure, Context, Fault, FaultKind, Moment};
use crate::records::dns::{Access, Zone};
use std::collections::{BTreeMap, BTreeSet};

/// A zone whose name the token could not read is looked up again after this long. A scope may be granted at any time.
const UNNAMED_INTERVAL_MS: u64 = 600_000;

/// A name in use is looked up again after this long, whatever the last lookup returned. Record sets are reread at the
/// same interval.
const RENEWAL_MS: u64 = 600_000;

/// The most DNS calls under way per account. It bounds memory and sockets when many sets are read at once.
const MAX_CALLS: usize = 32;

/// The most calls about records under way in one zone. Calls that hang there leave room for other zones.
const MAX_CALLS_IN_ZONE: usize = 16;

/// Rereads start only while fewer calls than this are under way. No change waits for a reread.
const MAX_BEFORE_REREADS: usize = 16;

/// Rereads start only while fewer calls than this are under way in their zone, so hanging rereads hold up no change
/// there.
const MAX_IN_ZONE_BEFORE_REREADS: usize = 8;

/// Why a zone is being looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// It is unknown or in doubt.
    Find,
    /// It is known, but the name may mean another zone by now, or the zone may accept other TTLs.
    Renew,
}

/// A zone that some set names.
#[derive(Debug, Default)]
struct Lookup {
    found: Option<Zone>,
    in_flight: Option<Search>,
    /// The name may mean another zone by now. The known zone is used until another lookup answers.
    doubted: bool,
    due: Moment,
    failure: Option<Failure<()>>,
    /// When to check again that the name still means this zone.
    renewal_due: Moment,
}

/// One account at a provider of DNS.
#[derive(Debug)]
pub struct DnsAccount {
    epoch: Epoch,
    rules: Rules,
    /// `None` if another account with the same token has it.
    budget: Option<Budget>,
    lookups: BTreeMap<ZoneRef, Lookup>,
    refusals: Refusals,
    /// Whether its calls fail altogether. A token that also has addresses has an outage of its own for those.
    pub(crate) outage: Outage,
    /// Calls under way.
    calls: usize,
    /// Calls about records, by zone.
    busy: BTreeMap<String, usize>,
}

impl DnsAccount {
    /// An account about which nothing is known yet.
    pub fn new(id: AccountId, rules: Rules, budget: Option<Budget>) -> Self {
        Self {
            epoch: Epoch::first(id),
            rules,
            budget,
            lookups: BTreeMap::new(),
            refusals: Refusals::default(),
            outage: Outage::default(),
            calls: 0,
            busy: BTreeMap::new(),
        }
    }

    /// The present epoch.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Ends the epoch, because leadership begins.
    pub fn restart(&mut self) {
        self.epoch.end();
    }

    /// The rules of the provider.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The budget, unless another account keeps it.
    pub fn budget(&mut self) -> Option<&mut Budget> {
        self.budget.as_mut()
    }

    /// Requests left in the quota, as far as known. `None` if another account has the budget.
    pub fn rate_remaining(&self) -> Option<Option<u64>> {
        self.budget.as_ref().map(Budget::remaining)
    }

    /// The zone that this reference means, as far as known.
    pub fn zone(&self, zone: &ZoneRef) -> Option<Zone> {
        if self.rules.zone_form == ZoneForm::Name {
            let name = zone.text().to_owned();
            return Some(Zone {
                id: name.clone(),
                name: Some(name),
                shown: None,
                ttl_floor: self.rules.ttl_floor,
            });
        }
        let found = |lookup: &Lookup| lookup.found.clone();
        // Ids change, so only a lookup by name tells what a name means.
        let same = |found: &&Zone| matches!(zone, ZoneRef::Id(id) if found.id == *id);
        let own = self.lookups.get(zone).and_then(found);
        own.or_else(|| self.lookups.values().filter_map(|lookup| lookup.found.as_ref()).find(same).cloned())
    }

    /// Whether no lookup of the zone has given a final answer yet.
    pub fn is_unasked(&self, zone: &ZoneRef) -> bool {
        let passes = |kind| Schedule::of(kind) == Schedule::Fast;
        self.zone(zone).is_none() && self.zone_failure(zone).is_none_or(|(kind, ..)| passes(kind))
    }

    /// The reason why a zone is not known.
    pub fn zone_failure(&self, zone: &ZoneRef) -> Option<(FaultKind, u32, &str)> {
        let lookup = self.lookups.get(zone).filter(|lookup| lookup.found.is_none())?;
        let failure = lookup.failure.as_ref()?;
        Some((failure.kind, failure.retry.tries(), failure.message.as_str()))
    }

    /// Whether a zone has to be looked up now.
    ///
    /// # Errors
    /// When to look again, if a time is known.
    pub fn lookup_due(&self, zone: &ZoneRef, now: Moment) -> Result<(), Option<Moment>> {
        if self.rules.zone_form == ZoneForm::Name {
            return Err(None);
        }
        let known = self.zone(zone);
        let named = known.as_ref().is_some_and(|zone| zone.name.is_some());
        match self.lookups.get(zone) {
            Some(lookup) if lookup.in_flight.is_some() => Err(None),
            Some(Lookup { doubted: true, failure: None, .. }) => match self.refusals.next_read(now) {
                Some(at) => Err(Some(at)),
                None => Ok(()),
            },
            Some(Lookup { doubted: false, .. }) | None if named => Err(None),
            Some(lookup) if lookup.due > now => Err(Some(lookup.due)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the name of a known zone has to be looked up again now.
    ///
    /// # Errors
    /// When to look again, if a time is known.
    pub fn renewal_due(&self, zone: &ZoneRef, now: Moment) -> Result<(), Option<Moment>> {
        let Some(lookup) = self.lookups.get(zone).filter(|_| matches!(zone, ZoneRef::Name(_))) else {
            return Err(None);
        };
        let refused = |found: &Zone| self.refusals.refuses_reads(&found.id);
        // Zones that refuse reads have their own turns for a lookup.
        if lookup.in_flight.is_some() || lookup.doubted || lookup.found.as_ref().is_none_or(refused) {
            return Err(None);
        }
        if lookup.renewal_due > now {
            return Err(Some(lookup.renewal_due));
        }
        if self.refusals.is_in_doubt() {
            // The one call a minute is left to calls that show more.
            return Err(None);
        }
        let busy = self.lookups.values().any(|lookup| lookup.in_flight == Some(Search::Renew));
        if busy { Err(None) } else { Ok(()) }
    }

    /// Notes that a known zone is being looked up again.
    pub fn renewing(&mut self, zone: &ZoneRef) {
        if let Some(lookup) = self.lookups.get_mut(zone) {
            lookup.in_flight = Some(Search::Renew);
        }
    }

    /// The zone whose refusal a lookup has to wait for: the id that is in doubt.
    pub fn lookup_gate<'a>(&'a self, zone: &'a ZoneRef) -> &'a str {
        let found = self.lookups.get(zone).and_then(|lookup| lookup.found.as_ref());
        found.map_or(zone.text(), |found| found.id.as_str())
    }

    /// Notes that a zone is being looked up.
    pub fn looking_up(&mut self, zone: &ZoneRef) {
        let lookup = self.lookups.entry(zone.clone()).or_default();
        lookup.in_flight = Some(Search::Find);
        lookup.doubted = false;
    }

    /// Takes in the answer to a lookup of a zone.
    pub fn looked_up(
        &mut self,
        zone: &ZoneRef,
        result: Result<Zone, CallFailure>,
        at @ Context { now, .. }: Context,
    ) {
        let lookup = self.lookups.entry(zone.clone()).or_default();
        // If the zone was dropped meanwhile, this is an ordinary lookup.
        let renews = lookup.in_flight.take() == Some(Search::Renew) && lookup.found.is_some();
        lookup.renewal_due = now.plus_millis(RENEWAL_MS);
        match result {
            Err(CallFailure::NotSent) => {}
            Ok(found) => {
                lookup.failure = None;
                lookup.due = now.plus_millis(UNNAMED_INTERVAL_MS);
                let before = lookup.found.replace(found);
                if let Some(before) =
                    before.filter(|before| lookup.found.as_ref().is_some_and(|found| found.id != before.id))
                {
                    self.refusals.forget(&before.id);
                } else if let Some(found) = lookup.found.as_ref().filter(|_| !renews) {
                    self.refusals.found_again(&found.id, now);
                }
            }
            // The lookup failed, not the zone. The known zone is used, and only calls to it can show that it is gone.
            Err(CallFailure::Fault(fault)) if renews => {
                lookup.renewal_due =
                    lookup.renewal_due.max(now.plus_millis(fault.retry_after_ms.unwrap_or(0)));
                if fault.kind == FaultKind::Unauthorized {
                    // Other names are probably refused too.
                    let next = now.plus_millis(REFUSED_INTERVAL_MS);
                    let others = self.lookups.values_mut();
                    others.for_each(|lookup| lookup.renewal_due = lookup.renewal_due.max(next));
                }
            }
            Err(CallFailure::Fault(fault)) => {
                if matches!(zone, ZoneRef::Name(_)) && fault.kind == FaultKind::NotFound {
                    lookup.found = None;
                }
                let what = (fault.kind, fault.message.as_str());
                Failure::note(&mut lookup.failure, what, ((), 0), Pace::of(&fault), at);
                lookup.due = lookup.failure.as_ref().map_or(now, |failure| failure.retry.due());
            }
        }
    }

    /// Notes that the zone does not exist under this id. It is looked up again later, since its name may have a new
    /// id.
    pub fn zone_gone(&mut self, id: &str, message: &str, at @ Context { now, .. }: Context) {
        for lookup in self.lookups.values_mut() {
            if lookup.found.as_ref().is_some_and(|zone| zone.id == id) {
                lookup.found = None;
                let kind = FaultKind::NotFound;
                Failure::note(
                    &mut lookup.failure,
                    (kind, message),
                    ((), 0),
                    Pace::by(Schedule::of(kind)),
                    at,
                );
                lookup.due = lookup.failure.as_ref().map_or(now, |failure| failure.retry.due());
            }
        }
    }

    /// Doubts the name of a zone that refuses the token, because the former id of a recreated or transferred zone does
    /// that too.
    pub fn doubt(&mut self, id: &str) {
        for (zone, lookup) in &mut self.lookups {
            if matches!(zone, ZoneRef::Name(_)) && lookup.found.as_ref().is_some_and(|found| found.id == id) {
                lookup.doubted = true;
            }
        }
    }

    /// Hastens the lookup of a zone without a known name after a failed call. The lookup may show the name by now, and
    /// with it the cause.
    pub fn name_may_show(&mut self, id: &str, now: Moment) {
        for lookup in self.lookups.values_mut() {
            let unnamed = |zone: &Zone| zone.id == id && zone.name.is_none() && zone.shown.is_none();
            if lookup.found.as_ref().is_some_and(unnamed) {
                lookup.due = lookup.due.min(now);
            }
        }
    }

    /// Keeps only zones that are still named.
    pub fn retain(&mut self, named: impl Fn(&ZoneRef) -> bool, now: Moment) {
        self.lookups.retain(|zone, lookup| lookup.in_flight.is_some() || named(zone));
        let lookups = &self.lookups;
        let is_found = |id: &str| {
            let mut known = lookups.values().filter_map(|lookup| lookup.found.as_ref());
            known.any(|zone| zone.id == id)
        };
        let is_written =
            |zone: &str| [ZoneRef::Name(zone.to_owned()), ZoneRef::Id(zone.to_owned())].iter().any(&named);
        self.refusals.retain(|zone| is_found(zone) || is_written(zone), now);
    }

    /// Takes in a change of the token. Calls that the old token was refused may work now.
    pub fn token_changed(&mut self) {
        self.epoch.end();
        self.refusals = Refusals::default();
        for (zone, lookup) in &mut self.lookups {
            // Another account may have another zone of this name.
            lookup.doubted =
                matches!(zone, ZoneRef::Name(_)) && (lookup.found.is_some() || lookup.in_flight.is_some());
            lookup.failure = None;
            lookup.due = Moment::default();
        }
    }

    /// Makes every lookup due that failed with the account, because its outage is over.
    pub(crate) fn release(&mut self, now: Moment) {
        for lookup in self.lookups.values_mut() {
            Failure::release(&mut lookup.failure, now);
            lookup.due = lookup.failure.as_ref().map_or(lookup.due, |failure| failure.retry.due());
        }
    }

    /// Whether a call may be sent to a zone now.
    ///
    /// # Errors
    /// When to ask again, if only time is missing.
    pub fn admit(&self, zone: &str, access: Access, now: Moment) -> Result<(), Option<Moment>> {
        if self.calls >= MAX_CALLS || self.calls_in(zone) >= MAX_CALLS_IN_ZONE {
            return Err(None);
        }
        match self.refusals.waits_until(zone, access, now) {
            Some(until) => Err(Some(until)),
            None => Ok(()),
        }
    }

    /// Whether the zone has refused nothing and the token is not in doubt. Only then may a read that nothing waits for
    /// go there.
    pub fn is_trusted(&self, zone: &str) -> bool {
        self.refusals.message(zone).is_none() && !self.refusals.is_in_doubt()
    }

    /// Whether so many calls are under way that rereads in this zone wait.
    pub fn is_loaded(&self, zone: &str) -> bool {
        self.calls >= MAX_BEFORE_REREADS || self.calls_in(zone) >= MAX_IN_ZONE_BEFORE_REREADS
    }

    /// Whether the token may be refused altogether. Then one call a minute tests that.
    pub fn is_in_doubt(&self) -> bool {
        self.refusals.is_in_doubt()
    }

    /// The provider's words at the last refusal in a zone.
    pub fn refusal(&self, zone: &str) -> Option<&str> {
        self.refusals.message(zone)
    }

    fn calls_in(&self, zone: &str) -> usize {
        self.busy.get(zone).copied().unwrap_or_default()
    }

    /// Notes that a call about records of a zone is sent. It was admitted, and counted with [`DnsAccount::sent`].
    pub fn begun(&mut self, zone: &str) {
        *self.busy.entry(zone.to_owned()).or_default() += 1;
    }

    /// Notes that such a call ended, with any result.
    pub fn ended(&mut self, zone: &str) {
        if let Some(calls) = self.busy.get_mut(zone) {
            *calls = calls.saturating_sub(1);
        }
        self.busy.retain(|_, calls| *calls > 0);
    }

    /// Notes that a call is sent. If the token was refused, this call tests whether it still is.
    pub fn sent(&mut self, zone: &str, access: Access, now: Moment) {
        self.calls += 1;
        self.refusals.sent(zone, access, now);
    }

    /// Takes in the answer to a call.
    pub fn answered(
        &mut self,
        zone: &str,
        access: Access,
        failure: Option<&CallFailure>,
        at @ Context { now, .. }: Context,
    ) {
        self.calls = self.calls.saturating_sub(1);
        match failure {
            None => self.refusals.granted(zone, access, now),
            Some(CallFailure::Fault(Fault { kind: FaultKind::Unauthorized, message, .. })) => {
                let found = self.lookups.get(&ZoneRef::Name(zone.to_owned()));
                let found = found.and_then(|lookup| lookup.found.as_ref());
                let id = found.map_or(zone, |found| found.id.as_str());
                let zones = self.lookups.values().filter_map(|lookup| lookup.found.as_ref());
                let named: BTreeSet<&str> = zones.map(|zone| zone.id.as_str()).collect();
                self.refusals.refused((zone, id), (access, message), &named, at);
            }
            Some(_) => {}
        }
    }

    /// Notes that a call about records was accepted.
    pub fn accepted(&mut self, now: Moment) {
        self.refusals.accepted(now);
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
