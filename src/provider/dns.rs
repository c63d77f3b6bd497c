//! The operations of a DNS provider on the records of one name.
//!
//! Owns the trait and its results. The caller runs a round (read, decide, apply). It records the whole round as one
//! operation, `EnsureDNSARecordSet`, with [`crate::provider::http::Api::operation`]. Reads are recorded as operations
//! of their own (`FindZone`, `ListRecords`).
//!
//! Invariants: a read returns every record of the name, or a fault. Applying stops at the first failure, and between
//! two requests if the process ends or the token must be left alone. It then says how many changes were made. Only `A`
//! records of the given name are ever written.

use crate::permit::Permit;
use crate::provider::call::{CallContext, CallError, Reading};
use crate::provider::http::{Account, bounded};
use crate::provider::observe::Failure;
use flipop_core::model::{Fault, FaultKind};
use flipop_core::records::dns::{ChangeSet, Record, Zone};
use futures::future::BoxFuture;

/// A change set that was carried out as far as was asked for and allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The number of changes that were made, from the front of the list. If some are left, none of them was made or is
    /// under way.
    pub done: usize,
    /// The records that the updates and creations among them left, as the provider returned them, in the order of the
    /// changes. Together with the untouched records they are the whole set, so it need not be read again, unless some
    /// are missing here.
    pub records: Vec<Record>,
}

/// A change set that was carried out in part, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Unfinished {
    /// The number of changes, from the front of the list, that certainly had their effect.
    pub done: usize,
    /// Why the next one failed. If the outcome of that fault is unknown, changes after `done` may have had their effect
    /// too. In any case, read again before you write again.
    pub cause: CallError,
}

impl Failure for Unfinished {
    fn fault(&self) -> Option<&Fault> {
        self.cause.fault()
    }
}

/// A provider of DNS zones.
pub trait DnsProvider: Account {
    /// Finds the zone that a spec names, and remembers it. Where a provider needs no call for that, none is made, and a
    /// zone that does not exist shows at the first read.
    fn find_zone<'a>(&'a self, context: &'a CallContext, zone: &'a str) -> Reading<'a, Zone>;

    /// Every record of any type whose name is `fqdn` (in lower case, without a final dot).
    fn read_records<'a>(
        &'a self,
        context: &'a CallContext,
        zone: &'a Zone,
        fqdn: &'a str,
    ) -> Reading<'a, Vec<Record>>;

    /// Carries out a change set in its order, until a change fails, the process ends or the token is blocked.
    fn apply<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        zone: &'a Zone,
        fqdn: &'a str,
        set: &'a ChangeSet,
    ) -> BoxFuture<'a, Result<Applied, Unfinished>>;
}

/// Longest name in DNS, in characters.
const MAX_NAME_CHARS: usize = 253;

/// A record from a list, which may be of another name if the provider does not filter.
#[derive(PartialEq)]
pub(super) struct Named {
    pub(super) record: Record,
    pub(super) of_name: bool,
}

/// Keeps the records of the requested name. If a provider does not filter, we must not take the whole zone for ours,
/// nor take the name for empty.
pub(super) fn of_name(entries: impl IntoIterator<Item = Named>, fqdn: &str) -> Result<Vec<Record>, Fault> {
    let (mut records, mut others) = (Vec::new(), 0_usize);
    for Named { record, of_name } in entries {
        if of_name {
            records.push(record);
        } else {
            others = others.saturating_add(1);
        }
    }
    if records.is_empty() && others > 0 {
        return Err(Fault::new(
            FaultKind::Transient,
            bounded(&format!("asked for the records of {fqdn}, the provider gave {others} of other names")),
        ));
    }
    Ok(records)
}

/// The canonical form of a zone's name in a spec.
pub(super) fn zone_name(written: &str) -> Result<String, Fault> {
    let name = written.strip_suffix('.').unwrap_or(written).to_ascii_lowercase();
    if name.is_empty() {
        return Err(invalid("dnsRecordSet.zone is empty: name the zone"));
    }
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.len() > MAX_NAME_CHARS || !name.split('.').all(label) {
        let text = "is not a zone: write labels of a-z, 0-9 and - joined by dots (punycode for others)";
        return Err(invalid(&format!("dnsRecordSet.zone {written:?} {text}")));
    }
    Ok(name)
}

/// A name relative to its zone: `@` for the zone itself.
pub(super) fn relative<'a>(fqdn: &'a str, zone: &str) -> Result<&'a str, Fault> {
    if fqdn == zone {
        return Ok("@");
    }
    let inside = fqdn.strip_suffix(zone).and_then(|rest| rest.strip_suffix('.'));
    inside.filter(|name| !name.is_empty()).ok_or_else(|| {
        invalid(&format!("dnsRecordSet.recordName {fqdn} is outside of the zone {zone}: change either"))
    })
}

/// A fault of the request itself, found before any call.
pub(super) fn invalid(message: &str) -> Fault {
    Fault::new(FaultKind::Invalid, bounded(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_names_are_canonical_or_refused() {
        assert_eq!(zone_name("Example.COM.").unwrap(), "example.com");
        assert_eq!(zone_name("xn--bcher-kva.example").unwrap(), "xn--bcher-kva.example");
        for bad in ["", ".", "..", "a..b", "example.com/..", "ex ample.com", "bücher.example", "a.b..", "%2e"]
        {
            let fault = zone_name(bad).unwrap_err();
            assert!(fault.message.contains("dnsRecordSet.zone"), "{bad}: {fault}");
        }
        assert!(zone_name(&"a".repeat(254)).unwrap_err().message.chars().count() <= 300);
    }

    #[test]
    fn a_name_is_relative_to_its_own_zone_only() {
        assert_eq!(relative("example.com", "example.com").unwrap(), "@");
        assert_eq!(relative("a.b.example.com", "example.com").unwrap(), "a.b");
        for outside in ["badexample.com", ".example.com", "com", "www.example.org", ""] {
            assert!(relative(outside, "example.com").is_err(), "{outside}");
        }
    }

    #[test]
    fn a_list_of_other_names_only_is_neither_ours_nor_empty() {
        let record = |id: &str| Record {
            id: id.to_owned(),
            kind: "A".to_owned(),
            data: "192.0.2.1".to_owned(),
            ttl: 60,
            proxied: false,
        };
        let named = |id: &str, of_name| Named { record: record(id), of_name };
        assert_eq!(of_name([], "a").unwrap(), []);
        assert_eq!(of_name([named("1", false), named("2", true)], "a").unwrap(), [record("2")]);
        assert_eq!(of_name([named("1", false)], "a").unwrap_err().kind, FaultKind::Transient);
    }
}
