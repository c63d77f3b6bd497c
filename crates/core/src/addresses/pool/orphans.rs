//! Addresses of unknown origin that may have been bought for this pool before its memory began, and addresses that a
//! deleted pool may leave behind.
//!
//! Invariant: an orphan that once counted against `desiredIPs` counts until a pool names it or it leaves its machine.
//! Changes of the node do not matter.

use super::Pool;
use super::memory::Memory;
use super::world::World;
use crate::addresses::account::Account;
use crate::mechanism::{LAG_MS, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::{Address, CallFailure, MachineId, Moment, ObjectRef, Owner, ReservedIp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

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
        begun >= self.0.entry(ip).or_insert(begun).plus_millis(LAG_MS)
    }

    /// When the next list is wanted after one that began at `begun`, if another is needed.
    pub(super) fn undecided(&self, begun: Moment) -> Option<Moment> {
        let ends = self.0.values().map(|since| since.plus_millis(LAG_MS));
        ends.filter(|end| begun < *end).min()
    }

    /// Forgets all addresses but these.
    pub(super) fn keep(&mut self, wanted: impl Fn(&Address) -> bool) {
        self.0.retain(|ip, _| wanted(ip));
    }
}

/// Where addresses of unknown origin were seen. A restart may lose this, because an address counts until it is known
/// to be gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sightings {
    /// Where each was first seen.
    places: BTreeMap<Address, MachineId>,
    away: Absences,
}

impl Sightings {
    /// Whether an address is still where it was first seen. While an action is pending this is open, and the address
    /// counts as there.
    fn is_in_place(&mut self, read: &ReservedIp) -> bool {
        let there =
            |machine: &MachineId| self.places.entry(read.ip).or_insert_with(|| machine.clone()) == machine;
        read.locked || read.machine.as_ref().is_some_and(there)
    }
}

impl Pool {
    /// Looks for orphans. After the first creation, it only checks whether known ones are still there.
    pub(super) fn look_for_orphans(
        &mut self,
        account: &mut Account,
        world: &World<'_>,
        named: &BTreeSet<Address>,
    ) {
        let Some((begun, _)) = account.last_list() else { return };
        // A list that contradicts itself does not prove that an orphan has left.
        if !account.lists_contradict_themselves() {
            self.forget_left(begun, &world.sights.seen, named);
        }
        let orphans = self.orphans(world, named);
        let wanted = self.missing() > 0;
        if let Some(memory) = self.memory.as_mut().filter(|memory| memory.orphans.is_none()) {
            memory.unknown.extend(orphans.iter().filter(|_| wanted));
        }
        self.creation.orphans = orphans;
        if let Some(at) = self.creation.sightings.away.undecided(begun) {
            account.want_list(at);
        }
    }

    /// Forgets orphans that a pool now names, or that have left their place.
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

    /// Addresses in our region that no pool names and that are on our candidates. New ones are sought only before the
    /// first creation. Known ones are watched until they leave their machines or a pool names them.
    fn orphans(&self, world: &World<'_>, named: &BTreeSet<Address>) -> BTreeSet<Address> {
        let Some(Memory { unknown, orphans, former, .. }) = &self.memory else { return BTreeSet::new() };
        let mut found = orphans.clone().unwrap_or_else(|| {
            // Candidates count only while they are complete and the pool may act.
            let sought = self.nodes.matched && self.is_live() && !world.sights.strays.is_empty();
            let strays = world.sights.strays.iter().filter(|_| sought);
            let ours = strays.filter(|(machine, _)| self.candidates.on(machine).next().is_some());
            let stray = ours.flat_map(|(_, ips)| ips);
            unknown.iter().chain(stray).copied().collect()
        });
        // Former addresses are known to have been this pool's. An address that lists leave out may be in our region.
        let elsewhere = |read: &ReservedIp| Some(&read.region) != self.spec.region.as_ref();
        found.retain(|ip| !named.contains(ip) && !former.contains(ip));
        found.retain(|ip| !world.sights.seen.get(ip).is_some_and(elsewhere));
        found
    }

    /// The Event for a pool that is deleted while a purchase for it may have succeeded.
    pub fn unresolved_purchase(self) -> Option<Notice> {
        self.creation.is_resolving().then(|| maybe_created(self.object))
    }
}

/// The Event for a pool that is gone when the answer to its creation arrives. An address without an owner costs money.
pub fn ownerless(object: ObjectRef, result: &Result<Address, CallFailure>) -> Option<Notice> {
    match result {
        Ok(ip) => {
            let what = format!("created {ip} for this pool, which was deleted");
            let message = format!("{what}: put it into another pool's spec.ips, or delete it in the account");
            Some(without_pool(object, ip, message))
        }
        Err(CallFailure::Fault(fault)) if fault.outcome_unknown => Some(maybe_created(object)),
        Err(CallFailure::Fault(_) | CallFailure::NotSent) => None,
    }
}

fn maybe_created(object: ObjectRef) -> Notice {
    let message = "an address may have been created for this pool, which was deleted: find an unassigned one in \
                   the account";
    without_pool(object, "unknown", message.to_owned())
}

fn without_pool(object: ObjectRef, subject: impl fmt::Display, message: String) -> Notice {
    let owner = Owner::pool(object);
    Notice::on(&owner, true, EventReason::CreatedWithoutPool, subject, message)
}
