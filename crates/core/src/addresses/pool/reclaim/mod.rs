//! Giving back bought addresses: the state of each one, and the meaning of each answer.
//!
//! The steps for one address: remove it from all records; wait until clients have forgotten it; remove the annotation;
//! take it off its machine; search every object for it; read it; mark it in the status; delete it; wait for a 404.
//! `steps` decides which step is next, and `reported` reports it.
//!
//! Invariants: FLIPOP deletes an address only if the answer to a creation for this very object named it, and only
//! while the status on the server marks it. In doubt the address stays. Only two reads show whether a deletion took
//! effect: one that gets a 404, and one that still shows the address long enough afterwards.

mod guard;
mod reported;
mod steps;

use super::Pool;
use super::memory::Purchased;
use super::spec::ReclaimPolicy;
use crate::mechanism::{Pace, Retry};
use crate::model::catalog::reclaim::ReclaimBlocked;
use crate::model::{AccountId, Address, CallFailure, Context, FaultKind, MachineId, Moment, ReservedIp, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// The records that hold an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// The records at some name have still to be read. The text says why they cannot be read, if they cannot.
    Unread(Option<String>),
    /// Some records hold it, and are about to be removed.
    Held,
    /// An object wants some of the records that hold it. The text says which.
    Claimed(String),
    /// No name that ever held it still holds it.
    None {
        /// The longest time for which clients may remember such a record.
        ttl_ms: u64,
        /// When the oldest of the last reads began. `None` if no record ever held it.
        read: Option<Moment>,
    },
}

/// The content of consistent lists of pools and record sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// When the lists began.
    pub begun: Moment,
    /// When the lists were answered.
    pub done: Moment,
    /// The addresses that were sought in every entry of every object.
    pub sought: BTreeSet<Address>,
    /// The objects that name an address.
    pub naming: BTreeMap<Address, Vec<(Uid, String)>>,
    /// Record sets whose status names an address.
    pub publishing: BTreeMap<Address, String>,
    /// Objects that cannot be read.
    pub unread: Vec<String>,
}

/// Facts from the rest of the state that decide the next step.
pub struct Around<'a> {
    /// Now.
    pub now: Moment,
    /// Whether calls that change something may start.
    pub permit: bool,
    /// Other objects that name addresses, as the watches show them.
    pub named_by: &'a BTreeMap<Address, String>,
    /// Finds the records that hold an address.
    pub records: &'a dyn Fn(&Purchased) -> Records,
    /// Whether an annotation names an address. `None` while that is unknown.
    pub annotated: &'a dyn Fn(Address) -> Option<bool>,
    /// The reason why annotations cannot be written, if they cannot.
    pub unwritable: Option<&'a str>,
    /// The node of this cluster on a machine.
    pub node_on: &'a dyn Fn(&MachineId) -> Option<(Uid, String)>,
    /// The last consistent lists.
    pub listed: Option<&'a Listed>,
    /// The reason why objects cannot be listed, if they cannot.
    pub unlistable: Option<&'a str>,
    /// Whether a purchase in the account is unfinished.
    pub purchasing: bool,
}

/// The addresses of one pool that are being given back.
#[derive(Debug, Default)]
pub struct Reclaim {
    giving: BTreeMap<Address, Giving>,
    /// Addresses that stay after all, and the reason.
    kept: BTreeMap<Address, String>,
    guard: guard::Guard,
}

/// One address that is being given back.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any may hold with any other"
)]
struct Giving {
    /// When the last record that held it was gone.
    unpublished: Option<Moment>,
    /// Clients have forgotten it.
    forgotten: bool,
    /// Lists of objects, and reads of records and of the address, count only if they began after this.
    fresh: Option<Moment>,
    /// When the last read began, if it showed the address unlocked and on no machine.
    free: Option<Moment>,
    /// When the last read began that showed the address at all.
    there: Option<Moment>,
    look: Retry,
    /// The deletion was sent and is not answered.
    sending: bool,
    /// The start of the wait for a deletion that took effect or may have done so.
    undecided: Option<Moment>,
    /// The mark was found in the status when leadership began: a former process may have sent the deletion.
    inherited: bool,
    /// When the provider accepted the deletion.
    accepted: Option<Moment>,
    retry: Retry,
    failure: Option<(FaultKind, String)>,
    /// A 404 has confirmed the deletion.
    gone: bool,
    /// The address has left `spec.ips` since.
    unlisted: bool,
    step: Option<steps::Step>,
    blocked: Option<Blocked>,
}

/// The obstacle that delays an address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Blocked {
    reason: ReclaimBlocked,
    message: String,
    since: Moment,
}

impl Giving {
    fn may_take_effect(&self) -> bool {
        !self.gone && (self.sending || self.inherited || self.undecided.is_some())
    }
}

impl Reclaim {
    /// Starts again when leadership begins. A deletion that the status marks may have been sent.
    pub(super) fn recall(&mut self, purchased: &[Purchased]) {
        let marked = purchased.iter().filter(|purchased| purchased.deleting);
        let inherit = |ip: Address| {
            let sending = self.giving.get(&ip).is_some_and(|giving| giving.sending);
            (ip, Giving { inherited: true, sending, forgotten: true, ..Giving::default() })
        };
        self.giving = marked.map(|purchased| inherit(purchased.ip)).collect();
    }

    /// Notes that these addresses were taken out of `spec.ips`.
    pub(super) fn unlisted(&mut self, gone: &BTreeSet<Address>) {
        let gone = self.giving.iter_mut().filter(|(ip, _)| gone.contains(*ip));
        gone.for_each(|(_, giving)| giving.unlisted = true);
    }

    /// Whether no address is or was to be given back, and no write of the finalizer awaits its answer.
    pub(super) fn is_idle(&self) -> bool {
        self.giving.is_empty() && self.kept.is_empty() && !self.guard.call.is_under_way()
    }

    /// Whether an unconfirmed deletion has taken effect or may do so.
    fn may_take_effect(&self, ip: Address) -> bool {
        self.giving.get(&ip).is_some_and(Giving::may_take_effect)
    }
}

impl Pool {
    /// Notes an address that the answer to a creation of this pool named.
    pub(super) fn purchase_in(&self, account_id: &AccountId, ip: Address) -> Purchased {
        Purchased {
            ip,
            account_id: account_id.clone(),
            uid: self.object.uid.clone(),
            held_on: String::new(),
            names: BTreeSet::new(),
            deleting: false,
        }
    }

    /// Whether the spec asks for deletions and can be followed, and the status can remember them.
    pub(crate) fn gives_back(&self) -> bool {
        if self.deleting {
            return self.is_going();
        }
        let followed = !self.unread && self.is_readable() && !self.spec.is_frozen();
        followed && self.spec.reclaim == ReclaimPolicy::Delete && !self.has_outdated_crds()
    }

    /// The addresses to give back now.
    pub(crate) fn due_back(&self) -> Vec<Address> {
        let on_server =
            |ip| self.on_server.memory.as_ref().is_some_and(|memory| memory.purchase_of(ip).is_some());
        let due = |purchased: &&Purchased| {
            let let_go =
                purchased.account_id == self.spec.account_id && self.spec.released.contains(&purchased.ip);
            (self.deleting || let_go) && on_server(purchased.ip)
        };
        let due = self.purchased().filter(|_| self.gives_back()).filter(due);
        due.map(|purchased| purchased.ip).collect()
    }

    /// Addresses to take out of all records.
    pub(crate) fn withdrawn(&self) -> BTreeSet<Address> {
        let due = self.due_back().into_iter().filter(|_| !self.pause.holds());
        due.collect()
    }

    /// Addresses whose annotations stay for now, because clients may still use them.
    pub(crate) fn annotated_still(&self) -> BTreeSet<Address> {
        let forgotten = |ip: &Address| self.reclaim.giving.get(ip).is_some_and(|giving| giving.forgotten);
        self.due_back().into_iter().filter(|ip| !forgotten(ip)).collect()
    }

    /// Reads of the records of an address count only if they began after this.
    pub(crate) fn reads_records_since(&self, ip: Address) -> Option<Moment> {
        self.reclaim.giving.get(&ip)?.fresh
    }

    /// Whether an unconfirmed deletion in this account has taken effect or may do so.
    pub(crate) fn may_delete_in(&self, account_id: &AccountId) -> bool {
        let here = self.purchased().filter(|purchased| purchased.account_id == *account_id);
        here.into_iter().any(|purchased| self.reclaim.may_take_effect(purchased.ip))
    }

    /// Deleted addresses that `spec.ips` still names.
    pub(super) fn gone_from_account(&self) -> BTreeSet<Address> {
        let giving = self.reclaim.giving.iter().filter(|_| !self.deleting);
        let gone = giving.filter(|(_, giving)| giving.gone && !giving.unlisted);
        gone.map(|(ip, _)| *ip).filter(|ip| self.spec.ips.contains(ip)).collect()
    }

    /// Takes in the answer to a read of an address in this account that began at `begun`.
    pub(crate) fn read_back(
        &mut self,
        (account_id, ip): (&AccountId, Address),
        begun: Moment,
        result: &Result<ReservedIp, CallFailure>,
        at: Context,
    ) {
        let marked = self.is_marked(ip);
        let here = self.purchased().any(|bought| bought.ip == ip && bought.account_id == *account_id);
        let Some(giving) = self.reclaim.giving.get_mut(&ip).filter(|_| here) else { return };
        match result {
            Ok(read) => {
                giving.there = giving.there.max(Some(begun));
                if giving.accepted.is_none() {
                    giving.look.succeeded();
                }
                giving.free = Some(begun).filter(|_| !read.locked && read.machine.is_none());
            }
            Err(CallFailure::Fault(fault)) if fault.kind == FaultKind::NotFound => {
                giving.gone |= marked;
                giving.free = None;
            }
            Err(CallFailure::Fault(fault)) => giving.look.failed(Pace::of(fault), at),
            Err(CallFailure::NotSent) => {}
        }
    }

    /// Makes reads and deletions due that failed with the account, because its outage is over.
    pub(in crate::addresses::pool) fn release_reclaims(&mut self, now: Moment) {
        for giving in self.reclaim.giving.values_mut() {
            giving.look.release(now);
            giving.retry.release(now);
        }
    }

    /// Whether an address is being given back.
    pub(crate) fn is_giving(&self, ip: Address) -> bool {
        self.reclaim.giving.contains_key(&ip)
    }

    /// Takes in the answer to a deletion.
    pub(crate) fn on_deleted(
        &mut self,
        ip: Address,
        result: Result<(), CallFailure>,
        at @ Context { now, .. }: Context,
    ) {
        let marked = self.is_marked(ip);
        let Some(giving) = self.reclaim.giving.get_mut(&ip) else { return };
        giving.sending = false;
        giving.fresh = None;
        match result {
            Ok(()) => {
                (giving.undecided, giving.accepted) = (Some(now), Some(now));
                giving.look = Retry::at(now);
                giving.failure = None;
            }
            Err(CallFailure::NotSent) => {}
            Err(CallFailure::Fault(fault)) if fault.kind == FaultKind::NotFound => giving.gone |= marked,
            Err(CallFailure::Fault(fault)) => {
                giving.retry.failed(Pace::of(&fault), at);
                if fault.outcome_unknown {
                    giving.undecided = Some(now);
                    giving.look = Retry::at(now);
                }
                giving.failure = Some((fault.kind, fault.message));
            }
        }
    }

    /// Whether the status on the server marks the address for deletion.
    fn is_marked(&self, ip: Address) -> bool {
        let marked = |memory: &super::memory::Memory| {
            memory.purchase_of(ip).is_some_and(|purchased| purchased.deleting)
        };
        self.on_server.memory.as_ref().is_some_and(marked) && self.memory.as_ref().is_some_and(marked)
    }

    /// Notes the names at which records hold bought addresses.
    pub(crate) fn note_names(&mut self, held: &BTreeMap<Address, BTreeSet<super::memory::Name>>) {
        let bought = self.memory.iter_mut().flat_map(|memory| &mut memory.purchased);
        for purchased in bought {
            purchased.names.extend(held.get(&purchased.ip).into_iter().flatten().cloned());
        }
    }
}
