//! Who gets which address: the heart of the operator.
//!
//! Total and level-triggered: the same facts give the same plan. Planning twice starts nothing twice, because the account
//! holds each started operation.

use super::behind::Behind;
use super::offer::{Free, Taker};
use super::report::{Report, Wait};
use super::{Candidate, Pool};
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
use crate::addresses::account::op::{Op, OpKind};
use crate::addresses::account::rights::Right;
use crate::addresses::action::Action;
use crate::mechanism::budget::Purpose;
use crate::mechanism::effects::Effects;
use crate::model::facts::ReservedIp;
use crate::model::fault::FaultKind;
use crate::model::ids::{Address, ObjectName, ObjectRef, Uid};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};

/// Operations under way per account. Far above what a failover needs; it bounds memory and sockets.
pub const MAX_OPS: usize = 64;

/// A pool's view of the rest of the world.
#[derive(Debug)]
pub struct World<'a> {
    /// Now.
    pub now: Moment,
    /// Mutating calls may start.
    pub permit: bool,
    /// The oldest pool that names an address.
    pub owners: &'a BTreeMap<Address, ObjectRef>,
    /// The used addresses that are on machines, of all pools of the account.
    pub standing: &'a BTreeMap<MachineId, (ObjectRef, Address)>,
    /// Every address of the account.
    pub seen: &'a BTreeMap<Address, ReservedIp>,
    /// Every address that is on a machine.
    pub holders: &'a BTreeMap<MachineId, Address>,
    /// Machines whose ports are being opened for this pool, and until when that is waited for.
    pub gates: &'a BTreeMap<MachineId, Moment>,
    /// The addresses that labels name, with the nodes on which these stand. Only of nodes that are well.
    pub labelled: &'a BTreeMap<Address, Uid>,
    /// A deletion in this account may take effect, or has and is not confirmed.
    pub deleting: bool,
    /// The other pools.
    pub others: &'a BTreeMap<Uid, Pool>,
}

impl Pool {
    /// Decides which assignments start now. Only for a live pool with its nodes and its account known.
    pub fn plan_assignments(&mut self, account: &mut Account, world: &World<'_>, out: &mut Effects<Action>) {
        let mine: Vec<Address> = self
            .used()
            .into_iter()
            .filter(|ip| world.owners.get(ip).is_some_and(|o| o.uid == self.object.uid))
            .collect();
        let mut report = self.note_standing(&mine, account, world);
        let served =
            report.active.iter().filter_map(|(ip, node)| Some((*ip, self.candidates.get(node)?.uid.clone())));
        for (ip, node) in served.collect::<Vec<_>>() {
            self.forget_failures_of(ip, &node);
        }
        self.forget_refusals_that_are_explained(world.holders);
        let free = self.free_addresses(&mine, account, world, out);
        // Thousands of candidates are not copied for each plan.
        let candidates = std::mem::take(&mut self.candidates);
        let takers = self.takers(&candidates, account, world, &mut report, out);
        self.pair(free, takers, account, world, &mut report, out);
        self.candidates = candidates;
        self.report = report;
    }

    /// Forgets refusals of nodes in use by an address that was unknown, once it is known or has left.
    fn forget_refusals_that_are_explained(&mut self, holders: &BTreeMap<MachineId, Address>) {
        let failures = &mut self.node_failures;
        if failures.values().all(|failure| failure.kind != FaultKind::NodeInUse) {
            return;
        }
        let taken =
            |candidate: &&Candidate| candidate.machine.as_ref().is_some_and(|on| holders.contains_key(on));
        for candidate in self.candidates.values().filter(taken) {
            if failures.get(&candidate.uid).is_some_and(|failure| failure.kind == FaultKind::NodeInUse) {
                failures.remove(&candidate.uid);
            }
        }
    }

    /// Forgets refusals of the token once it may have the right. A frozen pool does so too, since it reports problems.
    pub fn forgive_token_moving(&mut self, account: &Account) {
        if !account.rights.lacks(Right::Move) {
            for record in self.ips.values_mut() {
                record.failure.take_if(|failure| failure.kind == FaultKind::Unauthorised);
                record.error.take_if(|(kind, _)| *kind == FaultKind::Unauthorised);
            }
        }
    }

    /// Notes which addresses are another pool's, where nothing else is planned.
    pub fn note_claimed(&mut self, owners: &BTreeMap<Address, ObjectRef>) {
        self.report.claimed = self.claimed_by_older(owners);
    }

    /// Of a frozen pool: follows the addresses that stood on candidates, which others may have moved. One whose nodes are
    /// only not read yet waits for them instead.
    pub fn follow_standing(&mut self, account: &Account) {
        for (ip, _) in self.ips.iter().filter(|(_, record)| record.was_active) {
            let place = account.place(*ip);
            if *place == Place::Unknown {
                continue;
            }
            let standing = place.machine().and_then(|machine| self.candidate_on(machine));
            // A new claim must not rest on a former term's knowledge of nodes.
            match standing.filter(|(node, _)| self.matched || self.report.active.get(ip) == Some(*node)) {
                Some((node, _)) => self.report.active.insert(*ip, node.clone()),
                None => self.report.active.remove(ip),
            };
        }
    }

    /// Whether an address stood on a candidate when last planned, and others took it off since.
    #[must_use]
    pub fn has_left(&self, ip: Address) -> bool {
        self.ips.get(&ip).is_some_and(|record| record.was_active) && !self.report.active.contains_key(&ip)
    }

    fn claimed_by_older(&self, owners: &BTreeMap<Address, ObjectRef>) -> BTreeMap<Address, ObjectName> {
        let older = |ip: &Address| owners.get(ip).filter(|owner| owner.uid != self.object.uid);
        self.effective().into_iter().filter_map(|ip| Some((ip, older(&ip)?.name.clone()))).collect()
    }

    /// Notes which addresses stand on candidates, and who lost or left one since the last plan.
    fn note_standing(&mut self, mine: &[Address], account: &Account, world: &World<'_>) -> Report {
        let mut report = Report { claimed: self.claimed_by_older(world.owners), ..Report::default() };
        let mut stands: BTreeMap<&MachineId, BTreeSet<Address>> = BTreeMap::new();
        for ip in mine {
            if let Some(machine) = account.place(*ip).machine() {
                stands.entry(machine).or_default().insert(*ip);
            }
        }
        let on = |machine: &MachineId| stands.get(machine);
        for (name, candidate) in &self.candidates {
            let here = candidate.machine.as_ref().and_then(on);
            report.active.extend(here.into_iter().flatten().map(|ip| (*ip, name.clone())));
        }
        for ip in self.effective() {
            let record = self.ips.entry(ip).or_default();
            if report.active.contains_key(&ip) {
                if let (Some(memory), on) = (&mut self.memory, account.place(ip).machine()) {
                    memory.stands(ip, on);
                }
                record.was_active = true;
                record.left = None;
            } else if record.was_active {
                record.was_active = false;
                self.counter += 1;
                record.released = self.counter;
            }
        }
        for candidate in self.candidates.values_mut() {
            // By machine: two nodes of one machine (one of them about to go) have its address both.
            let holds = candidate.machine.as_ref().and_then(on).and_then(BTreeSet::last).copied();
            if candidate.holds.is_some() && holds.is_none() {
                self.counter += 1;
                candidate.lost = Some(self.counter);
            } else if holds.is_some() {
                candidate.lost = None;
            }
            candidate.holds = holds;
        }
        report
    }

    /// Addresses to give out: unassigned ones, then those whose node stopped matching longest ago, then failed ones.
    fn free_addresses(
        &self,
        mine: &[Address],
        account: &Account,
        world: &World<'_>,
        out: &mut Effects<Action>,
    ) -> Vec<Free> {
        let promised: BTreeSet<Address> = account
            .ops()
            .filter_map(|(_, op)| match op.kind {
                OpKind::Unassign { successor } => successor,
                OpKind::Assign => None,
            })
            .collect();
        let mut free: Vec<((u64, bool, u64, usize), Free)> = Vec::new();
        for (position, ip) in mine.iter().enumerate() {
            let record = self.ips.get(ip);
            let idle =
                account.op(*ip).is_none() && !promised.contains(ip) && record.is_none_or(|r| !r.was_active);
            let doubted = account.belief(*ip).is_none_or(Belief::is_doubted);
            let Place::Present { machine, region, locked: false } = account.place(*ip) else { continue };
            if !idle || doubted || !self.is_recorded(*ip) {
                continue;
            }
            let failure = record.and_then(|record| record.failure.as_ref());
            if let Some(due) =
                failure.and_then(|failure| failure.waits(machine, self.spec_version, world.now))
            {
                out.later(due);
                continue;
            }
            let behind = Behind::place(record.and_then(|record| record.behind), world.now);
            let released = record.map_or(0, |record| record.released);
            let entry = Free { ip: *ip, region: region.clone(), from: machine.clone() };
            free.push(((behind, machine.is_some(), released, position), entry));
        }
        free.sort_by_key(|(key, _)| *key);
        free.into_iter().map(|(_, free)| free).collect()
    }

    /// A created address is assigned only once the server remembers it: without a record a crash would lose it.
    pub(super) fn is_recorded(&self, ip: Address) -> bool {
        self.on_server.remembers(ip) || self.spec.ips.contains(&ip)
    }

    /// Candidates without an address that can take one, in the order in which they get one. Notes why the others wait.
    fn takers<'a>(
        &self,
        candidates: &'a BTreeMap<String, Candidate>,
        account: &Account,
        world: &World<'_>,
        report: &mut Report,
        out: &mut Effects<Action>,
    ) -> Vec<Taker<'a>> {
        let mut busy: BTreeMap<MachineId, (Address, &Uid)> = BTreeMap::new();
        for (ip, op) in account.ops() {
            busy.insert(op.machine.clone(), (ip, &op.pool));
        }
        let mut takers = Vec::new();
        // A node that fails keeps what it has, and gets nothing.
        let lacks = |(name, candidate): &(&String, &Candidate)| {
            candidate.holds.is_none() && self.suspects.of(name).is_none()
        };
        for (name, candidate) in candidates.iter().filter(lacks) {
            match self.taker(name, candidate, &busy, account, world) {
                Ok(taker) => takers.push(taker),
                Err(wait) => {
                    if let Wait::RetryAt(at, _) | Wait::Pending(at, _) | Wait::Firewall(at) = &wait {
                        out.later(*at);
                    }
                    report.waiting.insert(name.clone(), wait);
                }
            }
        }
        takers.sort_by_key(|taker| {
            let Candidate { uid, lost, order, .. } = taker.candidate;
            let behind = Behind::place(self.behind.get(uid).copied(), world.now);
            (
                !self.roomy.contains_key(uid),
                behind,
                self.checked.behind.contains(uid),
                lost.is_none(),
                *lost,
                *order,
            )
        });
        takers
    }

    pub(super) fn taker<'a>(
        &self,
        name: &'a String,
        candidate: &'a Candidate,
        busy: &BTreeMap<MachineId, (Address, &Uid)>,
        account: &Account,
        world: &World<'_>,
    ) -> Result<Taker<'a>, Wait> {
        let kind = account.machines();
        let Some(machine) = candidate.machine.as_ref().filter(|machine| machine.kind() == kind) else {
            let (found, form) = (&candidate.provider_id, kind.form());
            return Err(Wait::NotAMachine(format!("spec.providerID {found:?} is not of the form {form}")));
        };
        if let Some((claimer, ip)) =
            world.standing.get(machine).filter(|(claimer, _)| claimer.uid != self.object.uid)
        {
            return Err(claim(world, claimer, *ip, machine));
        }
        if let Some((ip, pool)) = busy.get(machine) {
            let other = (**pool != self.object.uid).then(|| world.others.get(*pool)).flatten();
            return Err(other.map_or(Wait::InFlight(*ip), |other| claim(world, &other.object, *ip, machine)));
        }
        let evict = match world.holders.get(machine) {
            None => None,
            Some(holder) => Some(self.evictable((*holder, machine.clone()), account, world)?),
        };
        let makes_room = |pool: &&Pool| {
            let plans = pool.matched && pool.is_live() && pool.spec.account_id == self.spec.account_id;
            plans && pool.roomy.contains_key(&candidate.uid)
        };
        if let Some(other) = world.others.values().find(makes_room) {
            return Err(Wait::Claimed(other.object.name.clone()));
        }
        if let Some(failure) = self.node_failures.get(&candidate.uid)
            && let Some(due) = failure.waits(&candidate.provider_id, self.spec_version, world.now)
        {
            let message = failure.message.clone();
            let busy = failure.kind == FaultKind::InProgress;
            return Err(if busy { Wait::Pending(due, message) } else { Wait::RetryAt(due, message) });
        }
        if let Some(until) = world.gates.get(machine).filter(|until| **until > world.now) {
            return Err(Wait::Firewall(*until));
        }
        Ok(Taker { name, candidate, machine, evict })
    }

    /// An address that stands on a candidate of ours without being used here: may it be taken off?
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
                // A surplus address serves nobody, though its pool may match the node: somebody has to take it off.
                let pool = world.others.get(&owner.uid);
                let surplus = pool.is_some_and(|pool| pool.matched && !pool.used().contains(&holder));
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

    fn pair(
        &mut self,
        mut free: Vec<Free>,
        takers: Vec<Taker<'_>>,
        account: &mut Account,
        world: &World<'_>,
        report: &mut Report,
        out: &mut Effects<Action>,
    ) {
        let awaited = |uid: &Uid, ip: &mut Address| {
            let taker = takers.iter().find(|taker| taker.candidate.uid == *uid);
            let free = free.iter().find(|free| free.ip == *ip);
            taker.zip(free).is_some_and(|(taker, free)| taker.suits(free))
        };
        self.roomy.retain(awaited);
        for taker in takers {
            // Another node of the same machine may have been first.
            if let Some((ip, _)) = account.ops().find(|(_, op)| op.machine == *taker.machine) {
                report.waiting.insert(taker.name.clone(), Wait::InFlight(ip));
                continue;
            }
            let region = taker.candidate.region.as_deref();
            let room = self.roomy.get(&taker.candidate.uid).copied();
            let fits = |free: &Free| {
                taker.suits(free)
                    && match room {
                        Some(ip) => ip == free.ip,
                        None => !self.roomy.values().any(|ip| *ip == free.ip),
                    }
            };
            let Some(position) = free.iter().position(fits) else {
                let wait = match region {
                    Some(region) if !free.is_empty() && !free.iter().any(|free| taker.suits(free)) => {
                        Wait::OtherRegion(region.to_owned())
                    }
                    Some(_) | None => Wait::NoFreeIp,
                };
                report.waiting.insert(taker.name.clone(), wait);
                continue;
            };
            match self.may_assign(room.is_some(), account, world) {
                Ok(()) => {
                    let free = free.remove(position);
                    let (leaves, to) = taker.leaves(&free);
                    report.waiting.insert(taker.name.clone(), Wait::InFlight(leaves));
                    if let Some(wait) = self.waits_for_labels(leaves, to, world, out) {
                        self.unlabelling.wait(wait);
                        continue;
                    }
                    self.roomy.remove(&taker.candidate.uid);
                    self.start(&free, &taker, self.changed_at, account, world, out);
                }
                Err((wait, at)) => {
                    if let Some(at) = at {
                        out.later(at);
                    }
                    report.waiting.insert(taker.name.clone(), wait);
                }
            }
        }
    }

    /// Whether one more assignment may start now, and if not, when to look again. `has_room`: its node has made room
    /// for it, and the pool's cool-off was left to it.
    pub(super) fn may_assign(
        &self,
        has_room: bool,
        account: &mut Account,
        world: &World<'_>,
    ) -> Result<(), (Wait, Option<Moment>)> {
        self.pause.wait().map_or(Ok(()), |wait| Err((wait, None)))?;
        if self.spec.cool_off_ms > 0 {
            let ours = || account.ops().filter(|(_, op)| op.pool == self.object.uid);
            let first = has_room || self.roomy.is_empty();
            if ours().any(|(_, op)| op.is_unanswered()) || !first || self.unlabelling.any() {
                return Err((Wait::CoolOff, None));
            }
            // Making room is the first half of an assignment.
            let last = ours().map(|(_, op)| op.started).chain(self.last_assigned).max();
            if let Some(at) =
                last.map(|at| at.plus_millis(self.spec.cool_off_ms)).filter(|at| *at > world.now)
            {
                return Err((Wait::CoolOff, Some(at)));
            }
        }
        if !world.permit || !account.is_authorised() {
            return Err((Wait::Unsure, None));
        }
        if account.ops().count() >= MAX_OPS {
            return Err((Wait::Full, None));
        }
        if let Some(at) = account.rights.waits(Right::Move, world.now) {
            return Err((Wait::Refused(account.rights.message(Right::Move).to_owned()), Some(at)));
        }
        account.budget().admit(Purpose::Assign, world.now).map_err(|at| (Wait::Budget, Some(at)))
    }

    /// What has to hold of each operation that begins.
    fn check_start(&self, ip: Address, account: &Account, world: &World<'_>) {
        debug_assert!(
            world.permit && self.may_begin() && self.matched && account.is_known(),
            "{ip}: known enough"
        );
        debug_assert!(self.used().contains(&ip), "{ip} is used");
        debug_assert!(
            world.owners.get(&ip).is_some_and(|owner| owner.uid == self.object.uid),
            "{ip} is ours"
        );
        debug_assert!(
            matches!(account.place(ip), Place::Present { locked: false, .. })
                && account.belief(ip).is_some_and(|belief| !belief.is_doubted()),
            "{ip} was last read as present, unlocked and without doubt"
        );
    }

    pub(super) fn start(
        &self,
        free: &Free,
        taker: &Taker<'_>,
        caused: Moment,
        account: &mut Account,
        world: &World<'_>,
        out: &mut Effects<Action>,
    ) {
        self.check_start(free.ip, account, world);
        account.budget().sent(Purpose::Assign, world.now);
        account.rights.sent(Right::Move, world.now);
        let node = (taker.candidate.uid.clone(), taker.name.clone());
        let (ip, kind) = match taker.evict {
            Some(holder) => (holder, OpKind::Unassign { successor: Some(free.ip) }),
            None => (free.ip, OpKind::Assign),
        };
        let from = if taker.evict.is_some() { Some(taker.machine.clone()) } else { free.from.clone() };
        let mut op = Op::new(self.object.uid.clone(), kind, taker.machine.clone(), node, from, world.now);
        op.caused = caused;
        account.begin(ip, op);
        let (epoch, pool, machine) = (account.epoch().clone(), self.object.clone(), taker.machine.clone());
        out.act(match kind {
            OpKind::Assign => Action::Assign { epoch, pool, ip, machine, node: taker.name.clone() },
            OpKind::Unassign { .. } => Action::Unassign { epoch, pool, ip, machine },
        });
    }
}

/// How a machine that another pool claims looks from here.
fn claim(world: &World<'_>, claimer: &ObjectRef, ip: Address, machine: &MachineId) -> Wait {
    let name: ObjectName = claimer.name.clone();
    // Of a pool whose nodes are not read yet nobody knows that it does not.
    let serves = |pool: &Pool| !pool.matched || pool.candidate_on(machine).is_some();
    let serves = world.others.get(&claimer.uid).is_some_and(serves);
    if serves { Wait::Claimed(name) } else { Wait::ClaimedBy(name, ip) }
}
