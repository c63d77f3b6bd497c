//! CRDs that are older than the operator. They drop the memory in the status.
//!
//! Invariant: while they do, nothing is bought, and nothing is given back.

use super::Pool;
use super::creation::Progress;
use crate::mechanism::effects::Effects;
use crate::mechanism::retry::{Pace, Schedule};
use crate::model::moment::{Context, Moment};

impl Pool {
    /// Whether to write only the fields that the Go operator's CRDs keep. Once the wait is over, the whole status is
    /// written again, to find out whether the server keeps it now.
    pub fn writes_go_fields_only<A>(&self, now: Moment, out: &mut Effects<A>) -> bool {
        let waits = self.creation.crds_outdated && self.creation.retry.due() > now;
        if waits {
            out.later(self.creation.retry.due());
        }
        waits
    }

    /// Notes that the server has kept our fields.
    pub fn crds_are_current(&mut self, now: Moment) {
        // Only once it is due: CRDs that keep only a part of an intent show that with the next intent.
        if self.creation.crds_outdated && self.creation.retry.due() <= now {
            self.creation.crds_outdated = false;
        }
    }

    /// Whether the server drops our fields of the status.
    pub(crate) fn has_outdated_crds(&self) -> bool {
        self.creation.crds_outdated
    }

    /// Notes that the CRDs are current if the server has the whole memory. No write would follow that could show it.
    pub fn recheck_crds(&mut self, now: Moment) {
        if self.memory.is_some() && self.memory == self.on_server.memory {
            self.crds_are_current(now);
        }
    }

    /// Notes that the server dropped our fields of the status. The pool buys nothing, because the server would not
    /// remember it.
    pub fn crds_are_outdated(&mut self, at: Context) {
        if self.creation.stage == Progress::Announcing {
            self.forget_intent();
        }
        self.creation.crds_outdated = true;
        self.put_off(Pace::by(Schedule::Slow), at);
    }
}
