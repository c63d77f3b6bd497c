//! The knowledge about one provider account, and the reads that keep it current.
//!
//! One list per account serves every pool. This module owns beliefs about addresses, operations under way, the budget
//! of the token and the proof of its scope. It decides which reads are due. It does not decide who gets an address.

mod answers;
pub mod belief;
mod beliefs;
mod deletions;
mod named;
pub mod op;
mod outage;
mod reads;
pub mod rights;
mod scope;

pub(crate) use beliefs::Moved;
pub(crate) use deletions::EFFECT_MS;
pub use scope::MachineRead;

use crate::mechanism::{Budget, Epoch, Outage, Purpose, RateReport};
use crate::model::provider::Limits;
use crate::model::{
    AccountId, Address, Fault, FaultKind, MachineId, MachineKind, Moment, ReservedIp, ReservedIpList, Uid,
};
use belief::{Belief, Place};
use beliefs::Beliefs;
use op::{End, Op};
use rights::{Right, Rights};
use std::collections::{BTreeMap, BTreeSet};

/// From the start of one list to the start of the next. Changes by others are noticed within a minute.
pub const LIST_INTERVAL_MS: u64 = 50_000;

/// Why the account cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Kind of the failure.
    pub kind: FaultKind,
    /// The message for users.
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

/// The changes that a read brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Addresses that someone else moved, unassigned, deleted or restored.
    pub overturned: Vec<Address>,
    /// Operations that ended.
    pub finished: Vec<Finished>,
    /// The addresses that a list shows elsewhere than they were, each with its machines. `None` if it may be any.
    pub concerned: Option<Vec<(Address, Vec<MachineId>)>>,
}

/// One account of a provider.
#[derive(Debug)]
pub struct Account {
    epoch: Epoch,
    machines: &'static MachineKind,
    beliefs: Beliefs,
    ops: BTreeMap<Address, Op>,
    /// Addresses whose absence has to be confirmed before they are forgotten.
    remembered: BTreeSet<Address>,
    budget: Budget,
    /// `--max-addresses`.
    pub(crate) max_addresses: Option<usize>,
    machine_read: MachineRead,
    /// When the last read began that proved the scope.
    scope_seen: Option<Moment>,
    /// Addresses whose last read showed no machine and needs a newer proof to be believed.
    hidden: BTreeSet<Address>,
    /// The last complete list.
    listed: Option<(Moment, ReservedIpList)>,
    /// Content of later lists that contradict themselves. It adds places and removes none.
    glimpsed: Option<BTreeMap<Address, ReservedIp>>,
    /// When the newest believed list began. It may contradict itself.
    shown: Option<Moment>,
    /// A list that shows no machine at all, held back until the scope is proved.
    unproved: Option<(Moment, ReservedIpList)>,
    trouble: Option<Trouble>,
    /// A list that began before this does not count.
    not_before: Moment,
    /// When the last deletion was confirmed.
    deleted_at: Option<Moment>,
    /// Until when a deletion whose pool is gone may take effect.
    unowned_deletion: Option<Moment>,
    /// Deletions that were sent and are not answered. Their pools may be gone by now.
    deleting: BTreeSet<Address>,
    /// The pool whose creation awaits its answer. The pool may be gone by now.
    creating: Option<Uid>,
    rights: Rights,
    outage: Outage,
    reads: reads::Reads,
    /// Grows with each change of an address's place or operation.
    version: u64,
}

impl Account {
    /// An account about which nothing is known.
    pub fn new(id: AccountId, limits: Limits, machines: &'static MachineKind) -> Self {
        Self {
            epoch: Epoch::first(id),
            machines,
            beliefs: Beliefs::default(),
            ops: BTreeMap::new(),
            remembered: BTreeSet::new(),
            budget: Budget::new(limits),
            max_addresses: None,
            machine_read: MachineRead::default(),
            scope_seen: None,
            hidden: BTreeSet::new(),
            listed: None,
            glimpsed: None,
            shown: None,
            unproved: None,
            trouble: None,
            not_before: Moment::default(),
            deleted_at: None,
            unowned_deletion: None,
            deleting: BTreeSet::new(),
            creating: None,
            rights: Rights::default(),
            outage: Outage::default(),
            reads: reads::Reads::default(),
            version: 0,
        }
    }

    /// A number that grows whenever a place or an operation may have changed.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn touch(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// The machines that an address and its operation concern.
    pub(crate) fn machines_of(&self, ip: Address) -> impl Iterator<Item = MachineId> {
        let of_op = self.op(ip).map(|op| [Some(op.machine.clone()), op.from.clone()]);
        let place = self.place(ip).machine().cloned();
        of_op.into_iter().flatten().flatten().chain(place)
    }

    /// The addresses whose place or operation may have changed since the last call, unless anything may have.
    pub(crate) fn take_moved(&mut self) -> Option<Moved> {
        self.beliefs.take_moved()
    }

    /// Forgets everything that spares work.
    pub(crate) fn forget_indexes(&mut self) {
        self.beliefs.forget_indexes();
    }

    /// The machines that have its addresses.
    pub fn machines(&self) -> &'static MachineKind {
        self.machines
    }

    /// True once a list was believed. Until then no pool acts.
    pub fn is_known(&self) -> bool {
        self.is_listed() && self.machine_read == MachineRead::Proved
    }

    /// The reason why the account cannot be read, if it cannot.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Whether the token may read machines.
    pub fn machine_read(&self) -> MachineRead {
        self.machine_read
    }

    /// The belief about an address that a pool names.
    pub fn belief(&self, ip: Address) -> Option<&Belief> {
        self.beliefs.get(&ip)
    }

    /// Where an address is.
    pub fn place(&self, ip: Address) -> &Place {
        self.beliefs.get(&ip).map_or(&Place::Unknown, Belief::place)
    }

    /// The operation under way for an address.
    pub fn op(&self, ip: Address) -> Option<&Op> {
        self.ops.get(&ip)
    }

    /// Every operation under way.
    pub fn ops(&self) -> impl Iterator<Item = (Address, &Op)> {
        self.ops.iter().map(|(ip, op)| (*ip, op))
    }

    /// The last complete list and when it began.
    pub fn last_list(&self) -> Option<(Moment, &BTreeMap<Address, ReservedIp>)> {
        self.listed.as_ref().map(|(begun, list)| (*begun, &list.ips))
    }

    /// Whether a list that began since then has shown where addresses are.
    pub fn was_listed_since(&self, moment: Moment) -> bool {
        self.shown.is_some_and(|begun| begun >= moment)
    }

    /// Whether any list has ever shown where addresses are.
    pub fn was_read(&self) -> bool {
        self.shown.is_some()
    }

    /// The budget of the token.
    pub fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Requests left in the token's quota, as far as known.
    pub fn rate_remaining(&self) -> Option<u64> {
        self.budget.remaining()
    }

    /// Takes in the provider's rate limits.
    pub fn observe_rate(&mut self, now: Moment, report: &RateReport) {
        self.budget.observe(now, report);
    }

    /// Takes in a change of the token. Proofs of the old one no longer count, and its refused requests are retried at
    /// once.
    pub fn token_changed(&mut self, now: Moment) {
        self.touch();
        self.rights = Rights::default();
        self.ops.values_mut().for_each(|op| op.look_at_once(now));
        self.trouble = None;
        self.begin_epoch(now);
        self.reads.prove_now(now);
    }

    /// The present epoch.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Begins a new epoch, because the token changed or leadership begins.
    pub fn begin_epoch(&mut self, now: Moment) {
        self.epoch.end();
        self.restart(now);
    }

    /// Begins to read the account, or begins again after a pause in which others may have written. No pool acts before
    /// a new list.
    pub fn restart(&mut self, now: Moment) {
        self.touch();
        self.not_before = now;
        self.forget_scope();
        self.forget_listed();
        self.unproved = None;
        self.reads.list_at(now);
    }

    /// Forgets the lists, because no pool uses this account now.
    pub fn forget_lists(&mut self, now: Moment) {
        if self.is_listed() || self.unproved.is_some() || self.scope_seen.is_some() {
            self.restart(now);
        }
    }

    /// Asks for a list no later than `at`.
    pub fn want_list(&mut self, at: Moment) {
        self.reads.want_list(at);
    }

    /// Notes the request of an operation, which is sent now for this purpose.
    pub fn begin(&mut self, ip: Address, op: Op, purpose: Purpose) {
        debug_assert!(self.op(ip).is_none(), "one operation for each address: {ip}");
        debug_assert!(
            self.ops.values().all(|other| other.machine != op.machine),
            "one operation for each machine: {}",
            op.machine
        );
        self.sent(Right::Move, purpose, op.started);
        self.budget.started_for(&op.pool, op.started);
        self.touch();
        self.beliefs.moves(ip);
        self.ops.insert(ip, op);
    }

    /// Notes the request to create an address for this pool, which is sent now.
    pub(crate) fn begin_creation(&mut self, pool: &Uid, now: Moment) {
        debug_assert!(self.creating.is_none(), "one open creation for each account");
        self.creating = Some(pool.clone());
        self.sent(Right::Create, Purpose::Create, now);
    }

    /// Notes that the creation under way was answered.
    pub(crate) fn creation_answered(&mut self) {
        self.creating = None;
    }

    /// The pool whose creation awaits its answer. The pool may be gone by now.
    pub(crate) fn creating(&self) -> Option<&Uid> {
        self.creating.as_ref()
    }

    /// Notes a new address of ours.
    pub fn created(&mut self, ip: Address, region: &str, now: Moment) {
        let place = Place::Present { machine: None, region: region.to_owned(), locked: false };
        self.touch();
        self.beliefs.about(ip).settle(place, now);
    }

    /// Whether the token works. If not, one read a minute tests it.
    pub fn is_authorised(&self) -> bool {
        self.trouble.as_ref().is_none_or(|trouble| trouble.kind != FaultKind::Unauthorized)
    }

    fn read_failed(&mut self, fault: Fault, now: Moment) {
        self.refused(&fault, now);
        self.trouble = Some(Trouble { kind: fault.kind, message: fault.message });
    }

    /// Notes a 401 or 403, after which the rights of the token have to be proved again.
    fn refused(&mut self, fault: &Fault, now: Moment) {
        if fault.kind == FaultKind::Unauthorized && self.machine_read == MachineRead::Proved {
            self.machine_read = MachineRead::Unproved;
            self.reads.prove_at(now);
        }
    }
}
