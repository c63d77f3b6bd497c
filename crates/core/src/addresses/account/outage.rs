//! An outage of an account: the reads that test it, and what happens when it ends.

use super::Account;
use super::belief::Place;
use super::reads::Turn;
use crate::addresses::action::{Call, Outcome, Reply};
use crate::mechanism::Purpose;
use crate::model::{CallFailure, Moment};

impl Account {
    /// Since when the account is out, if it is.
    pub(crate) fn out_since(&self) -> Option<Moment> {
        self.outage.since()
    }

    /// Whether an outage ended after this moment.
    pub(crate) fn outage_ended_since(&self, moment: Moment) -> bool {
        self.outage.ended_since(moment)
    }

    /// Takes in what an answer says about an outage. True if the answer ends one.
    pub(crate) fn hear(&mut self, outcome: &mut Outcome, now: Moment) -> bool {
        let begun = match &outcome.reply {
            Reply::Listed(_) | Reply::Got(..) | Reply::Polled(..) => Some(outcome.begun),
            Reply::Tested(_) => {
                self.outage.tested();
                Some(outcome.begun)
            }
            Reply::MachineRead(_, asked, _) => Some(*asked),
            Reply::Proved(_) => self.reads.last_proof,
            Reply::Changed(..) | Reply::Created(_) | Reply::Deleted(..) => None,
        };
        let failure = outcome.reply.failure();
        self.budget.answered(begun.unwrap_or(now), failure.is_none());
        if outcome.epoch != self.epoch {
            return false;
        }
        let Some(begun) = begun else {
            self.outage.wrote(now, failure.as_deref(), now);
            return false;
        };
        let ends = self.outage.read(begun, failure.as_deref(), now);
        self.outage.excuse(Some(begun), failure);
        ends
    }

    /// The same for a call about firewalls. They follow the outage of the addresses, since both share the token.
    /// `begun` is that of a read.
    pub(crate) fn hear_of_others(
        &mut self,
        begun: Option<Moment>,
        failure: Option<&mut CallFailure>,
        now: Moment,
    ) {
        self.budget.answered(begun.unwrap_or(now), failure.is_none());
        self.outage.excuse(begun, failure);
    }

    /// Makes every read due that failed with the account, because the outage is over.
    pub(crate) fn release(&mut self, now: Moment) {
        self.touch();
        self.budget.outage_ended(now);
        self.reads.release(now);
        self.ops.values_mut().for_each(|op| op.release(now));
        self.beliefs.restless_mut().for_each(|(_, belief)| belief.release(now));
    }

    /// Tests an account that is out, with a read of an address that an operation waits for, if there is one.
    pub(super) fn plan_test(&mut self, turn: &mut Turn<'_>) {
        let Some(due) = self.outage.test_due().filter(|_| self.is_authorised()) else { return };
        if due > turn.now {
            turn.later(due);
        } else if self.admit(Purpose::Assign, turn) {
            self.outage.testing(turn.now);
            let waiting = self.ops.iter().find(|(_, op)| op.read_due().is_some()).map(|(ip, _)| ip);
            let here = |place: &Place| matches!(place, Place::Present { .. });
            let present = || self.beliefs.iter().find(|(_, belief)| here(belief.place())).map(|(ip, _)| ip);
            let ip = waiting.or_else(present).or_else(|| self.beliefs.keys().next()).copied();
            turn.out.act(self.epoch.request(None, Call::Test(ip)));
        }
    }
}
