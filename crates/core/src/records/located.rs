//! Where the records of a set are, from its spec and from what is known of its zone.

use super::account::DnsAccount;
use super::dns::Zone;
use super::name::{NameError, ZoneRef, check_shown, qualify};
use super::site::SiteKey;
use super::spec::Destination;

/// The place of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// The spec names no place.
    Nowhere,
    /// The zone is being looked up. Holds the name, as far as it is known.
    Pending(String),
    /// The name does not fit the zone.
    Bad(String),
    /// The place is known.
    At(SiteKey, Zone),
}

impl Located {
    /// Finds the place of a spec.
    pub fn of(place: Option<&Destination>, account: Option<&DnsAccount>) -> Self {
        let Some(Destination { account_id, zone, record_name }) = place else { return Self::Nowhere };
        let known = account.and_then(|account| account.zone(zone));
        let known = known.or_else(|| match zone {
            // Without a token nothing can be looked up or written, but the name can be shown.
            ZoneRef::Name(name) if account.is_none() => {
                Some(Zone { id: name.clone(), name: Some(name.clone()), shown: None, ttl_floor: 0 })
            }
            ZoneRef::Name(_) | ZoneRef::Id(_) => None,
        });
        let name = match (&known, zone) {
            (Some(zone), _) => qualify(record_name, zone.name.as_deref())
                .and_then(|fqdn| check_shown(fqdn, zone.shown.as_deref())),
            (None, ZoneRef::Name(name)) => qualify(record_name, Some(name)),
            (None, ZoneRef::Id(_)) => return Self::Pending(record_name.clone()),
        };
        match (name, known) {
            (Ok(fqdn), Some(zone)) => {
                let key = SiteKey { account_id: account_id.clone(), zone: zone.id.clone(), fqdn };
                Self::At(key, zone)
            }
            (Ok(fqdn), None) => Self::Pending(fqdn),
            (Err(error), _) => Self::Bad(name_problem(&error)),
        }
    }

    /// The name of the records, as far as it is known.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Nowhere | Self::Bad(_) => "",
            Self::Pending(name) => name,
            Self::At(key, _) => &key.fqdn,
        }
    }
}

fn name_problem(error: &NameError) -> String {
    format!("spec.dnsRecordSet.recordName: {error}")
}
