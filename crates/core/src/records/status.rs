//! What a user reads of a record set, on an object of its own or on a pool.

use crate::model::catalog::Finding;
use crate::model::catalog::record_set::SpecValid;
use crate::model::catalog::records::{Obstacle, Settled, UnderWay};
use crate::model::condition::{Condition, ConditionType};
use crate::model::ids::{Address, ObjectKind, ObjectName};
use crate::model::spec::SpecProblem;

/// The status of a `NodeDNSRecordSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordSetStatus {
    /// `active`, `in-progress` or `error`.
    pub state: String,
    /// What is wrong.
    pub error: String,
    /// Conditions, sorted by type.
    pub conditions: Vec<Condition>,
    /// The generation that this describes.
    pub observed_generation: i64,
    /// Fully qualified name of the records.
    pub fqdn: String,
    /// The addresses that the records hold, sorted.
    pub addresses: Vec<Address>,
}

impl RecordSetStatus {
    /// Whether a write would change anything. With `outdated_crds` only what the Go operator's CRDs keep is compared.
    #[must_use]
    pub fn same_as(&self, on_server: &Self, outdated_crds: bool) -> bool {
        if outdated_crds {
            self.state == on_server.state && self.error == on_server.error
        } else {
            self == on_server
        }
    }
}

/// How a record set fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The records are right.
    Active {
        /// How.
        reason: Settled,
        /// For people.
        message: String,
    },
    /// They are about to be.
    InProgress {
        /// Whether anything happens meanwhile.
        reason: UnderWay,
        /// What it waits for.
        message: String,
    },
    /// Something has to pass, or to be mended.
    Failed {
        /// What stands in the way.
        reason: Obstacle,
        /// What is wrong and what one can do.
        message: String,
    },
}

/// Something worth knowing beside the phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What the condition says.
    pub finding: Finding,
    /// For people.
    pub message: String,
}

/// What there is to say about a record set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetReport {
    /// How it fares.
    pub phase: Phase,
    /// A mistake in the spec that shows only at the provider.
    pub spec_error: Option<String>,
    /// Its name and what is published there.
    pub published: PublishedSet,
    /// The rest.
    pub remarks: Vec<Remark>,
}

impl SetReport {
    /// The status of an object of its own.
    #[must_use]
    pub fn status(&self, generation: i64, problems: &[SpecProblem]) -> RecordSetStatus {
        let (state, error) = match &self.phase {
            Phase::Active { .. } => ("active", String::new()),
            Phase::InProgress { .. } => ("in-progress", String::new()),
            Phase::Failed { message, .. } => ("error", message.clone()),
        };
        let texts = problems.iter().map(ToString::to_string).chain(self.spec_error.clone());
        let wrong: Vec<String> = texts.collect();
        let valid = if wrong.is_empty() {
            Condition::new(SpecValid::Valid, String::new())
        } else {
            Condition::new(SpecValid::RecordSetIgnored, wrong.join("; "))
        };
        let mut conditions = self.conditions(ObjectKind::RecordSet);
        conditions.push(valid);
        conditions.sort();
        RecordSetStatus {
            state: state.to_owned(),
            error,
            conditions,
            observed_generation: generation,
            fqdn: self.published.fqdn.clone(),
            addresses: self.published.addresses.clone(),
        }
    }

    /// The conditions that say this on such an object.
    pub(crate) fn conditions(&self, on: ObjectKind) -> Vec<Condition> {
        let (summary, message) = match &self.phase {
            Phase::Active { reason, message } => (Finding::from(*reason), message),
            Phase::InProgress { reason, message } => (Finding::from(*reason), message),
            Phase::Failed { reason, message } => (Finding::from(*reason), message),
        };
        let remarks = self.remarks.iter().map(|remark| (remark.finding, &remark.message));
        let all = std::iter::once((summary, message)).chain(remarks);
        all.map(|(finding, message)| Condition::about_records(on, finding, message.clone())).collect()
    }
}

/// What of a record set is published.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishedSet {
    /// Fully qualified name of the records.
    pub fqdn: String,
    /// The addresses that the records hold, sorted.
    pub addresses: Vec<Address>,
}

/// What the server's copy of a status says of a record set: the only memory that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Name and addresses.
    pub published: PublishedSet,
    /// It said that all was right.
    pub right: bool,
    /// The error that it named.
    pub error: String,
    /// It speaks of the object as it is now.
    pub current: bool,
    /// The warning of external-dns.
    pub warning: String,
}

/// The warning of external-dns.
pub(crate) fn warning(conditions: &[Condition], on: ObjectKind) -> String {
    let warns = |condition: &&Condition| condition.is(ConditionType::ExternalDNS.about_records(on));
    conditions.iter().find(warns).map(|condition| condition.message.clone()).unwrap_or_default()
}

impl Told {
    /// By the status of a `NodeDNSRecordSet`.
    #[must_use]
    pub fn of_record_set(status: &RecordSetStatus, generation: i64) -> Self {
        let RecordSetStatus { state, error, conditions, observed_generation, fqdn, addresses } = status;
        Self {
            published: PublishedSet { fqdn: fqdn.clone(), addresses: addresses.clone() },
            right: state == "active",
            error: error.clone(),
            current: !state.is_empty() && *observed_generation == generation,
            warning: warning(conditions, ObjectKind::RecordSet),
        }
    }
}

/// Names an object in a message.
#[must_use]
pub fn described(kind: ObjectKind, name: &ObjectName) -> String {
    format!("{} {name}", kind.as_str())
}
