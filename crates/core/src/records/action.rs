//! The calls to providers of DNS that decisions ask for, and their answers.
//!
//! An action names every detail, so that whoever executes it decides nothing. Each one is answered by exactly one
//! [`Outcome`].

use super::dns::{ChangeSet, Record, Zone};
use super::name::ZoneRef;
use crate::model::fault::{CallFailure, Fault};
use crate::model::ids::{AccountId, Owner};

/// A call to a provider of DNS.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Find out which zone is meant.
    FindZone {
        /// The account.
        account_id: AccountId,
        /// The object on whose behalf.
        owner: Owner,
        /// The zone as the spec refers to it.
        zone: ZoneRef,
    },
    /// Read every record of a name.
    ReadRecords {
        /// The account.
        account_id: AccountId,
        /// The object on whose behalf.
        owner: Owner,
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// The name whose mark of external-dns is looked for there; `None` where the records themselves are.
        mark_of: Option<String>,
    },
    /// Change the address records of a name.
    ApplyRecords {
        /// The account.
        account_id: AccountId,
        /// The object on whose behalf.
        owner: Owner,
        /// The zone.
        zone: Zone,
        /// The name.
        fqdn: String,
        /// What to do, in this order.
        set: ChangeSet,
    },
}

/// A change set that was carried out in part, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// So many changes, from the front of the list, certainly had their effect.
    pub done: usize,
    /// The records that updates and creates among them left, where they are known.
    pub records: Vec<Record>,
    /// Why the next one failed.
    pub cause: CallFailure,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// To [`Action::FindZone`].
    ZoneFound {
        /// The account.
        account_id: AccountId,
        /// The zone as the spec refers to it.
        zone: ZoneRef,
        /// The zone.
        result: Result<Zone, Fault>,
    },
    /// To [`Action::ReadRecords`].
    RecordsRead {
        /// The account.
        account_id: AccountId,
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The name whose mark was looked for there, as in the action.
        mark_of: Option<String>,
        /// Every record of the name.
        result: Result<Vec<Record>, Fault>,
    },
    /// To [`Action::ApplyRecords`].
    RecordsApplied {
        /// The account.
        account_id: AccountId,
        /// Id of the zone.
        zone: String,
        /// The name.
        fqdn: String,
        /// The records that updates and creates left, in the order of the changes.
        result: Result<Vec<Record>, Unfinished>,
    },
}
