//! DNS as providers see it: zones, records and changes.
//!
//! This module decides nothing and sends nothing. Record sets decide which records there should be.
//!
//! Invariant: a [`ChangeSet`] lists updates, then creates, then deletes. If it stops anywhere in this order, a name
//! that had addresses still has one.

use crate::model::Address;

/// The type of the records that FLIPOP manages.
pub const ADDRESS_KIND: &str = "A";

/// The kind of access of a call about records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// A zone as a provider returned it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    /// Its id in the provider's paths: its name at `DigitalOcean`, 32 hexadecimal digits at Cloudflare.
    pub id: String,
    /// Its name in lower case without a final dot. `None` if the token may not read it.
    pub name: Option<String>,
    /// The name as it appears in the names of records, if the token may not read the zone. It is used to check names,
    /// never to complete them.
    pub shown: Option<String>,
    /// The lowest TTL that the zone accepts, in seconds: the provider's floor, or less if the zone's plan allows it.
    pub ttl_floor: u32,
}

/// One record of a name, of any type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The provider's id, unique in its zone.
    pub id: String,
    /// Its type, in upper case: `A`, `CNAME`, `TXT` …
    pub kind: String,
    /// Its content, as the provider writes it.
    pub data: String,
    /// Its TTL in seconds. At Cloudflare, 1 means "automatic".
    pub ttl: u32,
    /// Requests go through Cloudflare's own network. The TTL then always reads as 1.
    pub proxied: bool,
}

impl Record {
    /// The address of an `A` record.
    pub fn address(&self) -> Option<Address> {
        (self.kind == ADDRESS_KIND).then(|| Address::v4(self.data.trim())).flatten()
    }
}

/// One change to the address records of a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// An existing record gets this address and TTL. Everything else about it stays.
    Update {
        /// The record.
        id: String,
        /// Its new address.
        ip: Address,
        /// Its new TTL.
        ttl: u32,
    },
    /// A new record.
    Create {
        /// Its address.
        ip: Address,
        /// Its TTL.
        ttl: u32,
    },
    /// A record is deleted.
    Delete {
        /// The record.
        id: String,
    },
}

/// The changes to the address records of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// Updates, then creates, then deletes. A surplus record is updated to a missing address as long as there are both.
    pub changes: Vec<Change>,
    /// At least one address record is already right and stays unchanged.
    pub survivor: bool,
}

impl ChangeSet {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_a_record_has_an_address() {
        let record = |kind: &str, data: &str| Record {
            id: "1".to_owned(),
            kind: kind.to_owned(),
            data: data.to_owned(),
            ttl: 60,
            proxied: false,
        };
        assert_eq!(record("A", "192.0.2.1").address(), Some(Address::from([192, 0, 2, 1])));
        assert_eq!(record("TXT", "192.0.2.1").address(), None);
        assert_eq!(record("A", "www").address(), None);
    }
}
