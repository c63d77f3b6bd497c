//! Addresses of unknown origin, which may have been bought for this pool before anything was remembered of it, and
//! addresses that may be left over when a pool is gone.
//!
//! Invariant: what once counted against `desiredIPs` counts until a pool names it or it is off its machine, whatever
//! becomes of the node meanwhile.

use super::Pool;
use super::absences::Absences;
use super::memory::Memory;
use crate::addresses::account::Account;
use crate::mechanism::effects::Notice;
use crate::model::catalog::events::EventReason;
use crate::model::facts::ReservedIp;
use crate::model::fault::CallFailure;
use crate::model::ids::{Address, ObjectKind, ObjectRef, Owner};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where addresses of unknown origin were seen. It need not survive a restart: what is not known to be gone counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sightings {
    /// Where they stood when they were first seen.
    places: BTreeMap<Address, MachineId>,
    away: Absences,
}

impl Sightings {
    /// Whether an address stands where it stood. While an action on it is pending nobody can tell.
    fn is_in_place(&mut self, read: &ReservedIp) -> bool {
        let there =
            |machine: &MachineId| self.places.entry(read.ip).or_insert_with(|| machine.clone()) == machine;
        read.locked || read.machine.as_ref().is_some_and(there)
    }
}

impl Pool {
    /// Looks for orphans: before the first creation each time, and later only whether they are still there.
    pub(super) fn look_for_orphans(
        &mut self,
        account: &mut Account,
        seen: &BTreeMap<Address, ReservedIp>,
        named: &BTreeSet<Address>,
    ) {
        let Some((begun, _)) = account.last_list() else { return };
        // What contradicts itself is no witness that one has left.
        if !account.lists_contradict_themselves() {
            self.forget_left(begun, seen, named);
        }
        let orphans = self.orphans(seen, named);
        let wanted = self.missing() > 0;
        if let Some(memory) = self.memory.as_mut().filter(|memory| memory.orphans.is_none()) {
            memory.unknown.extend(orphans.iter().filter(|_| wanted));
        }
        self.creation.orphans = orphans;
        if let Some(at) = self.creation.sightings.away.undecided(begun) {
            account.want_list(at);
        }
    }

    /// Forgets those that a pool names by now, or that are not where they were.
    fn forget_left(
        &mut self,
        begun: Moment,
        seen: &BTreeMap<Address, ReservedIp>,
        named: &BTreeSet<Address>,
    ) {
        let Some(Memory { unknown, orphans, .. }) = &mut self.memory else { return };
        let sightings = &mut self.creation.sightings;
        let mut stays = |ip: &Address| {
            let there = seen.get(ip).is_some_and(|read| sightings.is_in_place(read));
            !named.contains(ip) && !sightings.away.is_gone(*ip, there, begun)
        };
        unknown.retain(&mut stays);
        if let Some(orphans) = orphans {
            orphans.retain(&mut stays);
        }
        let known = |ip: &Address| unknown.contains(ip) || orphans.iter().any(|orphans| orphans.contains(ip));
        sightings.places.retain(|ip, _| known(ip));
        sightings.away.keep(known);
    }

    /// Addresses in our region that no pool names and that stand on our candidates. Before the first creation they
    /// are looked for; those that were found then are watched until they leave their machines or are named.
    fn orphans(&self, seen: &BTreeMap<Address, ReservedIp>, named: &BTreeSet<Address>) -> BTreeSet<Address> {
        let Some(Memory { unknown, orphans, former, .. }) = &self.memory else { return BTreeSet::new() };
        // Before they are complete, and after a change that cannot be followed, these are candidates no more.
        let candidates = self.candidates.values().filter(|_| self.matched && self.is_live());
        let machines: BTreeSet<_> = candidates.filter_map(|candidate| candidate.machine.as_ref()).collect();
        let on_candidate =
            |read: &ReservedIp| read.machine.as_ref().is_some_and(|machine| machines.contains(machine));
        let ours = |ip: &Address| match orphans {
            Some(orphans) => orphans.contains(ip),
            None => unknown.contains(ip) || seen.get(ip).is_some_and(on_candidate),
        };
        let noted = unknown.iter().chain(orphans.iter().flatten());
        let mut found: BTreeSet<Address> = seen.keys().chain(noted).copied().filter(ours).collect();
        // What was let go is known to have been this pool's; what a list leaves out may be in our region.
        let elsewhere = |read: &ReservedIp| Some(&read.region) != self.spec.region.as_ref();
        found.retain(|ip| !named.contains(ip) && !former.contains(ip));
        found.retain(|ip| !seen.get(ip).is_some_and(elsewhere));
        found
    }

    /// What is told when the pool goes while it is not known whether an address was bought for it.
    #[must_use]
    pub fn unresolved_purchase(self) -> Option<Notice> {
        self.creation.is_resolving().then(|| maybe_created(self.object))
    }
}

/// What is told when the pool is gone by the time its creation is answered: an address without an owner costs money.
#[must_use]
pub fn ownerless(object: ObjectRef, result: &Result<Address, CallFailure>) -> Option<Notice> {
    match result {
        Ok(ip) => {
            let what = format!("created {ip} for this pool, which is gone");
            let message = format!("{what}: put it into another pool's spec.ips, or release it");
            Some(without_pool(object, ip, message))
        }
        Err(CallFailure::Fault(fault)) if fault.outcome_unknown => Some(maybe_created(object)),
        Err(CallFailure::Fault(_) | CallFailure::NotSent) => None,
    }
}

fn maybe_created(object: ObjectRef) -> Notice {
    let message = "an address may have been created for this pool, which is gone: look for an unassigned one in the account";
    without_pool(object, "unknown", message.to_owned())
}

fn without_pool(object: ObjectRef, subject: impl fmt::Display, message: String) -> Notice {
    let owner = Owner { kind: ObjectKind::Pool, object };
    Notice::on(&owner, true, EventReason::CreatedWithoutPool, subject, message)
}
