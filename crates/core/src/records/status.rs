//! A record set as the watch shows it, and the user's view of a record set, on an object of its own or on a pool.

use super::spec::RawRecordSetSpec;
use crate::model::catalog::Finding;
use crate::model::catalog::record_set::{SpecValid, Unmatched};
use crate::model::catalog::records::{Obstacle, Settled, UnderWay};
use crate::model::spec::{Scope, SpecProblem};
use crate::model::words::cut;
use crate::model::{Address, Condition, ConditionType, ObjectKind, ObjectName, ObjectRef};
use std::collections::BTreeMap;

/// The status of a `NodeDNSRecordSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordSetStatus {
    /// `active`, `in-progress` or `error`.
    pub state: String,
    /// The mistake or failure.
    pub error: String,
    /// Conditions, sorted by type.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: i64,
    /// Fully qualified name of the records.
    pub fqdn: String,
    /// The addresses that the records hold, sorted.
    pub addresses: Vec<Address>,
    /// Nodes that fail and stay in the set for now, by name.
    pub suspects: BTreeMap<String, SuspectNode>,
}

impl RecordSetStatus {
    /// Cuts the texts to their bound.
    pub(crate) fn cut(&mut self) {
        let conditions = self.conditions.iter_mut().map(|condition| &mut condition.message);
        conditions.chain([&mut self.error]).for_each(cut);
    }
}

/// A node that fails and stays in the set for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspectNode {
    /// When it began to fail, in seconds since 1970.
    pub since_s: i64,
    /// Why.
    pub reason: String,
}

impl RecordSetStatus {
    /// Whether one of a node's addresses is published. `Some` has the start of the node's suspicion, if there is one.
    /// If the records were only left over or could not follow the nodes, a node counts only if it has a suspicion.
    pub fn suspicion_of(&self, node: &str, addresses: &[Address]) -> Option<Option<i64>> {
        let suspect = self.suspects.get(node).map(|suspect| suspect.since_s);
        let stays = [Settled::Kept.as_str(), Unmatched::NoMatchingNode.as_str(), UnderWay::Paused.as_str()];
        let left = self.state == "error"
            || self.conditions.iter().any(|condition| stays.contains(&condition.reason.as_str()));
        let serves = addresses.iter().any(|ip| self.addresses.contains(ip));
        (serves && (suspect.is_some() || !left)).then_some(suspect)
    }

    /// Whether a write would change nothing. With `outdated_crds`, only the fields that the Go operator's CRDs keep
    /// are compared.
    pub fn same_as(&self, on_server: &Self, outdated_crds: bool) -> bool {
        if outdated_crds {
            self.state == on_server.state && self.error == on_server.error
        } else {
            self == on_server
        }
    }
}

/// The phase of a record set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The records are as wanted.
    Active {
        /// The summary condition: True, unless no node matches a `NodeDNSRecordSet`.
        finding: Finding,
        /// For people.
        message: String,
    },
    /// A change of the records is due.
    InProgress {
        /// The reason in the condition.
        reason: UnderWay,
        /// The cause of the wait.
        message: String,
    },
    /// FLIPOP cannot write the records until a fault passes or somebody corrects it.
    Failed {
        /// The obstacle.
        reason: Obstacle,
        /// The fault and its remedy.
        message: String,
    },
}

/// A further condition, apart from the phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The type, status and reason of the condition.
    pub finding: Finding,
    /// For people.
    pub message: String,
}

/// The report about a record set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetReport {
    /// Its phase.
    pub phase: Phase,
    /// A mistake in the spec that shows only at the provider.
    pub spec_error: Option<String>,
    /// Its name, and the addresses that are published there.
    pub published: PublishedSet,
    /// Further conditions.
    pub remarks: Vec<Remark>,
}

impl SetReport {
    /// The status of a record set with an object of its own.
    pub fn status(&self, generation: i64, problems: &[SpecProblem]) -> RecordSetStatus {
        let (state, error) = self.state();
        let texts = problems.iter().map(ToString::to_string).chain(self.spec_error.clone());
        let wrong: Vec<String> = texts.collect();
        let valid = if wrong.is_empty() {
            Condition::new(SpecValid::Valid, String::new())
        } else {
            let has = |scope| problems.iter().any(|problem| problem.scope == scope);
            let reason = if self.spec_error.is_some() || has(Scope::RecordSet) {
                SpecValid::RecordSetIgnored
            } else if has(Scope::Grace) {
                SpecValid::GraceIgnored
            } else {
                SpecValid::NodeCheckIgnored
            };
            Condition::new(reason, wrong.join("; "))
        };
        let mut conditions = self.conditions(ObjectKind::RecordSet);
        conditions.push(valid);
        conditions.sort();
        RecordSetStatus {
            state: state.to_owned(),
            error: error.to_owned(),
            conditions,
            observed_generation: generation,
            fqdn: self.published.fqdn.clone(),
            addresses: self.published.addresses.clone(),
            suspects: BTreeMap::new(),
        }
    }

    /// `state` and `error` of that status.
    pub(crate) fn state(&self) -> (&str, &str) {
        match &self.phase {
            Phase::Active { .. } => ("active", ""),
            Phase::InProgress { .. } => ("in-progress", ""),
            Phase::Failed { message, .. } => ("error", message),
        }
    }

    /// The conditions for an object of this kind.
    pub(crate) fn conditions(&self, on: ObjectKind) -> Vec<Condition> {
        let (summary, message) = match &self.phase {
            Phase::Active { finding, message } => (*finding, message),
            Phase::InProgress { reason, message } => (Finding::from(*reason), message),
            Phase::Failed { reason, message } => (Finding::from(*reason), message),
        };
        let remarks = self.remarks.iter().map(|remark| (remark.finding, &remark.message));
        let all = std::iter::once((summary, message)).chain(remarks);
        all.map(|(finding, message)| Condition::about_records(on, finding, message.clone())).collect()
    }
}

/// The published part of a record set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishedSet {
    /// Fully qualified name of the records.
    pub fqdn: String,
    /// The addresses that the records hold, sorted.
    pub addresses: Vec<Address>,
}

/// The part of a status on the server about a record set. This is the only memory that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reported {
    /// Name and addresses.
    pub published: PublishedSet,
    /// It said that the records were as wanted.
    pub right: bool,
    /// The error that it named.
    pub error: String,
    /// It is about the present generation of the object.
    pub current: bool,
    /// The warning of external-dns.
    pub warning: String,
}

/// The warning of external-dns.
pub(crate) fn warning(conditions: &[Condition], on: ObjectKind) -> String {
    let warns = |condition: &&Condition| condition.is(ConditionType::ExternalDNS.about_records(on));
    conditions.iter().find(warns).map(|condition| condition.message.clone()).unwrap_or_default()
}

impl Reported {
    /// Takes it from the status of a `NodeDNSRecordSet`.
    pub fn of_record_set(status: &RecordSetStatus, generation: i64) -> Self {
        let RecordSetStatus { state, error, conditions, observed_generation, fqdn, addresses, suspects: _ } =
            status;
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
pub fn described(kind: ObjectKind, name: &ObjectName) -> String {
    format!("{} {name}", kind.as_str())
}

/// A record set as the watch shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordSetObject {
    /// The record set's name and uid.
    pub object: ObjectRef,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch. It decides which object is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The text of the pause annotation, if it is present.
    pub paused: Option<String>,
    /// The spec, or why it cannot be read.
    pub spec: Result<RawRecordSetSpec, String>,
    /// The status.
    pub status: RecordSetStatus,
}
