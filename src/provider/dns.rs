//! What a provider of DNS does for a record set.
//!
//! Owns the trait and what comes back from it. A round (read, decide, apply) is the caller's; it records the whole as
//! one operation, `EnsureDNSARecordSet`, with [`crate::provider::observe::recorded`]. Reads are operations of their own
//! (`FindZone`, `ListRecords`), as are all reads.
//!
//! Invariants: a read answers with every record of the name or with a fault, never with some; applying stops at the
//! first failure, and between two requests when the process ends or the token has to be left alone, and says how far it
//! came; nothing but `A` records of the given name is ever written.

use crate::permit::Permit;
use crate::provider::http::bounded;
use crate::provider::observe::Failure;
use crate::provider::{Account, CallContext, CallError};
use flipop_core::model::fault::{Fault, FaultKind};
use flipop_core::records::dns::{ChangeSet, Record, Zone};
use futures::future::BoxFuture;

/// A change set that was carried out, as far as was asked for or allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// So many changes, from the front of the list. Where these are not all, nothing of the rest was done or is under way.
    pub done: usize,
    /// The records that updates and creates among them left, as the provider answered them, in the order of the changes.
    /// With those that no change touched they are the whole set, and there is no need to read it again, unless some are
    /// left out.
    pub records: Vec<Record>,
}

/// A change set that was carried out in part, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Unfinished {
    /// So many changes, from the front of the list, certainly had their effect.
    pub done: usize,
    /// Why the next one failed. If it is a fault whose outcome is unknown, changes after `done` may have had their
    /// effect too. Read again before writing again, whatever it is.
    pub cause: CallError,
}

impl Failure for Unfinished {
    fn fault(&self) -> Option<&Fault> {
        self.cause.fault()
    }
}

/// A provider of DNS zones.
pub trait DnsProvider: Account {
    /// The zone that a spec means by `zone`. What is found is remembered; where a provider needs no call to know, none
    /// is made, and that the zone does not exist shows when it is read.
    fn find_zone<'a>(&'a self, context: &'a CallContext, zone: &'a str)
    -> BoxFuture<'a, Result<Zone, Fault>>;

    /// Every record of any type whose name is `fqdn` (in lower case, without a final dot).
    fn read_records<'a>(
        &'a self,
        context: &'a CallContext,
        zone: &'a Zone,
        fqdn: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Record>, Fault>>;

    /// Carries out a change set, in its order, until something fails, the process ends or the token is blocked.
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

/// The records of one name as a list of a whole zone's records shows them.
#[derive(PartialEq)]
pub(super) struct Named {
    pub(super) record: Record,
    pub(super) of_name: bool,
}

/// The records that are of the name that was asked for. A provider that does not filter must not make us take the
/// whole zone for ours, nor a name for empty that is not.
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
        return Err(Fault {
            kind: FaultKind::Transient,
            message: bounded(&format!(
                "asked for the records of {fqdn}, the provider gave {others} of other names"
            )),
            outcome_unknown: false,
            retry_after_ms: None,
        });
    }
    Ok(records)
}

/// A zone's name as a spec has it, in canonical form.
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

/// A name as its zone sees it: `@` for the zone itself.
pub(super) fn relative<'a>(fqdn: &'a str, zone: &str) -> Result<&'a str, Fault> {
    if fqdn == zone {
        return Ok("@");
    }
    let inside = fqdn.strip_suffix(zone).and_then(|rest| rest.strip_suffix('.'));
    inside.filter(|name| !name.is_empty()).ok_or_else(|| {
        invalid(&format!("dnsRecordSet.recordName {fqdn} is outside of the zone {zone}: change either"))
    })
}

/// A fault of what was asked for, found before any call.
pub(super) fn invalid(message: &str) -> Fault {
    Fault {
        kind: FaultKind::Invalid,
        message: bounded(message),
        outcome_unknown: false,
        retry_after_ms: None,
    }
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
