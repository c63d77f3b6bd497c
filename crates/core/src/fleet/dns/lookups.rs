//! Looks up the zones that objects name, and the external-dns marks of the names of their records. Nothing waits for a
//! mark.

use super::{Accounts, Dns, admit};
use crate::mechanism::{Effects, Purpose};
use crate::model::{AccountId, CallFailure, Context, Moment, Owner};
use crate::records::action::{Action, Call};
use crate::records::dns::{Access, Record};
use crate::records::mark::{Mark, name_of_mark};
use crate::records::name::ZoneRef;
use crate::records::site::{Site, SiteKey};
use crate::records::spec::Destination;
use crate::records::view::{Located, View};
use std::collections::{BTreeMap, BTreeSet};

impl Dns {
    /// The name of the external-dns mark for these records, as far as known. A new process relies on the status until
    /// it has looked.
    pub(super) fn marked_at(&self, view: &View, located: &Located) -> Option<String> {
        let Located::At(key, zone) = located else { return None };
        if self.sites.get(key).is_some_and(Site::is_marked_by_external_dns) {
            return Some(key.fqdn.clone());
        }
        let seen = self.marks.get(key).and_then(Mark::stands);
        let name = name_of_mark(&key.fqdn, zone)?;
        seen.unwrap_or_else(|| view.reported.warning.contains(&name)).then_some(name)
    }

    /// Looks for the marks that are due, for names whose records are known and at rest. These reads are sent only
    /// after all others, and never to a zone that refuses the token.
    pub(super) fn look_for_marks(
        &mut self,
        (views, located): (&[View], &[Located]),
        owners: &BTreeMap<SiteKey, Owner>,
        accounts: &mut Accounts,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let mut due = Vec::new();
        for (view, located) in views.iter().zip(located) {
            let Located::At(key, zone) = located else { continue };
            let owns = owners.get(key).is_some_and(|owner| owner.object.uid == view.owner.object.uid);
            let rests = self.sites.get(key).is_some_and(|site| site.is_confirmed() && !site.is_busy());
            let trusted =
                self.accounts.get(&key.account_id).is_some_and(|account| account.is_trusted(&key.zone));
            let Some(name) = name_of_mark(&key.fqdn, zone).filter(|_| owns) else { continue };
            let next = self.marks.entry(key.clone()).or_default().due().filter(|_| rests && trusted);
            out.later(next.filter(|at| *at > now));
            let uid = &view.owner.object.uid;
            match (next, self.resting.get_mut(uid)) {
                (Some(at), Some(until)) if at > now => *until = at.min(*until),
                (Some(at), _) if at > now => {}
                (next, _) => {
                    self.resting.remove(uid);
                    due.extend(next.map(|at| (at, view, key, zone, name)));
                }
            }
        }
        due.sort_by_key(|(at, ..)| *at);
        for (_, view, key, zone, fqdn) in due {
            let (Some(account), Some(mark)) =
                (self.accounts.get_mut(&key.account_id), self.marks.get_mut(key))
            else {
                continue;
            };
            let call = (key.zone.as_str(), Access::Read, Purpose::Reread);
            if admit(account, accounts, &key.account_id, call, now, out) {
                account.begun(&key.zone);
                mark.reading();
                let (zone, mark_of) = (zone.clone(), Some(key.fqdn.clone()));
                let call = Call::ReadRecords { zone, fqdn, mark_of };
                out.act(account.epoch().request(Some(view.owner.clone()), call));
            }
        }
    }

    /// Takes in the answer to a look for a mark.
    pub(in crate::fleet) fn mark_read(
        &mut self,
        key: &SiteKey,
        result: Result<Vec<Record>, CallFailure>,
        at @ Context { now, .. }: Context,
    ) {
        if let Some(account) = self.accounts.get_mut(&key.account_id) {
            account.ended(&key.zone);
            // A failure here says nothing about the zone or the token. Reads of the name itself do.
            let failure = result.is_err().then_some(&CallFailure::NotSent);
            account.answered(&key.zone, Access::Read, failure, at);
            if result.is_ok() {
                account.accepted(now);
            }
        }
        if let Some(mark) = self.marks.get_mut(key) {
            mark.read(result, at);
        }
    }
}

impl Dns {
    /// Notes the zones that all objects name.
    pub(super) fn name_zones(&mut self, views: &[View]) {
        let mut known = BTreeSet::new();
        self.named.clear();
        for view in views {
            let Some(place) = &view.spec.place else { continue };
            if known.insert((&place.account_id, &place.zone)) {
                self.named.push((view.owner.clone(), place.clone()));
            }
        }
    }

    /// Looks up the zones whose ids are unknown or in doubt.
    pub(super) fn look_up_zones(&mut self, accounts: &mut Accounts, now: Moment, out: &mut Effects<Action>) {
        for (owner, Destination { account_id, zone, .. }) in &self.named {
            let Some(account) = self.accounts.get_mut(account_id) else { continue };
            if let Err(at) = account.lookup_due(zone, now) {
                out.later(at);
                continue;
            }
            let gate = account.lookup_gate(zone).to_owned();
            if admit(account, accounts, account_id, (&gate, Access::Write, Purpose::Dns), now, out) {
                account.looking_up(zone);
                out.act(account.epoch().request(Some(owner.clone()), Call::FindZone(zone.clone())));
            }
        }
        let named: BTreeSet<(&AccountId, &ZoneRef)> =
            self.named.iter().map(|(_, place)| (&place.account_id, &place.zone)).collect();
        for (account_id, account) in &mut self.accounts {
            account.retain(|zone| named.contains(&(account_id, zone)), now);
        }
    }

    /// Checks whether names still mean the same zones. Nothing waits for that, so it comes last.
    pub(super) fn renew_zones(&mut self, accounts: &mut Accounts, now: Moment, out: &mut Effects<Action>) {
        for (owner, Destination { account_id, zone, .. }) in &self.named {
            let Some(account) = self.accounts.get_mut(account_id) else { continue };
            if let Err(at) = account.renewal_due(zone, now) {
                out.later(at);
                continue;
            }
            let call = (zone.text(), Access::Read, Purpose::Dns);
            if admit(account, accounts, account_id, call, now, out) {
                account.renewing(zone);
                out.act(account.epoch().request(Some(owner.clone()), Call::FindZone(zone.clone())));
            }
        }
    }
}
