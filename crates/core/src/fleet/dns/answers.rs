//! Takes in the answers to calls about records: for the name, its zone, the token and the budget.

use super::{Dns, budget};
use crate::addresses::account::Account;
use crate::mechanism::{Effects, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::words::{count_addresses, enumerate, name_addresses};
use crate::model::{AccountId, CallFailure, Context, Fault, FaultKind, Moment, Owner};
use crate::records::account::DnsAccount;
use crate::records::action::{Action, Unfinished};
use crate::records::dns::{Access, Record, Zone};
use crate::records::former_name::Home;
use crate::records::name::ZoneRef;
use crate::records::site::{Applied, Site, SiteKey};
use crate::records::status::Reported;
use std::collections::BTreeMap;

impl Dns {
    /// Takes in the answer to a lookup.
    pub(in crate::fleet) fn zone_found(
        &mut self,
        account_id: &AccountId,
        zone: &ZoneRef,
        result: Result<Zone, CallFailure>,
        at: Context,
    ) {
        let Some(account) = self.accounts.get_mut(account_id) else { return };
        account.answered(zone.text(), Access::Read, result.as_ref().err(), at);
        account.looked_up(zone, result, at);
    }

    /// Takes in the answer to a read.
    pub(in crate::fleet) fn records_read(
        &mut self,
        key: &SiteKey,
        result: Result<Vec<Record>, CallFailure>,
        at: Context,
    ) {
        if let Some(account) = self.accounts.get_mut(&key.account_id) {
            account.ended(&key.zone);
            let failure = result.as_ref().err();
            account.answered(&key.zone, Access::Read, failure, at);
            learn(account, &key.zone, failure, at.now);
            if let Some(CallFailure::Fault(Fault { kind: FaultKind::NotFound, message, .. })) = failure {
                account.zone_gone(&key.zone, message, at);
            }
        }
        if let Some(site) = self.sites.get_mut(key) {
            site.read(result, at);
        }
    }

    /// Takes in the answer to a change set.
    pub(in crate::fleet) fn records_applied(
        &mut self,
        key: &SiteKey,
        (begun, result): (Moment, Result<Vec<Record>, Unfinished>),
        accounts: &mut BTreeMap<AccountId, Account>,
        at @ Context { now, .. }: Context,
        news: &mut Vec<Notice>,
    ) {
        let Some(site) = self.sites.get_mut(key) else { return };
        let (asked, writer) = site.under_way();
        if let Some(account) = self.accounts.get_mut(&key.account_id) {
            account.ended(&key.zone);
            let per = account.rules().changes_per_request;
            let announced = asked.div_ceil(per);
            let (sent, failure) = match &result {
                Ok(_) => (announced, None),
                Err(Unfinished { done, cause: cause @ CallFailure::NotSent, .. }) => {
                    (done.div_ceil(per), Some(cause).filter(|_| *done == 0))
                }
                Err(Unfinished { done, cause: cause @ CallFailure::Fault(_), .. }) => {
                    (done / per + 1, Some(cause))
                }
            };
            account.answered(&key.zone, Access::Write, failure, at);
            learn(account, &key.zone, failure, now);
            if let Some(budget) = budget(account, accounts, &key.account_id) {
                // The first request was counted as sent, and the others were reserved.
                budget.release(announced.saturating_sub(1), sent.saturating_sub(1), now);
                if sent == 0 {
                    budget.not_sent();
                }
            }
        }
        let result = match result {
            Err(Unfinished { done, records, cause: CallFailure::NotSent })
                if site.stopped_after(done, &records) =>
            {
                Ok(records)
            }
            result => result.map_err(|Unfinished { done, cause, .. }| (done, cause)),
        };
        let applied = site.applied(result, at);
        if self.accounts.get(&key.account_id).is_some_and(|account| account.outage.ended_since(begun)) {
            site.release(now);
        }
        match (applied, writer) {
            (Applied::Done, Some(owner)) => {
                let (warning, reason, message) = changed(&key.fqdn, site);
                news.push(Notice::on(&owner, warning, reason, &key.fqdn, message));
            }
            (Applied::Done | Applied::Partly | Applied::NotSent | Applied::Failed(_), _) => {}
        }
    }
}

/// The Event for a name whose records changed: whether it is a warning, the reason, and the text.
fn changed(fqdn: &str, site: &Site) -> (bool, EventReason, String) {
    let addresses: Vec<String> = site.addresses().iter().flatten().map(ToString::to_string).collect();
    if !site.is_known() {
        return (false, EventReason::RecordsChanged, format!("{fqdn} was changed, and is read again"));
    }
    if addresses.is_empty() {
        let removed = name_addresses(site.removed());
        return (
            true,
            EventReason::RecordsRemoved,
            format!("{fqdn} has no addresses now; FLIPOP deleted {removed}"),
        );
    }
    let (count, named) = (count_addresses(addresses.len()), enumerate(addresses.into_iter()));
    (false, EventReason::RecordsChanged, format!("{fqdn} has {count} now: {named}"))
}

/// Takes in what the answer to a call about records shows about the zone and the token.
fn learn(account: &mut DnsAccount, zone: &str, failure: Option<&CallFailure>, now: Moment) {
    match failure {
        None => account.accepted(now),
        Some(CallFailure::Fault(fault)) if fault.kind == FaultKind::Unauthorized => account.doubt(zone),
        Some(CallFailure::Fault(fault)) if fault.kind == FaultKind::Invalid => {
            account.name_may_show(zone, now);
        }
        Some(CallFailure::Fault(_) | CallFailure::NotSent) => {}
    }
}

impl Dns {
    /// Handles objects whose spec asks for no records. Their earlier records stay, and one Event says so.
    pub(super) fn leave(
        &mut self,
        bare: &[(Owner, Reported)],
        owners: &BTreeMap<SiteKey, Owner>,
        permit: bool,
        out: &mut Effects<Action>,
    ) {
        for (owner, reported) in bare.iter().filter(|_| permit) {
            let uid = &owner.object.uid;
            if self.bare.insert(uid.clone()) {
                let home = match self.sets.remove(uid) {
                    Some(set) => set.home,
                    None => Home::recalled(reported),
                };
                out.tell(home.and_then(|home| left(owner, &home, owners)));
            }
        }
    }
}

/// The Event about a former place, if no object owns its name now.
pub(super) fn left(owner: &Owner, home: &Home, owners: &BTreeMap<SiteKey, Owner>) -> Option<Notice> {
    let looked_after = owners.keys().any(|key| home.is_at(key));
    (home.has_records() && !looked_after)
        .then(|| Notice::on(owner, true, EventReason::RecordsLeft, home.fqdn(), home.message()))
}
