//! Where an object's records are, and what it leaves there once its spec names another place or none.
//!
//! It owns that memory alone: nothing is deleted at a former place. What a status told outlives the process: the name and
//! its addresses, of which the zone is not known any more.

use super::site::SiteKey;
use super::spec::Destination;
use super::status::Told;
use crate::model::ids::Address;
use crate::model::words::name_addresses;
use crate::records::dns::Zone;
use std::collections::BTreeSet;

/// A place, as the spec has it and as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    place: Destination,
    key: SiteKey,
    zone: String,
}

impl Spot {
    /// The place of a spec, which was found there.
    #[must_use]
    pub fn new(place: Destination, key: SiteKey, zone: &Zone) -> Self {
        let zone = zone.name.clone().unwrap_or_else(|| zone.id.clone());
        Self { place, key, zone }
    }
}

/// Where records were published last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    fqdn: String,
    /// `None` when only a status tells.
    spot: Option<Spot>,
    addresses: BTreeSet<Address>,
}

impl Home {
    /// What a status tells of a place, if it speaks of an earlier spec.
    #[must_use]
    pub fn recalled(told: &Told) -> Option<Self> {
        let (fqdn, addresses) = (told.published.fqdn.clone(), told.published.addresses.iter().copied());
        (!told.current).then(|| Self { fqdn, spot: None, addresses: addresses.collect() })
    }

    /// The spec names this place. Answers the one that was left with records, if it was another.
    #[must_use]
    pub fn settle(home: &mut Option<Self>, told: &Told, spot: Spot) -> Option<Self> {
        let stays = home.as_ref().is_some_and(|home| match &home.spot {
            // An id that changes under the same words is no edit: the zone was made anew.
            Some(before) => before.place == spot.place || before.key == spot.key,
            None => home.fqdn == spot.key.fqdn,
        });
        let published = (told.published.fqdn == spot.key.fqdn).then_some(&told.published.addresses);
        let next = Self {
            fqdn: spot.key.fqdn.clone(),
            addresses: published.into_iter().flatten().copied().collect(),
            spot: Some(spot),
        };
        match home {
            Some(home) if stays => {
                (home.fqdn, home.spot) = (next.fqdn, next.spot);
                None
            }
            Some(_) | None => home.replace(next).filter(|left| !left.addresses.is_empty()),
        }
    }

    /// Takes note of what is published there.
    pub fn holds(&mut self, key: &SiteKey, addresses: &[Address]) {
        if self.spot.as_ref().is_some_and(|spot| spot.key == *key) {
            self.addresses = addresses.iter().copied().collect();
        }
    }

    /// Whether records are known to have been left there.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Whether this place is another object's now, so that nothing is left there.
    #[must_use]
    pub fn is_at(&self, key: &SiteKey) -> bool {
        self.spot.as_ref().map_or(self.fqdn == key.fqdn, |spot| spot.key == *key)
    }

    /// The name.
    #[must_use]
    pub fn fqdn(&self) -> &str {
        &self.fqdn
    }

    /// What is told of records that were left.
    #[must_use]
    pub fn told(&self) -> String {
        let place = self
            .spot
            .as_ref()
            .map(|Spot { key, zone, .. }| format!(" in the zone {zone} at {}", key.account_id));
        format!(
            "{}{} keeps its records, which are not looked after any more; delete them unless somebody uses them: {}",
            self.fqdn,
            place.unwrap_or_default(),
            name_addresses(&self.addresses)
        )
    }
}
