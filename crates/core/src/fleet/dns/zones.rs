//! Looks up the zones that objects name.

use super::{Accounts, Dns, admit};
use crate::mechanism::budget::Purpose;
use crate::mechanism::effects::Effects;
use crate::model::ids::AccountId;
use crate::model::moment::Moment;
use crate::records::action::{Action, Call};
use crate::records::dns::Access;
use crate::records::name::ZoneRef;
use crate::records::spec::Destination;
use crate::records::view::View;
use std::collections::BTreeSet;

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
