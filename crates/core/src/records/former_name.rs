//! The place of an object's records, and the records that stay there when its spec names another place or none.
//!
//! This module only remembers: nothing is deleted at a former place. The status carries the name and its addresses
//! across restarts, but not the zone.

use super::site::SiteKey;
use super::spec::Destination;
use super::status::{PublishedSet, Reported};
use crate::model::Address;
use crate::model::words::name_addresses;
use crate::records::dns::Zone;
use std::collections::BTreeSet;

/// A place, as the spec names it and as the lookup found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    place: Destination,
    key: SiteKey,
    zone: String,
}

impl Spot {
    /// The place of a spec, found in this zone.
    pub fn new(place: Destination, key: SiteKey, zone: &Zone) -> Self {
        let zone = zone.name.clone().unwrap_or_else(|| zone.id.clone());
        Self { place, key, zone }
    }
}

/// Where records were published last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    fqdn: String,
    /// `None` if it is known from a status alone.
    spot: Option<Spot>,
    addresses: BTreeSet<Address>,
}

impl Home {
    /// The place that a status reports, if the status is of an earlier spec.
    pub fn recalled(reported: &Reported) -> Option<Self> {
        let PublishedSet { fqdn, addresses } = reported.published.clone();
        (!reported.current).then(|| Self { fqdn, spot: None, addresses: addresses.into_iter().collect() })
    }

    /// Notes the place that the spec names. Returns the former place if it is another one and still has records.
    pub fn settle(home: &mut Option<Self>, reported: &Reported, spot: Spot) -> Option<Self> {
        let stays = home.as_ref().is_some_and(|home| match &home.spot {
            // If only the id changes, the zone was recreated and the spec was not edited.
            Some(before) => before.place == spot.place || before.key == spot.key,
            None => home.fqdn == spot.key.fqdn,
        });
        let published = (reported.published.fqdn == spot.key.fqdn).then_some(&reported.published.addresses);
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

    /// Notes the addresses published at a place.
    pub fn holds(&mut self, key: &SiteKey, addresses: &[Address]) {
        if self.spot.as_ref().is_some_and(|spot| spot.key == *key) {
            self.addresses = addresses.iter().copied().collect();
        }
    }

    /// Whether records are known to be left there.
    pub fn has_records(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Whether this is the given place.
    pub fn is_at(&self, key: &SiteKey) -> bool {
        self.spot.as_ref().map_or(self.fqdn == key.fqdn, |spot| spot.key == *key)
    }

    /// The name.
    pub fn fqdn(&self) -> &str {
        &self.fqdn
    }

    /// The message about records that were left behind.
    pub fn message(&self) -> String {
        let place = self
            .spot
            .as_ref()
            .map(|Spot { key, zone, .. }| format!(" in the zone {zone} at {}", key.account_id));
        format!(
            "{}{} keeps its records, and FLIPOP no longer manages them; delete them unless clients use them: {}",
            self.fqdn,
            place.unwrap_or_default(),
            name_addresses(&self.addresses)
        )
    }
}
