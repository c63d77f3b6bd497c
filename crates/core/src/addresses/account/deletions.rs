//! The effects of a deletion of an address on its account.
//!
//! Invariant: the account forgets a deleted address. If a later purchase gets the same address, it counts as a new
//! one.

use super::rights::Right;
use super::{Account, MachineRead};
use crate::addresses::action::{Action, Call};
use crate::mechanism::{Effects, Purpose};
use crate::model::{Address, Moment, ObjectRef, Owner};

/// A deletion that was sent takes effect within this time or never. It is longer than a call takes.
pub(crate) const EFFECT_MS: u64 = 30_000;

impl Account {
    /// Notes the request to delete an address, which is sent now.
    pub(crate) fn begin_deletion(&mut self, ip: Address, now: Moment) {
        debug_assert!(self.creating.is_none(), "no deletion while something is bought");
        debug_assert!(self.place(ip).machine().is_none() && self.op(ip).is_none(), "{ip} serves nowhere");
        self.deleting.insert(ip);
        self.sent(Right::Delete, Purpose::Reclaim, now);
    }

    /// Notes that the deletion of an address was answered.
    pub(crate) fn deletion_answered(&mut self, ip: Address) {
        self.deleting.remove(&ip);
    }

    /// Whether a deletion awaits its answer.
    pub(crate) fn is_deleting(&self) -> bool {
        !self.deleting.is_empty()
    }

    /// Forgets an address whose deletion a read has confirmed.
    pub(crate) fn deleted(&mut self, ip: Address, now: Moment) {
        self.deleted_at = Some(now);
        self.forget_address(ip);
        self.want_list(now.plus_millis(1));
    }

    /// Takes in the answer to a deletion whose pool is gone. If the deletion was not accepted, it may still take
    /// effect for a while.
    pub(crate) fn deletion_is_unowned(&mut self, ip: Address, accepted: bool, now: Moment) {
        if accepted {
            self.deleted(ip, now);
        }
        self.unowned_deletion = Some(now.plus_millis(EFFECT_MS));
    }

    /// Until when a deletion whose pool is gone may take effect.
    pub(crate) fn unowned_deletion_until(&self, now: Moment) -> Option<Moment> {
        self.unowned_deletion.filter(|until| *until > now)
    }

    /// Whether the last list began after the last deletion was confirmed.
    pub(crate) fn is_listed_without_deleted(&self) -> bool {
        self.deleted_at.is_none_or(|at| self.last_list().is_some_and(|(begun, _)| begun > at))
    }

    /// Whether a read that began at `begun` or later has proved the scope to read machines. If not, asks for a proof.
    pub(crate) fn proves_since(&mut self, begun: Moment, now: Moment) -> bool {
        let proved = self.machine_read == MachineRead::Proved && self.scope_seen >= Some(begun);
        if !proved {
            self.reads.prove_at_once_for(begun, now);
        }
        proved
    }

    /// Reads one address, unless a read is under way or has to wait. Returns when to ask again, if only time is
    /// missing.
    pub(crate) fn look_at(
        &mut self,
        ip: Address,
        owner: &ObjectRef,
        now: Moment,
        out: &mut Effects<Action>,
    ) -> Option<Moment> {
        if self.reads.gets.contains(&ip) {
            return None;
        }
        if let Err(at) = self.budget.admit(Purpose::Look, now) {
            return Some(at);
        }
        self.budget.sent(Purpose::Look, now);
        self.reads.gets.insert(ip);
        out.act(self.epoch.request(Some(Owner::pool(owner.clone())), Call::Get(ip)));
        None
    }
}
