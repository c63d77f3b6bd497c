//! The Event about records that an object leaves behind because its spec names another place, or none.

use super::Dns;
use crate::mechanism::effects::{Effects, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::ids::Owner;
use crate::records::action::Action;
use crate::records::former_name::Home;
use crate::records::site::SiteKey;
use crate::records::status::Told;
use std::collections::BTreeMap;

impl Dns {
    /// Handles objects whose spec asks for no records. Their earlier records stay, and one Event says so.
    pub(super) fn leave(
        &mut self,
        bare: &[(Owner, Told)],
        owners: &BTreeMap<SiteKey, Owner>,
        permit: bool,
        out: &mut Effects<Action>,
    ) {
        for (owner, told) in bare.iter().filter(|_| permit) {
            let uid = &owner.object.uid;
            if self.bare.insert(uid.clone()) {
                let home = match self.sets.remove(uid) {
                    Some(set) => set.home,
                    None => Home::recalled(told),
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
        .then(|| Notice::on(owner, true, EventReason::RecordsLeft, home.fqdn(), home.told()))
}
