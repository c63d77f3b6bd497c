//! CRDs that are older than the operator: they drop what the status remembers.
//!
//! Invariant: while they do, nothing is bought, and nothing is given back.

use super::Pool;
use super::creation::Progress;
use crate::mechanism::effects::Effects;
use crate::model::fault::FaultKind;
use crate::model::moment::{Context, Moment};

impl Pool {
    /// Whether only what the Go operator's CRDs keep is worth writing. When the wait is over the whole status is
    /// written once more, to see whether the server has learned to keep it.
    pub fn writes_go_fields_only<A>(&self, now: Moment, out: &mut Effects<A>) -> bool {
        let waits = self.creation.crds_outdated && self.creation.retry.due() > now;
        if waits {
            out.later(self.creation.retry.due());
        }
        waits
    }

    /// The server has kept our fields.
    pub fn crds_are_current(&mut self, now: Moment) {
        // Not before it is due: CRDs that keep a part of an intent show it only by the next one.
        if self.creation.crds_outdated && self.creation.retry.due() <= now {
            self.creation.crds_outdated = false;
        }
    }

    /// The status on the server loses our fields.
    pub(crate) fn has_outdated_crds(&self) -> bool {
        self.creation.crds_outdated
    }

    /// What the server has of the memory is all of it, so that nothing will be written that could show it.
    pub fn recheck_crds(&mut self, now: Moment) {
        if self.memory.is_some() && self.memory == self.on_server.memory {
            self.crds_are_current(now);
        }
    }

    /// The server's copy of the status has lost our fields: nothing may be bought that could not be remembered.
    pub fn crds_are_outdated(&mut self, at: Context) {
        if self.creation.stage == Progress::Announcing {
            self.forget_intent();
        }
        self.creation.crds_outdated = true;
        self.put_off(FaultKind::Permanent, at);
    }
}
