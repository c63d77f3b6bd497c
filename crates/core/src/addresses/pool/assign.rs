//! Decides which node gets which address. This is the heart of the operator.
//!
//! Total and level-triggered: the same facts give the same plan. Planning twice starts nothing twice, because the
//! account holds each started operation.

use super::Pool;
use super::candidates::{Candidate, Candidates, Free, Named, Receiver};
use super::report::{Report, Wait};
use super::world::World;
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
use crate::addresses::account::op::{MAX_OPS, Op, OpKind};
use crate::addresses::account::rights::Right;
use crate::addresses::action::{Action, Call};
use crate::mechanism::{Effects, Purpose};
use crate::model::{Address, FaultKind, MachineId, Moment, ObjectName, ObjectRef, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rank of a node that can take an address. Among nodes of one rank, their turn decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// It has not made room for an address.
    no_room: bool,
    /// Its place behind others after a failure.
    deprioritized: u64,
    /// It failed a check lately.
    fails: bool,
}

/// The rank of almost every node.
const COMMON: Rank = Rank { no_room: true, deprioritized: 0, fails: false };

impl Pool {
    /// Decides which assignments start now. Only for a live pool with its nodes and its account known.
    pub fn plan_assignments(&mut self, account: &mut Account, world: &World<'_>, out: &mut Effects<Action>) {
        let mine: Vec<Address> = self
            .used()
            .into_iter()
            .filter(|ip| world.owners.get(ip).is_some_and(|o| o.uid == self.object.uid))
            .collect();
        let settle = self.candidates.sharing().map(|(_, settles)| settles);
        settle.filter(|settles| *settles > world.now).for_each(|settles| out.later(settles));
        self.report = self.note_standing(&mine, account, world);
        let served = self
            .report
            .active
            .iter()
            .filter_map(|(ip, node)| Some((*ip, self.candidates.get(node)?.node.uid.clone())));
        for (ip, node) in served.collect::<Vec<_>>() {
            self.forget_failures_of(ip, &node);
        }
        self.forget_refusals_that_are_explained(&world.sights.holders);
        let free = self.free_addresses(&mine, account, world, out);
        // Thousands of candidates are not copied for each plan.
        let mut candidates = std::mem::take(&mut self.candidates);
        let evicted = self.note_waits(&mut candidates, account, world, out);
        for (name, wait) in self.pair(free, &candidates, &evicted, account, world, out) {
            candidates.note_wait(&name, Some(wait));
        }
        self.candidates = candidates;
    }

    /// Forgets a refusal because an unknown address was on the node, once that address is known.
    fn forget_refusals_that_are_explained(&mut self, holders: &BTreeMap<MachineId, Address>) {
        let failures = &mut self.node_failures;
        if failures.values().all(|failure| failure.kind != FaultKind::NodeInUse) {
            return;
        }
        for name in self.candidates.on_any(holders) {
            let Some(uid) = self.candidates.get(&name).map(|candidate| &candidate.node.uid) else { continue };
            if failures.get(uid).is_some_and(|failure| failure.kind == FaultKind::NodeInUse) {
                failures.remove(uid);
            }
        }
    }

    /// Forgets refusals of the token once it may have the right. A frozen pool does so too, since it reports problems.
    pub fn forgive_token_moving(&mut self, account: &Account) {
        if account.gate(Right::Move).is_open() {
            for record in self.ips.values_mut() {
                record.failure.take_if(|failure| failure.kind == FaultKind::Unauthorized);
                record.error.take_if(|(kind, _)| *kind == FaultKind::Unauthorized);
            }
        }
    }

    /// Notes which addresses belong to another pool, if nothing else is planned.
    pub fn note_claimed(&mut self, owners: &BTreeMap<Address, ObjectRef>) {
        self.report.claimed = self.claimed_by_older(owners);
    }

    /// For a frozen pool: follows the addresses that were on candidates, since others may have moved them. A pool
    /// whose nodes are not read yet waits for them instead.
    pub fn follow_standing(&mut self, account: &Account) {
        for (ip, _) in self.ips.iter().filter(|(_, record)| record.was_active) {
            let place = account.place(*ip);
            if *place == Place::Unknown {
                continue;
            }
            let standing = place.machine().and_then(|machine| self.candidate_on(machine));
            // A new claim must not rest on facts about nodes from an earlier term.
            let active = self.report.active.get(ip).map(String::as_str);
            match standing.filter(|node| self.nodes.matched || active == Some(*node)) {
                Some(node) => self.report.active.insert(*ip, node.to_owned()),
                None => self.report.active.remove(ip),
            };
        }
    }

    /// Whether an address was on a candidate at the last plan, and others have taken it off since.
    pub fn has_left(&self, ip: Address) -> bool {
        self.ips.get(&ip).is_some_and(|record| record.was_active) && !self.report.active.contains_key(&ip)
    }

    fn claimed_by_older(&self, owners: &BTreeMap<Address, ObjectRef>) -> BTreeMap<Address, ObjectName> {
        let older = |ip: &Address| owners.get(ip).filter(|owner| owner.uid != self.object.uid);
        self.effective().into_iter().filter_map(|ip| Some((ip, older(&ip)?.name.clone()))).collect()
    }

    /// Notes which addresses are on candidates, which addresses left one since the last plan, and which candidates
    /// lost one.
    fn note_standing(&mut self, mine: &[Address], account: &Account, world: &World<'_>) -> Report {
        let mut report = Report { claimed: self.claimed_by_older(world.owners), ..Report::default() };
        let mut stands: BTreeMap<&MachineId, BTreeSet<Address>> = BTreeMap::new();
        for ip in mine {
            if let Some(machine) = account.place(*ip).machine() {
                stands.entry(machine).or_default().insert(*ip);
            }
        }
        // By machine, because two nodes of one machine both have its address while one of them is about to go. The
        // older one, which comes last, is named as its place.
        let mut holders: BTreeMap<Arc<str>, Address> = BTreeMap::new();
        for (machine, here) in &stands {
            let counts = |name: &&Arc<str>| self.candidates.elder(name, world.now).is_none();
            let mut counting: Vec<&Arc<str>> = self.candidates.on(machine).filter(counts).collect();
            while let Some(name) = counting.pop() {
                report.active.extend(here.iter().map(|ip| (*ip, name.to_string())));
                holders.extend(here.last().map(|ip| (Arc::clone(name), *ip)));
            }
        }
        let lost = self.candidates.holders().filter(|name| !holders.contains_key(*name));
        let lost: Vec<Arc<str>> = lost.cloned().collect();
        for (name, ip) in holders {
            self.candidates.hold(&name, ip);
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
        for name in lost {
            let count = self.tick();
            self.candidates.lose(&name, count);
        }
        report
    }

    /// The addresses to give out: first unassigned ones, then those whose node stopped matching longest ago, then
    /// those that failed recently.
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
            let deprioritized =
                Deprioritized::place(record.and_then(|record| record.deprioritized), world.now);
            let released = record.map_or(0, |record| record.released);
            let entry = Free { ip: *ip, region: region.clone(), from: machine.clone() };
            free.push(((deprioritized, machine.is_some(), released, position), entry));
        }
        free.sort_by_key(|(key, _)| *key);
        free.into_iter().map(|(_, free)| free).collect()
    }

    /// Whether the server remembers an address. A created address is assigned only then, because a crash would lose it
    /// otherwise.
    pub(super) fn is_recorded(&self, ip: Address) -> bool {
        self.on_server.remembers(ip) || self.spec.ips.contains(&ip)
    }

    /// The nodes whose rank differs from [`COMMON`].
    fn uncommon(&self, now: Moment) -> BTreeMap<Uid, Rank> {
        let rank = |uid: &Uid| Rank {
            no_room: !self.roomy.contains_key(uid),
            deprioritized: Deprioritized::place(self.deprioritized.get(uid).copied(), now),
            fails: self.nodes.checked.deprioritized.contains(uid),
        };
        let uids =
            self.roomy.keys().chain(self.deprioritized.keys()).chain(&self.nodes.checked.deprioritized);
        uids.map(|uid| (uid.clone(), rank(uid))).filter(|(_, rank)| *rank != COMMON).collect()
    }

    /// The candidates without an address, in the order in which they get one, each with the reason why it waits. Those
    /// that get none until somebody does something come last.
    pub(crate) fn line(&self, now: Moment) -> Vec<(&str, &Wait)> {
        let uncommon = self.uncommon(now);
        let queued = self.candidates.queue().map(|(name, _)| (name, &Wait::NoFreeIp));
        let waiting = queued.chain(self.candidates.waits());
        let mut line: Vec<_> = waiting
            .filter_map(|(name, wait)| {
                let candidate = self.candidates.get(name)?;
                let rank = uncommon.get(&candidate.node.uid).copied().unwrap_or(COMMON);
                Some(((wait.is_error() && !wait.takes(), rank, candidate.turn()), (name, wait)))
            })
            .collect();
        line.sort_by_key(|(place, _)| *place);
        line.into_iter().map(|(_, (name, wait))| (&**name, wait)).collect()
    }

    /// Gives free addresses to candidates that can take one. Returns those that wait for more than a free address, each
    /// with its reason.
    fn pair(
        &mut self,
        mut free: Vec<Free>,
        candidates: &Candidates,
        evicted: &BTreeMap<Uid, Address>,
        account: &mut Account,
        world: &World<'_>,
        out: &mut Effects<Action>,
    ) -> Vec<(Arc<str>, Wait)> {
        if free.is_empty() {
            self.roomy.clear();
            return Vec::new();
        }
        let uncommon = self.uncommon(world.now);
        let (first, last) = out_of_turn(candidates, &uncommon);
        let common = candidates.queue().filter(|(_, candidate)| !uncommon.contains_key(&candidate.node.uid));
        let receivers = first.iter().copied().chain(common).chain(last.iter().copied());
        let receivers = receivers.filter_map(|named| Receiver::new(named, evicted));
        let awaited = |uid: &Uid, ip: &mut Address| {
            let receiver = first.iter().find(|(_, candidate)| candidate.node.uid == *uid);
            let receiver = receiver.and_then(|named| Receiver::new(*named, evicted));
            let free = free.iter().find(|free| free.ip == *ip);
            receiver.zip(free).is_some_and(|(receiver, free)| receiver.suits(free))
        };
        self.roomy.retain(awaited);
        let mut waits = Vec::new();
        // The operations of this plan. Machines that were busy before it are not among the receivers.
        let mut begun: Vec<(&MachineId, Address)> = Vec::new();
        for receiver in receivers {
            if free.is_empty() {
                break;
            }
            // Another node of the same machine may have come first.
            if begun.iter().any(|(machine, _)| *machine == receiver.machine) {
                continue;
            }
            let region = receiver.candidate.node.region.as_deref();
            let room = self.roomy.get(&receiver.candidate.node.uid).copied();
            let fits = |free: &Free| {
                receiver.suits(free)
                    && match room {
                        Some(ip) => ip == free.ip,
                        None => !self.roomy.values().any(|ip| *ip == free.ip),
                    }
            };
            let Some(position) = free.iter().position(fits) else {
                let elsewhere = !free.iter().any(|free| receiver.suits(free));
                if let Some(region) = region.filter(|_| elsewhere) {
                    waits.push((Arc::clone(receiver.name), Wait::OtherRegion(region.to_owned())));
                }
                continue;
            };
            match self.may_assign(room.is_some(), account, world) {
                Ok(()) => {
                    let free = free.remove(position);
                    let (leaves, to) = receiver.leaves(&free);
                    if let Some(wait) = self.waits_for_labels(leaves, to, world, out) {
                        waits.push((Arc::clone(receiver.name), Wait::InFlight(leaves)));
                        self.unlabelling.wait(wait);
                        continue;
                    }
                    self.roomy.remove(&receiver.candidate.node.uid);
                    begun.push((receiver.machine, leaves));
                    self.start(&free, &receiver, self.changed_at, account, world, out);
                }
                Err((wait, at)) => {
                    if let Some(at) = at {
                        out.later(at);
                    }
                    waits.push((Arc::clone(receiver.name), wait));
                }
            }
        }
        for (machine, ip) in begun {
            let queued = |name: &&Arc<str>| candidates.get(name).is_some_and(Candidate::is_queued);
            let here = candidates.on(machine).filter(queued);
            waits.extend(here.map(|name| (Arc::clone(name), Wait::InFlight(ip))));
        }
        waits
    }

    /// Whether one more assignment may start now, and if not, when to look again. `has_room` says that its node has
    /// made room for it. In a pool with a cool-off, such assignments go before all others.
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
        let gate = account.gate(Right::Move);
        if let Some(at) = gate.waits(world.now) {
            return Err((Wait::Refused(gate.message().to_owned()), Some(at)));
        }
        let budget = account.budget();
        budget.admit_for(&self.object.uid, Purpose::Assign, world.now).map_err(|at| (Wait::Budget, Some(at)))
    }

    /// Checks the invariants of each operation that begins.
    fn check_start(&self, ip: Address, account: &Account, world: &World<'_>) {
        debug_assert!(
            world.permit && self.may_begin() && self.nodes.matched && account.is_known(),
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
        receiver: &Receiver<'_>,
        caused: Moment,
        account: &mut Account,
        world: &World<'_>,
        out: &mut Effects<Action>,
    ) {
        self.check_start(free.ip, account, world);
        let node = (receiver.candidate.node.uid.clone(), receiver.name.to_string());
        let (ip, kind) = match receiver.evict {
            Some(holder) => (holder, OpKind::Unassign { successor: Some(free.ip) }),
            None => (free.ip, OpKind::Assign),
        };
        let from = if receiver.evict.is_some() { Some(receiver.machine.clone()) } else { free.from.clone() };
        let mut op = Op::new(self.object.uid.clone(), kind, receiver.machine.clone(), node, from, world.now);
        op.caused = caused;
        account.begin(ip, op, Purpose::Assign);
        let machine = receiver.machine.clone();
        let call = match kind {
            OpKind::Assign => Call::Assign { ip, machine, node: receiver.name.to_string() },
            OpKind::Unassign { .. } => Call::Unassign(ip, machine),
        };
        out.act(account.epoch().request(Some(self.owner()), call));
    }
}

/// The candidates in the queue that come before and after those of the common rank.
fn out_of_turn<'a>(
    candidates: &'a Candidates,
    uncommon: &BTreeMap<Uid, Rank>,
) -> (Vec<Named<'a>>, Vec<Named<'a>>) {
    if uncommon.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let rank = |(_, candidate): &Named<'_>| uncommon.get(&candidate.node.uid).copied().unwrap_or(COMMON);
    let mut ranked: Vec<Named<'a>> = candidates.queue().filter(|named| rank(named) != COMMON).collect();
    ranked.sort_by_key(|named| (rank(named), named.1.turn()));
    ranked.into_iter().partition(|named| rank(named) < COMMON)
}

/// The place in the queue of an item that failed recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprioritized {
    /// The sequence number of the failure.
    count: u64,
    until: Moment,
}

impl Deprioritized {
    /// Longer than the longest retry wait, so an item that keeps failing stays behind.
    const LASTS_MS: u64 = 900_000;

    /// The place of an item that failed at `now`, as the `count`th event.
    pub fn since(count: u64, now: Moment) -> Self {
        Self { count, until: now.plus_millis(Self::LASTS_MS) }
    }

    /// Its rank: 0 without a recent failure, otherwise higher the later it failed.
    pub fn place(deprioritized: Option<Self>, now: Moment) -> u64 {
        deprioritized
            .filter(|deprioritized| deprioritized.until > now)
            .map_or(0, |deprioritized| deprioritized.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Schedule;
    use crate::model::Jitter;

    #[test]
    fn what_fails_at_every_retry_stays_behind() {
        let longest = Schedule::Slow.delay_ms(u32::MAX, Jitter::from_random(999));
        let deprioritized = Some(Deprioritized::since(7, Moment::default()));
        let place = |ms| Deprioritized::place(deprioritized, Moment::from_millis(ms));
        assert_eq!(
            (place(longest), place(Deprioritized::LASTS_MS), Deprioritized::place(None, Moment::default())),
            (7, 0, 0)
        );
    }
}
