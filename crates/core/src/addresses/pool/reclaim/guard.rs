//! The finalizer of a pool that gives back its bought addresses, and the deletion of such a pool.
//!
//! Invariants: the object has the finalizer exactly while its policy is `Delete` and something has to be given back
//! or removed. An object that is being deleted gets no finalizer.

use super::super::Pool;
use super::super::memory::Intent;
use super::super::spec::ReclaimPolicy;
use super::super::status::PoolStatus;
use crate::mechanism::Call;
use crate::model::{ConditionType, Context, Moment, WriteFailure};

/// The write of the finalizer, and its retries.
#[derive(Debug, Default)]
pub(super) struct Guard {
    pub(super) call: Call,
    /// The pool is in the operator's own namespace.
    beside_us: bool,
}

/// The conditions about reclaiming.
const OURS: [ConditionType; 4] = [
    ConditionType::Reclaiming,
    ConditionType::ReclaimBlocked,
    ConditionType::ReclaimKept,
    ConditionType::ReclaimAtRisk,
];

impl Pool {
    /// Whether the spec asks for deletions, even if the rest of the spec is invalid.
    fn asks_for_deletions(&self) -> bool {
        self.spec.reclaim == ReclaimPolicy::Delete && !self.has_outdated_crds()
    }

    /// Notes the namespace in which the operator runs.
    pub(crate) fn note_namespace(&mut self, ours: Option<&str>) {
        self.reclaim.guard.beside_us = ours == Some(self.object.name.namespace.as_str());
    }

    /// Whether a deletion of the pool's namespace would also end the operator, before it gives anything back.
    pub(super) fn is_at_risk(&self) -> bool {
        self.reclaim.guard.beside_us && self.asks_for_deletions()
    }

    /// Whether the deletion of the object has to wait. `firewalls` says that firewalls of the pool exist or may exist.
    fn is_to_wait(&self, firewalls: bool) -> bool {
        let open =
            self.memory.as_ref().and_then(|memory| memory.intent.as_ref()).is_some_and(Intent::is_open);
        let firewalls = firewalls && !(self.deleting && self.keeps_something());
        self.asks_for_deletions() && (open || self.purchased().next().is_some() || firewalls)
    }

    /// Whether some addresses stay in the account. Records and firewalls then stay for them.
    pub(crate) fn keeps_something(&self) -> bool {
        !self.effective().is_empty() || !self.reclaim.kept.is_empty() || self.kept_before().is_some()
    }

    /// Whether to remove the firewalls of a pool that is being deleted. They go after the last address.
    pub(crate) fn gives_up_firewalls(&self) -> bool {
        let over = self.purchased().next().is_none() && !self.keeps_something();
        self.is_going() && over && !self.pause.holds()
    }

    /// Whether the pool is being deleted, and its deletion waits for FLIPOP.
    pub(crate) fn is_going(&self) -> bool {
        self.deleting && self.guarded && !self.unread && self.is_readable() && self.asks_for_deletions()
    }

    /// Whether to set (`true`) or remove (`false`) the finalizer. The write counts as sent.
    ///
    /// # Errors
    /// Too early: the moment at which the write may start, or `None` while another write is under way.
    pub(crate) fn due_guard(&mut self, firewalls: bool, now: Moment) -> Result<Option<bool>, Option<Moment>> {
        if self.unread || !self.is_readable() {
            return Ok(None);
        }
        let wanted = self.is_to_wait(firewalls);
        if wanted == self.guarded || (wanted && self.deleting) {
            self.reclaim.guard.call.refusal = None;
            return Ok(None);
        }
        let call = &mut self.reclaim.guard.call;
        call.ready(now)?;
        call.sent();
        Ok(Some(wanted))
    }

    /// The answer to a write of the finalizer.
    pub(crate) fn guard_written(&mut self, present: bool, result: &Result<(), WriteFailure>, at: Context) {
        self.reclaim.guard.call.answered(result.as_ref().err(), at);
        if result.is_ok() {
            self.guarded = present;
        }
    }

    /// Whether a purchase may be sent. Without the finalizer, a bought address could outlive its object.
    pub(in super::super) fn may_buy_guarded(&self) -> bool {
        self.guarded || !self.asks_for_deletions()
    }

    /// The status of a pool that is being deleted: the last one, with the current conditions about reclaiming.
    pub(crate) fn render_going(&self, now: Moment) -> PoolStatus {
        let before = &self.on_server;
        let mut status = PoolStatus { memory: self.memory.clone(), ..before.clone() };
        status.conditions.retain(|condition| !OURS.iter().any(|kind| condition.is(*kind)));
        status.conditions.extend(self.reclaim_conditions(now));
        status.conditions.sort();
        status
    }
}
