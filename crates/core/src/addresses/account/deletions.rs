//! What the deletion of an address means for its account.
//!
//! Invariant: an address that is gone is not known any more, so that one that is bought later and is the same is told
//! from it.

use super::{Account, MachineRead};
use crate::addresses::action::Action;
use crate::mechanism::budget::Purpose;
use crate::mechanism::effects::Effects;
use crate::model::ids::{Address, ObjectRef};
use crate::model::moment::Moment;

/// What was sent, and may have been lost, takes effect within this time or never. It is longer than a call takes.
pub(crate) const EFFECT_MS: u64 = 30_000;

impl Account {
    /// An address was deleted, and a read has confirmed it.
    pub(crate) fn deleted(&mut self, ip: Address, now: Moment) {
        self.deleted_at = Some(now);
        self.forget_address(ip);
        self.want_list(now.plus_millis(1));
    }

    /// A deletion was answered for which no pool answers any more: it is gone, or what was sent may take effect for a while.
    pub(crate) fn deletion_is_unowned(&mut self, ip: Address, accepted: bool, now: Moment) {
        if accepted {
            self.deleted(ip, now);
        }
        self.unowned_deletion = Some(now.plus_millis(EFFECT_MS));
    }

    /// Until when a deletion may take effect for which no pool answers any more.
    pub(crate) fn unowned_deletion_until(&self, now: Moment) -> Option<Moment> {
        self.unowned_deletion.filter(|until| *until > now)
    }

    /// Whether the last list was begun after the last deletion was confirmed.
    #[must_use]
    pub(crate) fn is_listed_without_deleted(&self) -> bool {
        self.deleted_at.is_none_or(|at| self.last_list().is_some_and(|(begun, _)| begun > at))
    }

    /// Whether the scope to read machines was proved by a read begun at `begun` or later; else asks for that.
    pub(crate) fn proves_since(&mut self, begun: Moment, now: Moment) -> bool {
        let proved = self.machine_read == MachineRead::Proved && self.scope_seen >= Some(begun);
        if !proved {
            self.reads.prove_at_once_for(begun, now);
        }
        proved
    }

    /// Reads one address, unless that is under way or has to wait. Returns when to ask again, if only time is missing.
    pub(crate) fn look_at(
        &mut self,
        ip: Address,
        owner: &ObjectRef,
        now: Moment,
        out: &mut Effects<Action>,
    ) -> Option<Moment> {
        if self.reads.is_reading(ip) {
            return None;
        }
        if let Err(at) = self.budget.admit(Purpose::Look, now) {
            return Some(at);
        }
        self.budget.sent(Purpose::Look, now);
        self.reads.get_begun(ip);
        out.act(Action::Get { epoch: self.epoch.clone(), pool: Some(owner.clone()), ip });
        None
    }
}
