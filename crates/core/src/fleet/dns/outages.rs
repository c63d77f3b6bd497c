//! Outages of accounts of DNS: the reads that test them, and what happens when one ends.

use super::{Accounts, Dns, budget};
use crate::mechanism::{Effects, Purpose};
use crate::model::{AccountId, Moment};
use crate::records::action::{Action, Call, Outcome, Reply};
use crate::records::mark::Mark;
use crate::records::site::Site;
use crate::records::view::Located;

impl Dns {
    /// Since when an account is out, if it is.
    pub(in crate::fleet) fn out_since(&self, account_id: &AccountId) -> Option<Moment> {
        self.accounts.get(account_id)?.outage.since()
    }

    /// Takes in what an answer says about an outage. True if the answer ends one.
    pub(in crate::fleet) fn hear(
        &mut self,
        outcome: &mut Outcome,
        accounts: &mut Accounts,
        now: Moment,
    ) -> bool {
        let Outcome { epoch, begun, reply, .. } = outcome;
        let (epoch, begun) = (&*epoch, *begun);
        let (tests, reads) =
            (matches!(reply, Reply::Tested(_)), !matches!(reply, Reply::RecordsApplied { .. }));
        let failure = reply.failure();
        let Some(account) = self.accounts.get_mut(&epoch.account_id) else { return false };
        if tests {
            account.outage.tested();
        }
        if let Some(budget) = budget(account, accounts, &epoch.account_id) {
            budget.answered(begun, failure.is_none());
        }
        if account.epoch() != epoch {
            return false;
        }
        if !reads {
            account.outage.wrote(begun, failure.as_deref(), now);
            return false;
        }
        let ends = account.outage.read(begun, failure.as_deref(), now);
        account.outage.excuse(Some(begun), failure);
        ends
    }

    /// Makes every call due that failed with the account.
    pub(in crate::fleet) fn outage_ended(
        &mut self,
        account_id: &AccountId,
        accounts: &mut Accounts,
        now: Moment,
    ) {
        let Some(account) = self.accounts.get_mut(account_id) else { return };
        account.release(now);
        if let Some(budget) = budget(account, accounts, account_id) {
            budget.outage_ended(now);
        }
        let sites = self.sites.iter_mut().filter(|(key, _)| key.account_id == *account_id);
        sites.map(|(_, site)| site).for_each(|site| Site::release(site, now));
        let marks = self.marks.iter_mut().filter(|(key, _)| key.account_id == *account_id);
        marks.map(|(_, mark)| mark).for_each(|mark| Mark::release(mark, now));
    }

    /// Tests the accounts that are out, each with a read for the oldest object that uses it.
    pub(super) fn plan_tests(&mut self, accounts: &mut Accounts, now: Moment, out: &mut Effects<Action>) {
        for (account_id, account) in &mut self.accounts {
            let Some(due) = account.outage.test_due().filter(|_| !account.is_in_doubt()) else { continue };
            let Some((owner, place)) = self.named.iter().find(|(_, place)| place.account_id == *account_id)
            else {
                continue;
            };
            if due > now {
                out.later(due);
                continue;
            }
            if let Some(budget) = budget(account, accounts, account_id) {
                if let Err(at) = budget.admit(Purpose::Dns, now) {
                    out.later(at);
                    continue;
                }
                budget.sent(Purpose::Dns, now);
            }
            account.outage.testing(now);
            let name = match Located::of(Some(place), Some(account)) {
                Located::At(key, zone) => Some((zone, key.fqdn)),
                Located::Nowhere | Located::Pending(_) | Located::Bad(_) => None,
            };
            let call = Call::Test { name, zone: place.zone.clone() };
            out.act(account.epoch().request(Some(owner.clone()), call));
        }
    }
}
