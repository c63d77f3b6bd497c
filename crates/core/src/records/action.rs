//! The calls to DNS providers that decisions ask for, and their answers.
//!
//! An action names every detail, so the shell decides nothing. Each action is answered by exactly one [`Outcome`].

use super::dns::{ChangeSet, Record, Zone};
use super::name::ZoneRef;
use crate::mechanism::epoch::Epoch;
use crate::model::fault::CallFailure;
use crate::model::ids::Owner;
use crate::model::moment::Moment;

/// A call to a provider of DNS.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Look up the zone that the spec names.
    FindZone {
        /// The account and its epoch.
        epoch: Epoch,
        /// The object that the call is for.
        owner: Owner,
        /// The zone as the spec refers to it.
        zone: ZoneRef,
    },
    /// Test whether an account that is out answers again, with one small read.
    Test {
        /// The account and its epoch.
        epoch: Epoch,
        /// An object that waits for the account.
        owner: Owner,
        /// The name to read, with its zone. `None` if the zone is not known.
        name: Option<(Zone, String)>,
        /// The zone to look up otherwise.
        zone: ZoneRef,
    },
    /// Read every record of a name.
    ReadRecords {
        /// The account and its epoch.
        epoch: Epoch,
        /// The object that the call is for.
        owner: Owner,
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// The name whose external-dns mark is looked for. `None` if the call reads the records themselves.
        mark_of: Option<String>,
    },
    /// Change the address records of a name.
    ApplyRecords {
        /// The account and its epoch.
        epoch: Epoch,
        /// The object that the call is for.
        owner: Owner,
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

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// To [`Action::Test`].
    Tested {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the request was sent.
        begun: Moment,
        /// Whether the provider answered. The content says nothing more.
        result: Result<(), CallFailure>,
    },
    /// To [`Action::FindZone`].
    ZoneFound {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the request was sent.
        begun: Moment,
        /// The zone as the spec refers to it.
        zone: ZoneRef,
        /// The zone.
        result: Result<Zone, CallFailure>,
    },
    /// To [`Action::ReadRecords`].
    RecordsRead {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the first request was sent.
        begun: Moment,
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The name whose mark was looked for, as in the action.
        mark_of: Option<String>,
        /// Every record of the name.
        result: Result<Vec<Record>, CallFailure>,
    },
    /// To [`Action::ApplyRecords`].
    RecordsApplied {
        /// The account and its epoch.
        epoch: Epoch,
        /// When the first request was sent.
        begun: Moment,
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The records that updates and creates left, in the order of the changes.
        result: Result<Vec<Record>, Unfinished>,
    },
}

impl Outcome {
    /// The epoch of the call, and the failure if there was one.
    pub fn epoch_and_failure(&mut self) -> (&Epoch, Option<&mut CallFailure>) {
        match self {
            Self::Tested { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::ZoneFound { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::RecordsRead { epoch, result, .. } => (epoch, result.as_mut().err()),
            Self::RecordsApplied { epoch, result, .. } => {
                (epoch, result.as_mut().err().map(|unfinished| &mut unfinished.cause))
            }
        }
    }
}
