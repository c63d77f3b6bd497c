//! Asks providers about machines that answer no check, and takes in their answers.
//!
//! Invariants: an answer proves something only in the epoch of its question. A read that fails proves nothing, and is
//! not repeated beyond its schedule.

use super::Fleet;
use crate::addresses::account::Account;
use crate::addresses::action::{Action, Call};
use crate::mechanism::{Effects, Epoch, Purpose};
use crate::model::{CallFailure, FaultKind, MachineId, Moment, ReservedIpList};
use std::collections::BTreeSet;

impl Fleet {
    /// Notes about which machines the providers are asked. A question that is due needs a plan.
    pub(super) fn follow_silent(&mut self, now: Moment) {
        for (id, witness) in &mut self.checks.witnesses {
            let Some(kind) = self.accounts.get(id).map(Account::machines) else { continue };
            let silent = self.checks.evidence.silent();
            witness.follow(silent.filter(|silent| silent.machine.kind() == kind), now);
            self.dirty |= witness.due().is_some_and(|due| due <= now);
        }
    }

    /// Sends the questions that are due.
    pub(super) fn plan_questions(&mut self, now: Moment, out: &mut Effects<Action>) {
        for (id, witness) in &mut self.checks.witnesses {
            let account = self.accounts.get_mut(id).filter(|account| account.is_authorised());
            let Some(account) = account else { continue };
            while let Some(machine) = witness.next(now) {
                if let Err(at) = account.budget().admit(Purpose::Assign, now) {
                    out.later(at);
                    break;
                }
                account.budget().sent(Purpose::Assign, now);
                witness.asked(&machine, now);
                out.act(account.epoch().request(None, Call::ReadMachine(machine, now)));
            }
        }
    }

    /// Whether an answer is about the present token in this term of leadership.
    fn is_of_now(&self, epoch: &Epoch) -> bool {
        self.accounts.get(&epoch.account_id).is_some_and(|account| account.epoch() == epoch)
    }

    /// Notes the machines that a list shows.
    pub(super) fn note_shown(
        &mut self,
        epoch: &Epoch,
        begun: Moment,
        list: &Result<ReservedIpList, CallFailure>,
    ) {
        let Some(list) = list.as_ref().ok().filter(|_| self.asks_for_checks() && self.is_of_now(epoch))
        else {
            return;
        };
        let machines = list.ips.values().filter_map(|read| read.machine.clone()).collect();
        self.checks.evidence.shown(&machines, begun);
    }

    /// Takes in the answer to a question.
    pub(super) fn machine_read(
        &mut self,
        epoch: &Epoch,
        machine: &MachineId,
        (asked, result): (Moment, Result<bool, CallFailure>),
        now: Moment,
    ) {
        let is_of_now = self.is_of_now(epoch);
        let evidence = &mut self.checks.evidence;
        let Some(witness) = self.checks.witnesses.get_mut(&epoch.account_id) else { return };
        let compared = witness.answered(machine, asked);
        match result {
            Ok(off) if is_of_now => {
                evidence.shown(&BTreeSet::from([machine.clone()]), asked);
                if off {
                    evidence.is_off(machine, asked, now);
                }
            }
            Err(CallFailure::Fault(fault)) if is_of_now && fault.kind == FaultKind::NotFound => {
                witness.missed(machine, asked);
            }
            Ok(_) | Err(_) => {}
        }
        for (missing, asked) in witness.take_missed() {
            if evidence.is_gone(&missing, asked, now) || compared {
                continue;
            }
            if let Some(other) = evidence.well_beside(&missing) {
                witness.missed(&missing, asked);
                witness.compare(other);
            }
        }
    }
}
