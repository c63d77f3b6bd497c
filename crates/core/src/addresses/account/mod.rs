//! What is known of one provider account, and which reads keep it known.
//!
//! One list per account serves every pool. Owns beliefs about addresses, operations under way, the budget of the
//! token and the proof of its scope; decides which reads are due. Does not decide who gets an address.

pub mod belief;
mod glimpse;
mod named;
pub mod op;
mod reads;
pub mod rights;
mod scope;

pub use scope::MachineRead;

use crate::mechanism::budget::{Budget, RateReport};
use crate::model::facts::{ReservedIp, ReservedIpList};
use crate::model::fault::{Fault, FaultKind};
use crate::model::ids::{AccountId, Address};
use crate::model::machine::MachineKind;
use crate::model::moment::{Context, Moment};
use crate::model::provider::Limits;
use belief::{Belief, Effect, Place};
use op::{End, Op};
use rights::{Right, Rights};
use std::collections::{BTreeMap, BTreeSet};

/// From the start of one list to the start of the next: what others change is noticed within a minute.
pub const LIST_INTERVAL_MS: u64 = 50_000;

/// What keeps the account from being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Kind of the failure.
    pub kind: FaultKind,
    /// What a user may read of it.
    pub message: String,
}

/// An operation that ended, for the pool that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The address.
    pub ip: Address,
    /// The operation.
    pub op: Op,
    /// How it ended.
    pub end: End,
}

/// What a read changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Addresses that someone else moved, unassigned, deleted or restored.
    pub overturned: Vec<Address>,
    /// Operations that ended.
    pub finished: Vec<Finished>,
}

/// One account of a provider.
#[derive(Debug)]
pub struct Account {
    id: AccountId,
    machines: &'static MachineKind,
    beliefs: BTreeMap<Address, Belief>,
    ops: BTreeMap<Address, Op>,
    /// Addresses whose absence has to be confirmed before they are forgotten.
    remembered: BTreeSet<Address>,
    budget: Budget,
    machine_read: MachineRead,
    /// When the last read was begun that proved the scope.
    scope_seen: Option<Moment>,
    /// Addresses whose last read showed no machine and needs a newer proof to be believed.
    hidden: BTreeSet<Address>,
    /// The last complete list.
    listed: Option<(Moment, ReservedIpList)>,
    /// What lists that contradict themselves have shown since. It adds places and takes away nothing.
    glimpsed: Option<BTreeMap<Address, ReservedIp>>,
    /// A list that shows no machine at all, held back until the scope is proved.
    held: Option<(Moment, ReservedIpList)>,
    trouble: Option<Trouble>,
    /// A list that was begun before this does not count.
    not_before: Moment,
    /// Since when there is the present token.
    token_since: Moment,
    /// The pool whose creation was sent and is not answered, be it gone meanwhile or not.
    pub(crate) creating: Option<crate::model::ids::Uid>,
    pub(crate) rights: Rights,
    reads: reads::Reads,
}

impl Account {
    /// An account of which nothing is known.
    #[must_use]
    pub fn new(id: AccountId, limits: Limits, machines: &'static MachineKind) -> Self {
        Self {
            id,
            machines,
            beliefs: BTreeMap::new(),
            ops: BTreeMap::new(),
            remembered: BTreeSet::new(),
            budget: Budget::new(limits),
            machine_read: MachineRead::default(),
            scope_seen: None,
            hidden: BTreeSet::new(),
            listed: None,
            glimpsed: None,
            held: None,
            trouble: None,
            not_before: Moment::default(),
            token_since: Moment::default(),
            creating: None,
            rights: Rights::default(),
            reads: reads::Reads::default(),
        }
    }

    /// The machines on which its addresses stand.
    #[must_use]
    pub fn machines(&self) -> &'static MachineKind {
        self.machines
    }

    /// True once a list was believed: until then nobody acts.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_listed() && self.machine_read == MachineRead::Proved
    }

    /// What keeps the account from being read, if anything.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Whether the token may read machines.
    #[must_use]
    pub fn machine_read(&self) -> MachineRead {
        self.machine_read
    }

    /// What is held true of an address that a pool names.
    #[must_use]
    pub fn belief(&self, ip: Address) -> Option<&Belief> {
        self.beliefs.get(&ip)
    }

    /// Where an address is.
    #[must_use]
    pub fn place(&self, ip: Address) -> &Place {
        self.beliefs.get(&ip).map_or(&Place::Unknown, Belief::place)
    }

    /// The operation under way for an address.
    #[must_use]
    pub fn op(&self, ip: Address) -> Option<&Op> {
        self.ops.get(&ip)
    }

    /// Every operation under way.
    pub fn ops(&self) -> impl Iterator<Item = (Address, &Op)> {
        self.ops.iter().map(|(ip, op)| (*ip, op))
    }

    /// The last complete list and when it was begun.
    #[must_use]
    pub fn last_list(&self) -> Option<(Moment, &BTreeMap<Address, ReservedIp>)> {
        self.listed.as_ref().map(|(begun, list)| (*begun, &list.ips))
    }

    /// The budget of the token.
    pub fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Requests left in the token's quota, as far as known.
    #[must_use]
    pub fn rate_remaining(&self) -> Option<u64> {
        self.budget.remaining()
    }

    /// Takes in what the provider said about rates.
    pub fn observe_rate(&mut self, now: Moment, report: &RateReport) {
        self.budget.observe(now, report);
    }

    /// Another token: what was proved of the old one is proved no more, and what it was refused is tried at once.
    pub fn token_changed(&mut self, now: Moment) {
        self.token_since = now;
        self.rights.forget();
        self.ops.values_mut().for_each(|op| op.look_at_once(now));
        self.trouble = None;
        self.restart(now);
        self.reads.prove_now(now);
    }

    /// The former token was refused what was begun then, which says nothing of the present one.
    #[must_use]
    pub fn is_outdated(&self, fault: &Fault, begun: Moment) -> bool {
        fault.kind == FaultKind::Unauthorised && begun < self.token_since
    }

    /// Reading begins, or begins anew after a pause in which others may have written: nobody acts before a new list.
    pub fn restart(&mut self, now: Moment) {
        self.not_before = now;
        self.forget_scope();
        self.forget_listed();
        self.held = None;
        self.reads.list_at(now);
    }

    /// Nobody asks for this account now.
    pub fn forget_lists(&mut self, now: Moment) {
        if self.is_listed() || self.held.is_some() || self.scope_seen.is_some() {
            self.restart(now);
        }
    }

    /// A list is wanted no later than `at`.
    pub fn want_list(&mut self, at: Moment) {
        self.reads.want_list(at);
    }

    /// An operation starts.
    pub fn begin(&mut self, ip: Address, op: Op) {
        debug_assert!(self.op(ip).is_none(), "one operation for each address: {ip}");
        debug_assert!(
            self.ops.values().all(|other| other.machine != op.machine),
            "one operation for each machine: {}",
            op.machine
        );
        self.ops.insert(ip, op);
    }

    /// A new address of ours exists.
    pub fn created(&mut self, ip: Address, region: &str, now: Moment) {
        let place = Place::Present { machine: None, region: region.to_owned(), locked: false };
        self.beliefs.entry(ip).or_default().settle(place, now);
    }

    /// The answer to a list that was begun at `begun`.
    pub fn on_list(
        &mut self,
        begun: Moment,
        result: Result<ReservedIpList, Fault>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        let outdated = match &result {
            Ok(_) => begun < self.not_before,
            Err(fault) => self.is_outdated(fault, begun),
        };
        if outdated {
            self.reads.list_done(begun);
            self.reads.list_at(now);
            return Changes::default();
        }
        match result {
            Err(fault) => {
                self.reads.list_failed(&fault, at);
                self.read_failed(fault, now);
                Changes::default()
            }
            Ok(list) => {
                self.reads.list_done(begun);
                self.trouble = None;
                self.weigh(begun, list, now)
            }
        }
    }

    /// Believes a list unless it may be blind for want of a scope.
    fn weigh(&mut self, begun: Moment, list: ReservedIpList, now: Moment) -> Changes {
        if list.ips.values().any(|read| read.machine.is_some()) {
            self.saw_scope(begun);
            self.held = None;
        } else if self.lists_showed_machines() {
            self.machine_read = MachineRead::Unproved;
        }
        if self.machine_read == MachineRead::Proved {
            return self.believe(begun, list, now);
        }
        self.held = Some((begun, list));
        if self.machine_read == MachineRead::Unproved {
            // No more often than lists come.
            self.reads.prove_now(now);
        }
        Changes::default()
    }

    fn believe(&mut self, begun: Moment, list: ReservedIpList, now: Moment) -> Changes {
        if let Some(message) = list.contradiction {
            self.trouble = Some(Trouble { kind: FaultKind::Transient, message });
            return self.glimpse(begun, list.ips, now);
        }
        let mut changes = Changes::default();
        let ips: Vec<Address> = self.beliefs.keys().copied().collect();
        for ip in ips {
            let entry = list.ips.get(&ip);
            if let Some(op) = self.ops.get_mut(&ip) {
                let ended = op.listed(entry, begun, now);
                self.finish(ip, ended, now, &mut changes);
                continue;
            }
            let belief = self.beliefs.entry(ip).or_default();
            belief.listed(entry, begun, now);
            if belief.is_unlisted() {
                self.reads.single(ip);
            }
        }
        self.listed = Some((begun, list));
        self.glimpsed = None;
        changes
    }

    /// The answer to the question whether the token may read machines.
    pub fn on_proof(&mut self, result: Result<bool, Fault>, at @ Context { now, .. }: Context) -> Changes {
        let begun = self.reads.prove_done(result.is_ok());
        let newer = self.held.as_ref().map(|(held, _)| *held);
        if begun.is_some_and(|begun| !self.is_of_now(begun) || newer.is_some_and(|held| begun < held)) {
            self.reads.prove_now(now);
            return Changes::default();
        }
        if result.is_ok() {
            self.trouble = None;
        }
        match result {
            Ok(true) => {
                self.saw_scope(begun.unwrap_or(now));
                let held = self.held.take();
                let outdated = |begun: &Moment| now.millis_since(*begun) > LIST_INTERVAL_MS;
                if held.as_ref().is_some_and(|(begun, _)| outdated(begun)) {
                    // The proof came late; others may have moved addresses meanwhile.
                    self.forget_listed();
                    self.reads.list_at(now);
                } else if let Some((begun, list)) = held {
                    return self.believe(begun, list, now);
                }
            }
            Ok(false) => {
                self.machine_read = MachineRead::Missing;
                self.held = None;
                self.reads.prove_at(now);
            }
            Err(fault) => {
                self.reads.prove_failed(&fault, at);
                if self.machine_read != MachineRead::Proved || fault.kind == FaultKind::Unauthorised {
                    self.read_failed(fault, now);
                }
            }
        }
        Changes::default()
    }

    /// The answer to a read of one address, begun at `begun`.
    pub fn on_get(
        &mut self,
        ip: Address,
        begun: Moment,
        result: Result<ReservedIp, Fault>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        self.reads.get_done(ip);
        let mut changes = Changes::default();
        let found = match result {
            Ok(read) => Some(read),
            Err(fault) if fault.kind == FaultKind::NotFound => None,
            Err(fault) if self.is_outdated(&fault, begun) => return changes,
            Err(fault) => {
                if let Some(op) = self.ops.get_mut(&ip) {
                    op.read_failed(&fault, at);
                } else if let Some(belief) = self.beliefs.get_mut(&ip) {
                    belief.read_failed(fault.kind, at);
                }
                if fault.kind == FaultKind::Unauthorised {
                    self.read_failed(fault, now);
                }
                return changes;
            }
        };
        if found.as_ref().is_some_and(|read| read.machine.is_some()) {
            self.saw_scope(begun);
            if self.held.take().is_some() {
                // It waited for a proof; this one says that the list is out of date.
                self.forget_listed();
                self.reads.list_at(now);
            }
        } else if let Some(read) = &found
            && self.may_be_hidden(ip, read, begun)
        {
            self.doubt_scope(ip, read, begun, at);
            return changes;
        }
        if let Some(op) = self.ops.get_mut(&ip) {
            let ended = op.read(found.as_ref(), begun, now);
            let failed = matches!(ended, Some(End::Failed(..)));
            self.finish(ip, ended, now, &mut changes);
            if failed && let Some(belief) = self.beliefs.get_mut(&ip) {
                belief.read(found.as_ref(), begun, now);
            }
        } else if let Some(belief) = self.beliefs.get_mut(&ip)
            && belief.read(found.as_ref(), begun, now) == Effect::Overturned
        {
            changes.overturned.push(ip);
        }
        changes
    }

    /// The answer to an assignment or unassignment; `None` when it never left this process.
    pub fn on_changed(
        &mut self,
        ip: Address,
        answer: Option<Result<(crate::model::ids::ActionId, crate::model::facts::ActionStatus), Fault>>,
        now: Moment,
    ) -> Changes {
        let mut changes = Changes::default();
        let begun = self.ops.get(&ip).map_or(now, |op| op.started);
        // A refusal had no effect: it is as if nothing had been sent.
        let answer =
            answer.filter(|answer| !answer.as_ref().is_err_and(|fault| self.is_outdated(fault, begun)));
        match &answer {
            None => self.budget.not_sent(),
            Some(Ok(_)) => self.rights.granted(Right::Move),
            Some(Err(fault)) => {
                if fault.kind == FaultKind::Unauthorised {
                    self.rights.refused(Right::Move, &fault.message, now);
                }
                self.refused(fault, now);
            }
        }
        if let Some(op) = self.ops.get_mut(&ip) {
            let ended = match answer {
                None => Some(End::NotSent),
                Some(answer) => op.answered(answer, now),
            };
            self.finish(ip, ended, now, &mut changes);
        }
        changes
    }

    /// The answer to a poll of an action.
    pub fn on_poll(
        &mut self,
        ip: Address,
        begun: Moment,
        result: Result<crate::model::facts::ActionStatus, Fault>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        self.reads.poll_done(ip);
        let mut changes = Changes::default();
        if result.as_ref().is_err_and(|fault| self.is_outdated(fault, begun)) {
            // The action is asked after again, with the present token.
            if let Some(op) = self.ops.get_mut(&ip) {
                op.look_at_once(now);
            }
            return changes;
        }
        if let Err(fault) = &result {
            self.refused(fault, now);
        }
        // What was begun before the operation asked for the action of another one.
        if let Some(op) = self.ops.get_mut(&ip).filter(|op| begun > op.started) {
            let ended = op.polled(result, at);
            self.finish(ip, ended, now, &mut changes);
        }
        changes
    }

    /// Takes an ended operation off and settles what it left.
    fn finish(&mut self, ip: Address, ended: Option<End>, now: Moment, changes: &mut Changes) {
        let Some(end) = ended else { return };
        let Some(op) = self.ops.remove(&ip) else { return };
        let belief = self.beliefs.entry(ip).or_default();
        match &end {
            End::Done => {
                let region = match belief.place() {
                    Place::Present { region, .. } => region.clone(),
                    Place::Unknown | Place::Absent => String::new(),
                };
                belief.settle(Place::Present { machine: op.target(), region, locked: false }, now);
            }
            End::AddressGone => {
                belief.read(None, now, now);
                belief.read(None, now, now);
            }
            End::Refused(..) | End::Failed(..) | End::Errored(_) | End::NotSent => {}
        }
        changes.finished.push(Finished { ip, op, end });
    }

    /// Whether calls other than the one read a minute make sense.
    #[must_use]
    pub fn is_authorised(&self) -> bool {
        self.trouble.as_ref().is_none_or(|trouble| trouble.kind != FaultKind::Unauthorised)
    }

    fn read_failed(&mut self, fault: Fault, now: Moment) {
        self.refused(&fault, now);
        self.trouble = Some(Trouble { kind: fault.kind, message: fault.message });
    }

    /// After a 401 or 403 what the token may do has to be proved anew.
    pub fn refused(&mut self, fault: &Fault, now: Moment) {
        if fault.kind == FaultKind::Unauthorised && self.machine_read == MachineRead::Proved {
            self.machine_read = MachineRead::Unproved;
            self.reads.prove_at(now);
        }
    }
}
