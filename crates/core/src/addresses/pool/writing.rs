//! Writes of a pool's status and of its `spec.ips`: which ones are due, and the effect of their answers.
//!
//! CRDs that are older than the operator drop the memory in the status. While they do, nothing is bought, and nothing
//! is given back.

use super::Pool;
use super::creation::Progress;
use super::status::PoolStatus;
use crate::mechanism::{Effects, Pace, Schedule, WrittenStatus, is_older};
use crate::model::{Address, Condition, Context, Moment, WriteFailure};
use std::collections::BTreeSet;

impl Pool {
    /// Notes the wanted status. It counts as sent if it is returned.
    ///
    /// # Errors
    /// Not yet: the moment when it may be written, or `None` while another write is under way.
    pub(crate) fn due_status(
        &mut self,
        mut status: PoolStatus,
        go_fields_only: bool,
        now: Moment,
    ) -> Result<Option<PoolStatus>, Option<Moment>> {
        self.conditions = Some(status.conditions.clone());
        status.cut();
        if status.same_as(&self.on_server, go_fields_only) {
            return Ok(None);
        }
        self.writes.status_ready(now)?;
        self.writes.status_sent(status.clone());
        Ok(Some(status))
    }

    /// The conditions of the last plan, or else those in the status.
    pub(crate) fn shown_conditions(&self) -> &[Condition] {
        self.conditions.as_deref().unwrap_or(&self.on_server.conditions)
    }

    /// Takes in the answer to a write of the status.
    pub(crate) fn status_written(
        &mut self,
        result: Result<Box<WrittenStatus<PoolStatus>>, WriteFailure>,
        at @ Context { now, .. }: Context,
    ) {
        let sent = self.writes.status_done(result.as_ref().err(), at);
        let kept = match result {
            Ok(kept) => kept,
            Err(failure) => {
                if failure == WriteFailure::Gone || failure.refusal().is_some() {
                    self.status_refused(at);
                    self.moving.not_written();
                }
                return;
            }
        };
        if let Some(sent) = &sent {
            self.moving.written(sent.last_move.as_ref(), kept.status.last_move.as_ref());
        }
        if sent.is_some_and(|sent| sent.is_pruned_to(&kept.status)) {
            self.crds_are_outdated(at);
        } else if kept.status.memory.is_some() || !kept.status.conditions.is_empty() {
            self.crds_are_current(now);
        }
        if !is_older(&kept.resource_version, &self.resource_version) {
            self.resource_version = kept.resource_version;
            self.know_status(kept.status);
        }
    }

    /// The addresses to add to `spec.ips` and to remove there. They count as sent if there are any. A created address
    /// is written there once, after the status remembers it. If the server drops the memory, the address is written at
    /// once, since it is recorded nowhere else.
    ///
    /// # Errors
    /// Not yet: the moment when it may be written, or `None` while another write is under way.
    pub(crate) fn due_ips(
        &mut self,
        now: Moment,
    ) -> Result<(Vec<Address>, BTreeSet<Address>), Option<Moment>> {
        let kept = |ip| self.creation.crds_outdated || self.on_server.remembers(ip);
        let unwritten = self.memory.iter().flat_map(|memory| {
            memory.created.iter().filter(|created| !created.written).map(|created| created.ip)
        });
        let add: Vec<Address> = unwritten.filter(|ip| kept(*ip)).collect();
        let remove = self.gone_from_account();
        if !add.is_empty() || !remove.is_empty() {
            self.writes.ips.ready(now)?;
            self.writes.ips.sent();
        }
        Ok((add, remove))
    }

    /// Takes in the answer to a write of `spec.ips`.
    pub(crate) fn ips_written(
        &mut self,
        (add, remove): (&[Address], &BTreeSet<Address>),
        result: &Result<(), WriteFailure>,
        at: Context,
    ) {
        self.writes.ips.answered(result.as_ref().err(), at);
        if result.is_ok() {
            self.reclaim.unlisted(remove);
        }
        if result.is_ok()
            && let Some(memory) = &mut self.memory
        {
            let written = memory.created.iter_mut().filter(|created| add.contains(&created.ip));
            written.for_each(|created| created.written = true);
        }
    }
}

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
