//! One `FloatingIPPool`: its spec, its memory, its candidates, and its decisions.
//!
//! Invariants: a used address leaves a candidate only by a move by hand. The pool assigns only its own addresses, and
//! only to candidates. It does nothing before the nodes and the account are known.

pub mod assign;
mod blocked;
pub mod candidates;
pub mod creation;
mod following;
mod idle;
mod labels;
pub mod losses;
/// A move that an annotation asks for: the request, its progress and its result.
pub mod manual_move {
    pub(super) mod progress;
    mod request;
    pub mod result;
}
pub mod memory;
pub mod orphans;
mod outcome;
pub mod pause;
pub mod placement;
mod recall;
pub mod reclaim;
pub mod render;
pub mod report;
mod rest;
pub mod spec;
pub mod status;
mod waits;
pub mod world;
mod writing;

use crate::addresses::pool::status::PoolObject;
use crate::mechanism::{Failure, FollowedNodes, Writes};
use crate::model::provider::Providers;
use crate::model::{
    Address, Condition, FaultKind, MachineId, Moment, ObjectKind, ObjectRef, Owner, Seniority, Uid,
};
use assign::Deprioritized;
use candidates::{Candidate, Candidates};
use memory::Memory;
use pause::Pause;
use report::{Report, Wait};
use spec::PoolSpec;
use status::PoolStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pool's knowledge about one of its addresses, beside the account's belief.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpRecord {
    /// When its node stopped matching, as a count. 0 if that was before this process looked.
    pub released: u64,
    /// It was on a candidate at the last plan.
    pub was_active: bool,
    /// A failure after which it is not given out for a while.
    pub failure: Option<Failure<Option<MachineId>>>,
    /// The failure of its last action, for the status.
    pub error: Option<(FaultKind, String)>,
    /// It could not be assigned recently, so others go first.
    pub deprioritized: Option<Deprioritized>,
    /// Nodes that recently could not take it, if the address may be the cause.
    pub refused_by: BTreeSet<Uid>,
    /// The node that had it last and no longer matches, and why.
    pub left: Option<losses::Loss>,
    /// Assignments that succeeded, since the process started.
    pub assignments: u64,
    /// Assignments that failed, since the process started.
    pub errors: u64,
}

/// A pool.
#[derive(Debug, Default)]
pub struct Pool {
    /// Which object.
    pub(crate) object: ObjectRef,
    /// Decides who is older.
    pub(crate) created_at_s: i64,
    /// `metadata.generation`.
    pub(crate) generation: i64,
    /// Version of the object that the next status write replaces.
    pub(crate) resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// The object has our finalizer.
    pub(crate) guarded: bool,
    /// The pause: whether the pool may begin anything.
    pub(crate) pause: Pause,
    /// The spec.
    pub(crate) spec: PoolSpec,
    /// The spec as it was written, or why it cannot be read.
    raw: Option<Result<spec::RawPoolSpec, String>>,
    /// Counts changes of the spec.
    spec_version: u64,
    /// The memory that has to survive a restart. `None` before the first plan if the status has none.
    memory: Option<Memory>,
    /// The status as the server has it.
    pub(crate) on_server: PoolStatus,
    /// Nodes that match.
    pub(crate) candidates: Candidates,
    /// Its knowledge about its nodes.
    pub(crate) nodes: FollowedNodes,
    /// The records of its addresses.
    ips: BTreeMap<Address, Box<IpRecord>>,
    /// The last failed assignment of each node.
    node_failures: BTreeMap<Uid, Failure<String>>,
    /// Nodes that failed recently and go behind the others.
    deprioritized: BTreeMap<Uid, Deprioritized>,
    /// Nodes that made room for an address. They get it before all others.
    roomy: BTreeMap<Uid, Address>,
    /// Moves that wait for the removal of labels.
    unlabelling: labels::Unlabelling,
    /// State of the creation under way.
    creation: creation::Creation,
    moving: manual_move::progress::Moving,
    /// When the last assignment started that was accepted or may have been.
    last_assigned: Option<Moment>,
    /// When the candidates last changed.
    changed_at: Moment,
    /// The findings of the last plan.
    pub(crate) report: Report,
    /// The part of the status about addresses and nodes, as the last plan rendered it.
    pub(crate) shown: PoolStatus,
    /// Holders that stopped matching, until an Event says so.
    losses: losses::Losses,
    /// Addresses taken from one node to another since the process started, by the reason.
    pub(crate) moves: BTreeMap<&'static str, u64>,
    /// Addresses that serve nowhere.
    idle: idle::Idle,
    /// The conditions of the last plan, written or not. `None` before the first ones are known.
    conditions: Option<Vec<Condition>>,
    /// Addresses that are being given back.
    pub(crate) reclaim: reclaim::Reclaim,
    /// Writes of status and spec under way and their retries.
    writes: Writes<PoolStatus>,
    /// Addresses that were effective at the last plan. An address that is no longer effective was given up.
    effective_before: BTreeSet<Address>,
    /// The addresses in `spec.ips` when the memory was taken from the status.
    named_first: BTreeSet<Address>,
    unread: bool,
    counter: u64,
}

impl Pool {
    /// A pool at its first sight.
    pub fn new(seen: PoolObject, providers: &Providers) -> Self {
        let (object, created_at_s) = (seen.object.clone(), seen.created_at_s);
        let mut pool = Self { object, created_at_s, ..Self::default() };
        pool.recall(&seen);
        pool.update(seen, providers);
        pool
    }

    /// Whether the present spec can be read.
    fn is_readable(&self) -> bool {
        matches!(self.raw, Some(Ok(_)))
    }

    /// Drops earlier knowledge, because leadership begins.
    pub fn distrust(&mut self) {
        self.nodes.distrust();
        self.conditions = None;
        self.losses = losses::Losses::default();
    }

    /// Takes in another version of the object. Returns true when the spec changed.
    pub fn update(&mut self, seen: PoolObject, providers: &Providers) -> bool {
        if self.unread {
            self.recall(&seen);
        }
        self.generation = seen.generation;
        self.resource_version = seen.resource_version;
        self.deleting = seen.deleting;
        self.guarded = seen.guarded;
        self.know_status(seen.status);
        if seen.spec.is_ok() {
            self.moving.observed(seen.move_request.as_deref());
        }
        self.writes.observed_again();
        if self.raw.as_ref() == Some(&seen.spec) {
            return false;
        }
        let criteria = self.spec.criteria.take();
        let request = (self.spec.region.clone(), self.spec.desired);
        let account_id = self.spec.account_id.clone();
        self.spec = match &seen.spec {
            Ok(raw) => {
                let mut spec = PoolSpec::parse(raw, providers);
                if let Some(set) = &mut spec.record_set {
                    set.stay(self.spec.record_set.as_ref(), &raw.too_large);
                }
                spec
            }
            Err(message) => self.spec.unreadable(message),
        };
        if criteria != self.spec.criteria {
            self.nodes.criteria_changed(criteria.as_ref());
        }
        if self.spec.criteria.is_none() {
            // Existing assignments are kept: the last valid criteria still decide which nodes match.
            self.spec.criteria = criteria;
        }
        if request != (self.spec.region.clone(), self.spec.desired) {
            self.request_changed();
        }
        if account_id != self.spec.account_id {
            // Another provider may have other machines.
            self.candidates.look_at_all();
            self.account_changed();
        }
        self.raw = Some(seen.spec);
        self.spec_version += 1;
        true
    }

    /// Takes in the status as the server has it. Most often it lists the same waiting nodes. They can be thousands, so
    /// they are kept only once.
    fn know_status(&mut self, status: PoolStatus) {
        self.on_server = status;
        if self.on_server.assignable_nodes == self.shown.assignable_nodes {
            self.on_server.assignable_nodes = Arc::clone(&self.shown.assignable_nodes);
        }
    }

    /// Every address that counts, in order: `spec.ips`, then the created ones.
    pub fn effective(&self) -> Vec<Address> {
        let kept = |ip: &Address| !self.spec.released.contains(ip);
        // The spec names each address once.
        let mut list: Vec<Address> = self.spec.ips.iter().copied().filter(kept).collect();
        let mut created = self.created().filter(kept).peekable();
        if created.peek().is_some() {
            let mut seen: BTreeSet<Address> = list.iter().copied().collect();
            list.extend(created.filter(|ip| seen.insert(*ip)));
        }
        list
    }

    /// The addresses that are used: the first `desiredIPs`, or all.
    pub fn used(&self) -> Vec<Address> {
        let mut list = self.effective();
        if let Some(desired) = self.spec.desired {
            list.truncate(desired);
        }
        list
    }

    /// The addresses that the operator created, or that count as created.
    pub fn created(&self) -> impl Iterator<Item = Address> {
        self.memory.iter().flat_map(|memory| memory.created.iter().map(|created| created.ip))
    }

    /// How many addresses the pool is to use; those that are not there yet are to be created.
    pub fn goal(&self) -> usize {
        self.spec.desired.unwrap_or_else(|| self.used().len())
    }

    /// The addresses that were effective when the spec could last be followed.
    pub fn effective_before(&self) -> &BTreeSet<Address> {
        &self.effective_before
    }

    /// The pool as the owner of its Events and records.
    pub(crate) fn owner(&self) -> Owner {
        Owner::pool(self.object.clone())
    }

    /// The order of age of pools.
    pub const fn seniority(&self) -> Seniority<'_> {
        Seniority::of(self.created_at_s, ObjectKind::Pool, &self.object)
    }

    /// Whether the pool may act at all.
    pub fn is_live(&self) -> bool {
        !self.deleting && !self.spec.is_frozen()
    }

    /// The name of the candidate on a machine.
    pub fn candidate_on(&self, machine: &MachineId) -> Option<&str> {
        self.candidates.on(machine).next().map(AsRef::as_ref)
    }

    /// The message for users about a wait.
    pub(crate) fn text_of(&self, wait: &Wait) -> String {
        wait.text(self.spec.noun())
    }

    /// Counts one more event. The counts give the order of events inside a pool.
    fn tick(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}
