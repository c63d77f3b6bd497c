//! What a provider of DNS does for a record set.
//!
//! Owns the trait and what comes back from it. A round (read, decide, apply) is the caller's; it records the whole as
//! one operation named [`ENSURE`] with [`crate::provider::observe::recorded`]. Reads are operations of their own
//! (`FindZone`, `ListRecords`), as are all reads.
//!
//! Invariants: a read answers with every record of the name or with a fault, never with some; applying stops at the
//! first failure and says how far it came; nothing but `A` records of the given name is ever written.

use crate::leader::permit::Permit;
use crate::provider::http::Failure;
use crate::provider::{Account, CallContext, CallError};
use flipop_core::dns::{ChangeSet, Record, Zone};
use flipop_core::fault::Fault;
use futures::future::BoxFuture;

/// Name of a whole round in the metrics: that of the Go operator.
pub const ENSURE: &str = "EnsureDNSARecordSet";

/// A change set that was carried out to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The records that updates and creates left, as the provider answered them, in the order of the changes. With
    /// those that no change touched they are the whole set: there is no need to read it again.
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

    /// Carries out a change set, in its order, until something fails.
    fn apply<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        zone: &'a Zone,
        fqdn: &'a str,
        set: &'a ChangeSet,
    ) -> BoxFuture<'a, Result<Applied, Unfinished>>;
}
