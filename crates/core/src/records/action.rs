//! The calls to DNS providers that decisions ask for, and their answers.
//!
//! A call names every detail, so the shell decides nothing. Each call has exactly one [`Reply`].

use super::dns::{ChangeSet, Record, Zone};
use super::name::ZoneRef;
use crate::mechanism::{Answer, Request};
use crate::model::CallFailure;

/// A call with its account and its object.
pub type Action = Request<Call>;

/// The answer to an [`Action`].
pub type Outcome = Answer<Reply>;

/// A call to a provider of DNS.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Look up the zone as the spec refers to it.
    FindZone(ZoneRef),
    /// Test whether an account that is out answers again, with one small read for an object that waits for it.
    Test {
        /// The name to read, with its zone. `None` if the zone is not known.
        name: Option<(Zone, String)>,
        /// The zone to look up otherwise.
        zone: ZoneRef,
    },
    /// Read every record of a name.
    ReadRecords {
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// The name whose external-dns mark is looked for. `None` if the call reads the records themselves.
        mark_of: Option<String>,
    },
    /// Change the address records of a name.
    ApplyRecords {
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// The changes, in this order.
        set: ChangeSet,
    },
}

/// A change set that was carried out only in part, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// How many changes, from the front of the list, certainly took effect.
    pub done: usize,
    /// The records after the updates and creates among those, if known.
    pub records: Vec<Record>,
    /// Why the next one failed.
    pub cause: CallFailure,
}

/// The reply to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Call::Test`]: whether the provider answered. The content says nothing more.
    Tested(Result<(), CallFailure>),
    /// To [`Call::FindZone`].
    ZoneFound(ZoneRef, Result<Zone, CallFailure>),
    /// To [`Call::ReadRecords`].
    RecordsRead {
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The name whose mark was looked for, as in the call.
        mark_of: Option<String>,
        /// Every record of the name.
        result: Result<Vec<Record>, CallFailure>,
    },
    /// To [`Call::ApplyRecords`].
    RecordsApplied {
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The records that updates and creates left, in the order of the changes.
        result: Result<Vec<Record>, Unfinished>,
    },
}

impl Call {
    /// Whether the call changes something.
    pub const fn is_write(&self) -> bool {
        match self {
            Self::ApplyRecords { .. } => true,
            Self::FindZone(_) | Self::Test { .. } | Self::ReadRecords { .. } => false,
        }
    }
}

impl Reply {
    /// The failure of the call, if it failed.
    pub fn failure(&mut self) -> Option<&mut CallFailure> {
        match self {
            Self::Tested(result) => result.as_mut().err(),
            Self::ZoneFound(_, result) => result.as_mut().err(),
            Self::RecordsRead { result, .. } => result.as_mut().err(),
            Self::RecordsApplied { result, .. } => {
                result.as_mut().err().map(|unfinished| &mut unfinished.cause)
            }
        }
    }
}
