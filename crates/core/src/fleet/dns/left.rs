//! What is told of records that an object leaves behind because its spec names another place, or none.

use super::{Dns, notice};
use crate::action::Action;
use crate::catalog::events::EventReason;
use crate::ids::Owner;
use crate::record_set::home::Home;
use crate::record_set::site::SiteKey;
use crate::record_set::status::Told;
use std::collections::{BTreeMap, BTreeSet};

impl Dns {
    /// Objects whose spec asks for no records: what they published before stays, which is told once.
    pub(super) fn leave(
        &mut self,
        bare: &[(Owner, Told)],
        owners: &BTreeMap<SiteKey, Owner>,
        permit: bool,
        actions: &mut Vec<Action>,
    ) {
        let live: BTreeSet<_> = bare.iter().map(|(owner, _)| &owner.object.uid).collect();
        self.bare.retain(|uid| live.contains(uid));
        for (owner, told) in bare.iter().filter(|_| permit) {
            let uid = &owner.object.uid;
            if self.bare.insert(uid.clone()) {
                let home = match self.sets.remove(uid) {
                    Some(set) => set.home,
                    None => Home::recalled(told),
                };
                actions.extend(home.and_then(|home| left(owner, &home, owners)));
            }
        }
    }
}

/// The Event about a place that was left, if there are records that nobody looks after.
pub(super) fn left(owner: &Owner, home: &Home, owners: &BTreeMap<SiteKey, Owner>) -> Option<Action> {
    let looked_after = owners.keys().any(|key| home.is_at(key));
    (home.has_records() && !looked_after)
        .then(|| notice(owner, true, EventReason::RecordsLeft, home.fqdn(), home.told()))
}
