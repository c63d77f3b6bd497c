//! DNS as providers see it: zones, records and changes.
//!
//! Owns no decision: which records there should be is for the record sets. It does not talk to anyone either.
//!
//! Invariant: a [`ChangeSet`] lists updates, then creates, then deletes, so that whoever carries it out in this order,
//! and stops anywhere, never leaves a name that had addresses without any.

use crate::model::ids::Address;

/// The type of the records that are ours to make exact.
pub const ADDRESS_KIND: &str = "A";

/// What a call about records does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// A zone that a provider was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    /// What the provider's paths call it: its name at `DigitalOcean`, 32 hexadecimal digits at Cloudflare.
    pub id: String,
    /// Its name in lower case without a final dot; `None` when the token may not read it.
    pub name: Option<String>,
    /// The name where the token may not read it, as it showed in the names of records. Names are held against it;
    /// none is completed with it.
    pub shown: Option<String>,
    /// The least TTL that the zone takes, in seconds: the provider's floor, or less where the zone's plan allows it.
    pub ttl_floor: u32,
}

/// One record of a name, of any type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The provider's id of it, unique in its zone.
    pub id: String,
    /// Its type, in upper case: `A`, `CNAME`, `TXT` …
    pub kind: String,
    /// Its content, as the provider writes it.
    pub data: String,
    /// Its TTL in seconds; at Cloudflare 1 is "automatic".
    pub ttl: u32,
    /// Requests go through the provider's own network (Cloudflare). Its TTL reads as 1 then, whatever was written.
    pub proxied: bool,
}

impl Record {
    /// The address of an `A` record.
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        (self.kind == ADDRESS_KIND).then(|| Address::v4(self.data.trim())).flatten()
    }
}

/// One change to the address records of a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// An existing record gets this address and TTL; all else about it stays.
    Update {
        /// The record.
        id: String,
        /// Its address from now on.
        ip: Address,
        /// Its TTL from now on.
        ttl: u32,
    },
    /// A new record.
    Create {
        /// Its address.
        ip: Address,
        /// Its TTL.
        ttl: u32,
    },
    /// A record goes.
    Delete {
        /// The record.
        id: String,
    },
}

/// What is to be done to the address records of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// Updates, then creates, then deletes; what goes is paired with what comes as updates wherever there is both.
    pub changes: Vec<Change>,
    /// At least one address record of the name is right already, and no change touches it.
    pub survivor: bool,
}

impl ChangeSet {
    /// Nothing to do.
    #[must_use]
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
