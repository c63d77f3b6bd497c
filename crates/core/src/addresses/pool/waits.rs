//! The reasons for which candidates without an address wait.
//!
//! Decides which candidates a plan looks at. Does not decide which node gets an address.

use super::Pool;
use super::candidates::{Candidate, Candidates, Named, Receiver};
use super::report::Wait;
use super::world::World;
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
use crate::addresses::action::Action;
use crate::mechanism::{Effects, Failure};
use crate::model::{Address, FaultKind, MachineId, ObjectName, ObjectRef, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Machines and nodes that an operation already concerns.
pub(super) struct Busy<'a> {
    /// The machines of operations under way, with the address and the pool of each.
    pub(super) machines: BTreeMap<&'a MachineId, (Address, &'a Uid)>,
    /// Nodes on which another pool has made room for its own address.
    roomy: BTreeMap<&'a Uid, &'a Pool>,
}

impl Pool {
    /// Finds the machines and nodes that are busy.
    pub(super) fn busy<'a>(&self, account: &'a Account, world: &World<'a>) -> Busy<'a> {
        let machines = account.ops().map(|(ip, op)| (&op.machine, (ip, &op.pool))).collect();
        let mut roomy = BTreeMap::new();
        for pool in world.in_the_way() {
            if pool.nodes.matched && pool.is_live() && pool.spec.account_id == self.spec.account_id {
                for node in pool.roomy.keys() {
                    roomy.entry(node).or_insert(pool);
                }
            }
        }
        Busy { machines, roomy }
    }

    /// Notes why candidates without an address wait. A candidate that can take an address waits for a free one.
    /// Returns the addresses that have to be taken off such candidates first.
    pub(super) fn note_waits(
        &self,
        candidates: &mut Candidates,
        account: &Account,
        world: &World<'_>,
        out: &mut Effects<Action>,
    ) -> BTreeMap<Uid, Address> {
        let busy = self.busy(account, world);
        let mut evicted = BTreeMap::new();
        for name in self.concerned(candidates, &busy, world) {
            let Some(candidate) = candidates.get(&name).filter(|candidate| candidate.holds().is_none())
            else {
                continue;
            };
            let wait = self.lacks(&name, candidate).then(|| {
                let taken = || self.can_take(candidate, &busy, account, world);
                let wait = match gives_way(candidates, &name, world).map_or_else(taken, Err) {
                    Ok((_, evict)) => {
                        evicted.extend(evict.map(|ip| (candidate.node.uid.clone(), ip)));
                        Wait::NoFreeIp
                    }
                    Err(wait) => wait,
                };
                if let Wait::RetryAt(at, _) | Wait::Pending(at, _) | Wait::Firewall(at) = &wait {
                    out.later(*at);
                }
                wait
            });
            candidates.note_wait(&name, wait);
        }
        let still = |(name, candidate): Named<'_>| {
            let evict = self.can_take(candidate, &busy, account, world).map(|(_, evict)| evict);
            self.lacks(name, candidate)
                && candidates.elder(name, world.now).is_none()
                && evict == Ok(evicted.get(&candidate.node.uid).copied())
        };
        debug_assert!(
            candidates.queue().all(still),
            "a candidate that nothing concerns still waits for an address"
        );
        evicted
    }

    /// The candidates whose wait may differ from that of the last plan: those that something concerns, and those that
    /// waited for more than a free address.
    fn concerned(
        &self,
        candidates: &mut Candidates,
        busy: &Busy<'_>,
        world: &World<'_>,
    ) -> BTreeSet<Arc<str>> {
        let mut concerned = candidates.take_unsettled();
        concerned.extend(candidates.sharing().map(|(name, _)| Arc::clone(name)));
        concerned.extend(candidates.on_any(&world.sights.holders));
        concerned.extend(candidates.on_any(world.gates));
        concerned.extend(busy.machines.keys().flat_map(|machine| candidates.on(machine)).cloned());
        let suspects = self.nodes.suspects.iter().filter_map(|(name, _)| candidates.named(name));
        concerned.extend(suspects.map(|(name, _)| Arc::clone(name)));
        let waits = |failure: &&Failure<String>| failure.retry.due() > world.now;
        let failed = self.node_failures.iter().filter(|(_, failure)| waits(failure)).map(|(uid, _)| uid);
        let uids: BTreeSet<&Uid> = failed.chain(busy.roomy.keys().copied()).collect();
        if !uids.is_empty() {
            let named = candidates.iter().filter(|(_, candidate)| uids.contains(&candidate.node.uid));
            concerned.extend(named.map(|(name, _)| Arc::clone(name)));
        }
        concerned
    }

    /// Whether the candidate has no address and may get one. A node that fails keeps what it has, and gets nothing.
    fn lacks(&self, name: &str, candidate: &Candidate) -> bool {
        candidate.holds().is_none() && self.nodes.suspects.of(name).is_none()
    }

    pub(super) fn receiver<'a>(
        &self,
        name: &'a Arc<str>,
        candidate: &'a Candidate,
        busy: &Busy<'_>,
        account: &Account,
        world: &World<'_>,
    ) -> Result<Receiver<'a>, Wait> {
        gives_way(&self.candidates, name, world).map_or(Ok(()), Err)?;
        let (machine, evict) = self.can_take(candidate, busy, account, world)?;
        Ok(Receiver { name, candidate, machine, evict })
    }

    /// Whether the candidate can take an address now. Returns its machine, and the address that has to be taken off it
    /// first, or the reason to wait.
    fn can_take<'a>(
        &self,
        candidate: &'a Candidate,
        busy: &Busy<'_>,
        account: &Account,
        world: &World<'_>,
    ) -> Result<(&'a MachineId, Option<Address>), Wait> {
        let kind = account.machines();
        let Some(machine) = candidate.node.machine.as_ref().filter(|machine| machine.kind() == kind) else {
            let (found, form) = (&candidate.node.provider_id, kind.form());
            return Err(Wait::NotAMachine(format!("spec.providerID {found:?} is not of the form {form}")));
        };
        let holder = world.sights.holders.get(machine);
        // Without any address on the machine there is no used one either.
        let standing = holder.and_then(|_| world.sights.standing.get(machine));
        if let Some((claimer, ip)) = standing.filter(|(claimer, _)| claimer.uid != self.object.uid) {
            return Err(claim(world, claimer, *ip, machine));
        }
        if let Some((ip, pool)) = busy.machines.get(machine) {
            let other = (**pool != self.object.uid).then(|| world.others.get(*pool)).flatten();
            return Err(other.map_or(Wait::InFlight(*ip), |other| claim(world, &other.object, *ip, machine)));
        }
        let evict = match holder {
            None => None,
            Some(holder) => Some(self.evictable((*holder, machine.clone()), account, world)?),
        };
        if let Some(other) = busy.roomy.get(&candidate.node.uid) {
            return Err(Wait::Claimed(other.object.name.clone()));
        }
        if let Some(failure) = self.node_failures.get(&candidate.node.uid)
            && let Some(due) = failure.waits(&candidate.node.provider_id, self.spec_version, world.now)
        {
            let message = failure.message.clone();
            let busy = failure.kind == FaultKind::InProgress;
            return Err(if busy { Wait::Pending(due, message) } else { Wait::RetryAt(due, message) });
        }
        if let Some(until) = world.gates.get(machine).filter(|until| **until > world.now) {
            return Err(Wait::Firewall(*until));
        }
        Ok((machine, evict))
    }

    /// Whether an unused address on a candidate of ours may be taken off. Returns the address, or the reason to wait.
    fn evictable(
        &self,
        (holder, machine): (Address, MachineId),
        account: &Account,
        world: &World<'_>,
    ) -> Result<Address, Wait> {
        let owner = world.owners.get(&holder);
        let ours = owner.is_some_and(|owner| owner.uid == self.object.uid)
            || (owner.is_none()
                && self.memory.as_ref().is_some_and(|memory| memory.former.contains(&holder)));
        match owner {
            _ if ours => {}
            Some(owner) => {
                // A surplus address serves nobody, even if its pool matches the node. Somebody has to take it off.
                let pool = world.others.get(&owner.uid);
                let surplus = pool.is_some_and(|pool| pool.nodes.matched && !pool.used().contains(&holder));
                let blocked = Wait::ClaimedBy(owner.name.clone(), holder);
                return Err(if surplus { blocked } else { claim(world, owner, holder, &machine) });
            }
            None => return Err(Wait::Foreign(holder)),
        }
        if account.op(holder).is_some() || account.belief(holder).is_none_or(Belief::is_doubted) {
            return Err(Wait::InFlight(holder));
        }
        if let Some(failure) = self.ips.get(&holder).and_then(|record| record.failure.as_ref())
            && let Some(due) =
                failure.waits(&account.place(holder).machine().cloned(), self.spec_version, world.now)
        {
            return Err(Wait::RetryAt(due, failure.message.clone()));
        }
        match account.place(holder) {
            Place::Present { locked: false, .. } => Ok(holder),
            Place::Present { .. } | Place::Unknown | Place::Absent => Err(Wait::InFlight(holder)),
        }
    }
}

/// The wait of a candidate whose machine has an older node.
fn gives_way(candidates: &Candidates, name: &str, world: &World<'_>) -> Option<Wait> {
    candidates.elder(name, world.now).cloned().map(Wait::SharedMachine)
}

/// The wait for a machine that another pool claims.
fn claim(world: &World<'_>, claimer: &ObjectRef, ip: Address, machine: &MachineId) -> Wait {
    let name: ObjectName = claimer.name.clone();
    // A pool whose nodes are not read yet may serve the machine.
    let serves = |pool: &Pool| !pool.nodes.matched || pool.candidate_on(machine).is_some();
    let serves = world.others.get(&claimer.uid).is_some_and(|pool| serves(pool));
    if serves { Wait::Claimed(name) } else { Wait::ClaimedBy(name, ip) }
}
