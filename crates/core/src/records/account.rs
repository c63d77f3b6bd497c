//! What one account's token means for every record set: its budget, the zones that it can see, the calls under way, and
//! where it is refused (`refusals`).
//!
//! Where a zone that was found by its name refuses the token, every other of the calls that try it again looks the name
//! up, since a zone that was made anew has another id, and the former id is refused.
//!
//! A former id need not be refused at once, and a zone may change its plan. So a name that is in use is looked up again
//! now and then, one name at a time and after everything else. What was found is used until such a lookup answers with
//! something else.

use super::name::ZoneRef;
use super::refusals::{REFUSED_INTERVAL_MS, Refusals};
use crate::mechanism::budget::Budget;
use crate::mechanism::epoch::Epoch;
use crate::mechanism::failure::Failure;
use crate::mechanism::retry::Schedule;
use crate::model::fault::{CallFailure, Fault, FaultKind};
use crate::model::ids::AccountId;
use crate::model::moment::{Context, Moment};
use crate::model::provider::{Rules, ZoneForm};
use crate::records::dns::{Access, Zone};
use std::collections::{BTreeMap, BTreeSet};

/// A zone whose name the token could not read is looked up again after this long: scopes are given without notice.
const UNNAMED_INTERVAL_MS: u64 = 600_000;

/// A name that is in use is looked up again after this long, whatever came of the last lookup: as long as a record set
/// is believed before it is read again.
const RENEWAL_MS: u64 = 600_000;

/// Calls for DNS under way per account: it bounds memory and sockets when many sets are read at once.
const MAX_CALLS: usize = 32;

/// Calls about records under way in one zone: one that hangs leaves room for others.
const MAX_CALLS_IN_ZONE: usize = 16;

/// Reads of what is known begin only while fewer calls are under way: nothing waits for them, and they wait for others.
const MAX_BEFORE_REREADS: usize = 16;

/// And only while fewer are under way in their zone, so that those that hang hold up no change there.
const MAX_IN_ZONE_BEFORE_REREADS: usize = 8;

/// Why a zone is being looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// It is not known, or in doubt.
    Find,
    /// It is known: the name may mean another one, or the zone take other TTLs, by now.
    Renew,
}

/// A zone that some set names.
#[derive(Debug, Default)]
struct Lookup {
    found: Option<Zone>,
    in_flight: Option<Search>,
    /// The name may mean another zone by now: what was found is used until another lookup tells.
    doubted: bool,
    due: Moment,
    failure: Option<Failure<()>>,
    /// When to look again whether the name still means what was found.
    renewal_due: Moment,
}

/// One account at a provider of DNS.
#[derive(Debug)]
pub struct DnsAccount {
    epoch: Epoch,
    rules: Rules,
    /// `None` when another account of the same token keeps it.
    budget: Option<Budget>,
    lookups: BTreeMap<ZoneRef, Lookup>,
    refusals: Refusals,
    /// Calls under way.
    calls: usize,
    /// Those about records, by zone.
    busy: BTreeMap<String, usize>,
}

impl DnsAccount {
    /// An account of which nothing is known.
    #[must_use]
    pub fn new(id: AccountId, rules: Rules, budget: Option<Budget>) -> Self {
        let (epoch, refusals) = (Epoch::first(id), Refusals::default());
        Self { epoch, rules, budget, lookups: BTreeMap::new(), refusals, calls: 0, busy: BTreeMap::new() }
    }

    /// The present epoch.
    #[must_use]
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Leadership begins.
    pub fn restart(&mut self) {
        self.epoch.end();
    }

    /// What the provider allows.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The budget, unless another account keeps it.
    pub fn budget(&mut self) -> Option<&mut Budget> {
        self.budget.as_mut()
    }

    /// Requests left in the quota, as far as known and kept here.
    #[must_use]
    pub fn rate_remaining(&self) -> Option<Option<u64>> {
        self.budget.as_ref().map(Budget::remaining)
    }

    /// The zone that is meant, as far as known.
    #[must_use]
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
        // What a name means, only a lookup of the name can tell: ids do not stay.
        let same = |found: &&Zone| matches!(zone, ZoneRef::Id(id) if found.id == *id);
        let own = self.lookups.get(zone).and_then(found);
        own.or_else(|| self.lookups.values().filter_map(|lookup| lookup.found.as_ref()).find(same).cloned())
    }

    /// No lookup of the zone was answered yet with anything that says what it is.
    #[must_use]
    pub fn is_unasked(&self, zone: &ZoneRef) -> bool {
        let passes = |kind| Schedule::of(kind) == Schedule::Fast;
        self.zone(zone).is_none() && self.zone_failure(zone).is_none_or(|(kind, ..)| passes(kind))
    }

    /// Why a zone is not known.
    #[must_use]
    pub fn zone_failure(&self, zone: &ZoneRef) -> Option<(FaultKind, u32, &str)> {
        let lookup = self.lookups.get(zone).filter(|lookup| lookup.found.is_none())?;
        let failure = lookup.failure.as_ref()?;
        Some((failure.kind, failure.retry.tries(), failure.message.as_str()))
    }

    /// Whether a zone has to be looked up now, and else when.
    ///
    /// # Errors
    /// The moment, if there is one.
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

    /// Whether a name has to be looked up now although its zone is known, and else when.
    ///
    /// # Errors
    /// The moment, if there is one.
    pub fn renewal_due(&self, zone: &ZoneRef, now: Moment) -> Result<(), Option<Moment>> {
        let Some(lookup) = self.lookups.get(zone).filter(|_| matches!(zone, ZoneRef::Name(_))) else {
            return Err(None);
        };
        let refused = |found: &Zone| self.refusals.refuses_reads(&found.id);
        // A zone that refuses reads is looked up in turn with these.
        if lookup.in_flight.is_some() || lookup.doubted || lookup.found.as_ref().is_none_or(refused) {
            return Err(None);
        }
        if lookup.renewal_due > now {
            return Err(Some(lookup.renewal_due));
        }
        if self.refusals.is_in_doubt() {
            // The one call a minute is for what shows more.
            return Err(None);
        }
        let busy = self.lookups.values().any(|lookup| lookup.in_flight == Some(Search::Renew));
        if busy { Err(None) } else { Ok(()) }
    }

    /// A zone that is known is being looked up again.
    pub fn renewing(&mut self, zone: &ZoneRef) {
        if let Some(lookup) = self.lookups.get_mut(zone) {
            lookup.in_flight = Some(Search::Renew);
        }
    }

    /// Which zone's refusal a lookup has to wait for: that of the id which is in doubt.
    #[must_use]
    pub fn lookup_gate<'a>(&'a self, zone: &'a ZoneRef) -> &'a str {
        let found = self.lookups.get(zone).and_then(|lookup| lookup.found.as_ref());
        found.map_or(zone.text(), |found| found.id.as_str())
    }

    /// A zone is being looked up.
    pub fn looking_up(&mut self, zone: &ZoneRef) {
        let lookup = self.lookups.entry(zone.clone()).or_default();
        lookup.in_flight = Some(Search::Find);
        lookup.doubted = false;
    }

    /// A zone was looked up.
    pub fn looked_up(
        &mut self,
        zone: &ZoneRef,
        result: Result<Zone, CallFailure>,
        at @ Context { now, .. }: Context,
    ) {
        let lookup = self.lookups.entry(zone.clone()).or_default();
        // If what was known is gone meanwhile, it is a lookup like any other.
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
            // The zone itself did not fail: what was found is used, and only its own calls can tell that it is gone.
            Err(CallFailure::Fault(fault)) if renews => {
                lookup.renewal_due =
                    lookup.renewal_due.max(now.plus_millis(fault.retry_after_ms.unwrap_or(0)));
                if fault.kind == FaultKind::Unauthorised {
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
                let wait = now.plus_millis(fault.retry_after_ms.unwrap_or(0));
                Failure::note(&mut lookup.failure, (fault.kind, &fault.message), ((), 0), None, at);
                lookup.due = lookup.failure.as_ref().map_or(wait, |failure| failure.retry.due().max(wait));
            }
        }
    }

    /// A zone answers that it is not there: it is looked up anew in due time, since its name may have got another id.
    pub fn zone_gone(&mut self, id: &str, message: &str, at @ Context { now, .. }: Context) {
        for lookup in self.lookups.values_mut() {
            if lookup.found.as_ref().is_some_and(|zone| zone.id == id) {
                lookup.found = None;
                let kind = FaultKind::NotFound;
                Failure::note(&mut lookup.failure, (kind, message), ((), 0), None, at);
                lookup.due = lookup.failure.as_ref().map_or(now, |failure| failure.retry.due());
            }
        }
    }

    /// A zone refuses the token. So does the former id of a zone that was made anew, or that another account has now.
    pub fn doubt(&mut self, id: &str) {
        for (zone, lookup) in &mut self.lookups {
            if matches!(zone, ZoneRef::Name(_)) && lookup.found.as_ref().is_some_and(|found| found.id == id) {
                lookup.doubted = true;
            }
        }
    }

    /// Something is wrong with what was asked of a zone without a name: its name may have shown, and tell what.
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

    /// Another token: what the old one was refused may work now.
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

    /// Whether a call may be sent to a zone now; else when to ask again, if time is what is missing.
    ///
    /// # Errors
    /// The moment, if there is one.
    pub fn admit(&self, zone: &str, access: Access, now: Moment) -> Result<(), Option<Moment>> {
        if self.calls >= MAX_CALLS || self.calls_in(zone) >= MAX_CALLS_IN_ZONE {
            return Err(None);
        }
        match self.refusals.waits_until(zone, access, now) {
            Some(until) => Err(Some(until)),
            None => Ok(()),
        }
    }

    /// Nothing speaks against the token in a zone: a read that nobody waits for may go there.
    #[must_use]
    pub fn is_trusted(&self, zone: &str) -> bool {
        self.refusals.message(zone).is_none() && !self.refusals.is_in_doubt()
    }

    /// So many calls are under way that reads of what is known in this zone wait.
    #[must_use]
    pub fn is_loaded(&self, zone: &str) -> bool {
        self.calls >= MAX_BEFORE_REREADS || self.calls_in(zone) >= MAX_IN_ZONE_BEFORE_REREADS
    }

    /// Why the token is refused in a zone.
    #[must_use]
    pub fn refusal(&self, zone: &str) -> Option<&str> {
        self.refusals.message(zone)
    }

    fn calls_in(&self, zone: &str) -> usize {
        self.busy.get(zone).copied().unwrap_or_default()
    }

    /// A call about records of a zone goes out, which was admitted and told with [`DnsAccount::sent`].
    pub fn begun(&mut self, zone: &str) {
        *self.busy.entry(zone.to_owned()).or_default() += 1;
    }

    /// It ended, however it went.
    pub fn ended(&mut self, zone: &str) {
        if let Some(calls) = self.busy.get_mut(zone) {
            *calls = calls.saturating_sub(1);
        }
        self.busy.retain(|_, calls| *calls > 0);
    }

    /// A call goes out. Where the token was refused it is the one that finds out whether it still is.
    pub fn sent(&mut self, zone: &str, access: Access, now: Moment) {
        self.calls += 1;
        self.refusals.sent(zone, access, now);
    }

    /// A call was answered.
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
            Some(CallFailure::Fault(Fault { kind: FaultKind::Unauthorised, message, .. })) => {
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

    /// A call about records was accepted.
    pub fn accepted(&mut self, now: Moment) {
        self.refusals.accepted(now);
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
