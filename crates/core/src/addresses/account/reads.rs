//! Which reads of an account are due, and the moment at which the next one is.

use super::belief::{Belief, Place};
use super::{Account, MachineRead};
use crate::addresses::action::{Action, Call};
use crate::mechanism::{Effects, Pace, Purpose, Retry};
use crate::model::{Address, Context, Fault, Moment, ObjectRef, Owner};
use std::collections::{BTreeMap, BTreeSet};

/// If more actions than this are pending, a list replaces their polls. The same holds for addresses that actions of
/// others keep locked.
const MAX_POLLED: usize = 5;

/// The number of addresses in one round of single reads. Addresses that are on no list are read this way.
const SINGLES_PER_ROUND: usize = 10;

/// Once a list takes longer than this, single reads replace it. A list of a few pages takes less.
const LIST_SLOW_MS: u64 = 2_000;

/// A refused token is retried once a minute.
const UNAUTHORISED_INTERVAL_MS: u64 = 60_000;

/// State of the reads themselves.
#[derive(Debug, Default)]
pub(super) struct Reads {
    list: Retry,
    /// When the list under way began.
    list_in_flight: Option<Moment>,
    /// When a newer list than the one under way is wanted.
    wanted: Option<Moment>,
    /// When a proof is wanted, if one is.
    prove: Option<Retry>,
    prove_in_flight: bool,
    /// Something waits for a proof that is newer than the last one.
    proof_asked: bool,
    /// When the last proof began.
    pub(super) last_proof: Option<Moment>,
    /// The addresses that are being read.
    pub(super) gets: BTreeSet<Address>,
    /// The addresses whose action is being polled.
    pub(super) polls: BTreeSet<Address>,
    singles: BTreeSet<Address>,
    singles_due: Moment,
    single_cursor: Option<Address>,
}

impl Reads {
    pub(super) fn list_at(&mut self, at: Moment) {
        self.list = Retry::at(at);
    }

    /// Asks for a list by `at`. If lists fail, their retry schedule decides instead.
    pub(super) fn list_by(&mut self, at: Moment) {
        if !self.list.is_failing() {
            self.list.hasten(at);
        }
    }

    /// Asks for a list no later than `at`. A list under way that began before `at` does not count.
    pub(super) fn want_list(&mut self, at: Moment) {
        self.list_by(at);
        if self.list_in_flight.is_some_and(|begun| begun < at) {
            self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
        }
    }

    /// Notes that a list begins now, which satisfies every earlier request for one.
    fn list_begun(&mut self, now: Moment) {
        self.list_in_flight = Some(now);
        self.wanted = self.wanted.filter(|wanted| *wanted > now);
    }

    pub(super) fn list_done(&mut self, begun: Moment) {
        self.list_in_flight = None;
        let regular = begun.plus_millis(super::LIST_INTERVAL_MS);
        let wanted = self.wanted.take().filter(|wanted| *wanted > begun);
        self.list = Retry::at(wanted.map_or(regular, |wanted| wanted.min(regular)));
    }

    pub(super) fn list_failed(&mut self, fault: &Fault, at: Context) {
        self.list_in_flight = None;
        // Everything else depends on a list, so it is tried each minute, even after a failure that somebody has to
        // fix.
        self.list.failed(Pace::of(fault).within(UNAUTHORISED_INTERVAL_MS), at);
    }

    /// Whether lists work: the last one succeeded, and none has been under way for long.
    fn lists_answer(&self, now: Moment) -> bool {
        !self.list.is_failing() && self.list_slow_at().is_none_or(|slow| slow > now)
    }

    /// When the list under way counts as slow.
    fn list_slow_at(&self) -> Option<Moment> {
        self.list_in_flight.map(|begun| begun.plus_millis(LIST_SLOW_MS))
    }

    /// Asks for a proof at `at`, but for no more than one a minute.
    pub(super) fn prove_at(&mut self, at: Moment) {
        let earliest = self.last_proof.map_or(at, |last| last.plus_millis(UNAUTHORISED_INTERVAL_MS));
        self.prove_wanted_at(at.max(earliest));
    }

    /// Asks for a proof at once.
    pub(super) fn prove_now(&mut self, at: Moment) {
        self.prove_wanted_at(at);
    }

    fn prove_wanted_at(&mut self, at: Moment) {
        self.prove.get_or_insert_default().put_off_to(at);
    }

    /// Asks for a proof, unless one is due anyway.
    pub(super) fn prove_soon(&mut self, at: Moment) {
        if !self.prove_in_flight && self.prove.is_none() {
            self.prove_wanted_at(at);
        }
    }

    /// Makes the reads due that failed with the account, because its outage is over.
    pub(super) fn release(&mut self, now: Moment) {
        self.list.release(now);
        self.prove.iter_mut().for_each(|prove| prove.release(now));
    }

    /// Notes the end of the proof. Returns when it began.
    pub(super) fn prove_done(&mut self, answered: bool) -> Option<Moment> {
        self.prove_in_flight = false;
        if answered {
            self.prove = None;
        }
        self.last_proof
    }

    pub(super) fn prove_failed(&mut self, fault: &Fault, at: Context) {
        self.prove.get_or_insert_default().failed(Pace::of(fault).within(UNAUTHORISED_INTERVAL_MS), at);
    }

    /// Asks for a proof that begins at `since` or later.
    pub(super) fn prove_at_once_for(&mut self, since: Moment, now: Moment) {
        let comes = self.prove_in_flight && self.last_proof >= Some(since);
        if !comes {
            self.proof_asked = true;
            self.prove.get_or_insert(Retry::at(now));
        }
    }

    /// Queues an address that is on no list for a single read.
    pub(super) fn single(&mut self, ip: Address) {
        self.singles.insert(ip);
    }

    /// The next addresses of the rotation, starting after the last one that was read. Lists may come each second;
    /// these reads do not.
    fn take_singles(&mut self, turn: &mut Turn<'_>) -> Vec<Address> {
        if self.singles.is_empty() {
            return Vec::new();
        }
        if self.singles_due > turn.now {
            turn.later(self.singles_due);
            return Vec::new();
        }
        self.singles_due = turn.now.plus_millis(super::LIST_INTERVAL_MS);
        let cursor = self.single_cursor;
        let behind = self.singles.iter().filter(|ip| cursor.is_none_or(|cursor| **ip > cursor));
        let before = self.singles.iter().filter(|ip| cursor.is_some_and(|cursor| **ip <= cursor));
        let round: Vec<Address> = behind.chain(before).copied().take(SINGLES_PER_ROUND).collect();
        self.single_cursor = round.last().copied().or(cursor);
        self.singles.clear();
        round
    }
}

/// The inputs for planning reads.
pub(super) struct Turn<'a> {
    pub(super) now: Moment,
    pub(super) out: &'a mut Effects<Action>,
}

impl Turn<'_> {
    pub(super) fn later(&mut self, at: Moment) {
        self.out.later(at);
    }
}

impl Account {
    /// Yields the reads that are due, and when to ask again. `owners` names the pool for which an address is read.
    pub fn plan_reads(
        &mut self,
        owners: &BTreeMap<Address, ObjectRef>,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let mut turn = Turn { now, out };
        self.beliefs.settle();
        let listed = self.leaves_polls_to_the_list(now);
        let pending = self.ops.values().filter_map(|op| op.poll_due(true));
        let pending = pending.filter(|(_, _, directly)| !directly).map(|(_, at, _)| at);
        if listed && let Some(at) = pending.min() {
            self.reads.list_by(at);
        }
        let locked = self.locked_by_others();
        let listed_locks = self.lists_tell(now);
        let looks = locked.iter().filter_map(|ip| self.beliefs.get(ip)?.look_due());
        if listed_locks && let Some(at) = looks.min() {
            self.reads.list_by(at);
        }
        self.plan_test(&mut turn);
        self.plan_list(&mut turn);
        if (listed || !locked.is_empty())
            && let Some(slow) = self.reads.list_slow_at().filter(|slow| *slow > now)
        {
            turn.later(slow);
        }
        self.plan_proof(&mut turn);
        if self.is_authorised() {
            self.plan_gets(owners, (&locked, listed_locks), &mut turn);
            self.plan_polls(owners, listed, &mut turn);
        }
    }

    /// Whether a list proves nothing: without the scope, or while another list waits for the proof.
    fn lists_say_nothing(&self) -> bool {
        self.machine_read == MachineRead::Missing || self.unproved.is_some()
    }

    /// Whether a list will soon show where addresses are.
    fn lists_tell(&self, now: Moment) -> bool {
        let whole = !self.lists_contradict_themselves();
        whole && !self.lists_say_nothing() && self.reads.lists_answer(now)
    }

    /// Whether one list replaces the polls of many pending actions.
    fn leaves_polls_to_the_list(&self, now: Moment) -> bool {
        // Addresses that are on no list have to be read by themselves.
        self.pending(false) > MAX_POLLED && self.lists_tell(now) && self.is_authorised()
    }

    /// The number of pending actions, with or without those whose end only a poll can show.
    fn pending(&self, with_direct: bool) -> usize {
        let polled = self.ops.values().filter_map(|op| op.poll_due(false));
        polled.filter(|(_, _, directly)| with_direct || !directly).count()
    }

    /// The addresses that actions of others keep locked, if they are many. One list covers all of them.
    fn locked_by_others(&self) -> BTreeSet<Address> {
        let looked_at = |ip: &Address, belief: &Belief| {
            belief.look_due().is_some() && !belief.is_unlisted() && !self.ops.contains_key(ip)
        };
        let locked = self.beliefs.restless().filter(|(ip, belief)| looked_at(ip, belief));
        let locked: BTreeSet<Address> = locked.map(|(ip, _)| *ip).collect();
        if locked.len() > MAX_POLLED { locked } else { BTreeSet::new() }
    }

    pub(super) fn admit(&mut self, purpose: Purpose, turn: &mut Turn<'_>) -> bool {
        match self.budget.admit(purpose, turn.now) {
            Ok(()) => {
                self.budget.sent(purpose, turn.now);
                true
            }
            Err(at) => {
                turn.later(at);
                false
            }
        }
    }

    fn plan_list(&mut self, turn: &mut Turn<'_>) {
        // While lists prove nothing, the proof is tried instead.
        if self.reads.list_in_flight.is_some() || self.lists_say_nothing() {
            return;
        }
        if self.reads.list.due() > turn.now {
            turn.later(self.reads.list.due());
            return;
        }
        let purpose = if self.is_listed() { Purpose::Poll } else { Purpose::Assign };
        if self.admit(purpose, turn) {
            self.reads.list_begun(turn.now);
            turn.out.act(self.epoch.request(None, Call::List));
        }
    }

    fn plan_proof(&mut self, turn: &mut Turn<'_>) {
        // One read a minute tries a refused token. The list is that read if it can prove something.
        let probes = self.is_authorised() || self.lists_say_nothing();
        let unproved =
            self.machine_read != MachineRead::Proved || !self.hidden.is_empty() || self.reads.proof_asked;
        let Some(due) = self.reads.prove.as_ref().map(Retry::due) else { return };
        if !unproved || self.reads.prove_in_flight || !probes {
            return;
        }
        if due > turn.now {
            turn.later(due);
        } else if self.admit(Purpose::Assign, turn) {
            self.reads.prove_in_flight = true;
            self.reads.proof_asked = false;
            self.reads.last_proof = Some(turn.now);
            turn.out.act(self.epoch.request(None, Call::ProveMachineRead));
        }
    }

    fn plan_gets(
        &mut self,
        owners: &BTreeMap<Address, ObjectRef>,
        (locked, listed): (&BTreeSet<Address>, bool),
        turn: &mut Turn<'_>,
    ) {
        let mut due: Vec<(Address, Moment, Purpose)> = Vec::new();
        let restless = self.beliefs.restless().map(|(ip, _)| ip);
        let read: BTreeSet<&Address> = restless.chain(self.ops.keys()).collect();
        for ip in read.into_iter().filter(|ip| !(listed && locked.contains(ip))) {
            let Some(belief) = self.beliefs.get(ip) else { continue };
            let at = match self.ops.get(ip) {
                Some(op) => op.read_due(),
                None => belief.read_due(self.remembered.contains(ip)),
            };
            // Many locked addresses without a list come after calls that move addresses or change records. A pool can
            // name a thousand addresses that the account does not have, and they come last.
            let here = matches!(belief.place(), Place::Present { .. });
            let matters = here || self.ops.contains_key(ip) || self.remembered.contains(ip);
            let purpose = match (matters, locked.contains(ip)) {
                (false, _) => Purpose::Reread,
                (true, true) => Purpose::Poll,
                (true, false) => Purpose::Look,
            };
            due.extend(at.map(|at| (*ip, at, purpose)));
        }
        due.extend(self.reads.take_singles(turn).into_iter().map(|ip| (ip, turn.now, Purpose::Poll)));
        // If there is no room for all, those that have waited longest come first.
        due.sort_by_key(|(_, at, _)| *at);
        for (ip, at, purpose) in due {
            if self.reads.gets.contains(&ip) {
                continue;
            }
            if at > turn.now {
                turn.later(at);
            } else if self.admit(purpose, turn) {
                self.reads.gets.insert(ip);
                let owner = owners.get(&ip).cloned().map(Owner::pool);
                turn.out.act(self.epoch.request(owner, Call::Get(ip)));
            }
        }
    }

    fn plan_polls(&mut self, owners: &BTreeMap<Address, ObjectRef>, listed: bool, turn: &mut Turn<'_>) {
        let many = self.pending(true) > MAX_POLLED;
        let mut pending: Vec<_> =
            self.ops.iter().filter_map(|(ip, op)| Some((*ip, op.poll_due(many)?))).collect();
        pending.sort_by_key(|(_, (_, at, _))| *at);
        for (ip, (action, at, directly)) in pending {
            if (listed && !directly) || self.reads.polls.contains(&ip) {
                continue;
            }
            if at > turn.now {
                turn.later(at);
            } else if self.admit(Purpose::Poll, turn) {
                self.reads.polls.insert(ip);
                let owner = owners.get(&ip).cloned().map(Owner::pool);
                turn.out.act(self.epoch.request(owner, Call::Poll(ip, action)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FaultKind;

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    #[test]
    fn a_list_that_was_wanted_before_one_that_failed_hides_no_later_one() {
        let mut reads = Reads::default();
        reads.list_begun(T(10));
        reads.want_list(T(11));
        let fault = Fault::new(FaultKind::Transient, "x".into());
        reads.list_failed(&fault, Context::exactly(T(12)));
        reads.list_begun(T(13));
        reads.want_list(T(14));
        reads.list_done(T(13));
        assert_eq!(reads.list.due(), T(14));
    }
}
