//! The machines of providers, on which nodes run and addresses stand.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// How the machines of one provider are called, and how nodes name theirs.
#[derive(Debug)]
pub struct MachineKind {
    /// The word for one in messages.
    pub noun: &'static str,
    /// What stands before `://` in `spec.providerID` of a node.
    pub scheme: &'static str,
    /// The scope that a token needs to see them.
    pub read_scope: &'static str,
    /// Reads what stands behind it, as the one form in which two names of a machine are the same.
    pub id: fn(&str) -> Option<String>,
}

impl PartialEq for MachineKind {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme
    }
}

impl Eq for MachineKind {}

impl MachineKind {
    /// The machine that `spec.providerID` of a node names, if it is one of this kind.
    #[must_use]
    pub fn named(&'static self, provider_id: &str) -> Option<MachineId> {
        let id = provider_id.strip_prefix(self.scheme)?.strip_prefix("://")?;
        (self.id)(id).map(|id| self.machine(id))
    }

    /// The machine of this id.
    pub fn machine(&'static self, id: impl Into<Arc<str>>) -> MachineId {
        MachineId { kind: self, id: id.into() }
    }

    /// The form of `spec.providerID`.
    #[must_use]
    pub(crate) fn form(&self) -> String {
        format!("{}://<{} id>", self.scheme, self.noun)
    }
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineId {
    kind: &'static MachineKind,
    id: Arc<str>,
}

impl MachineId {
    /// Its id at its provider.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The kind that it is of.
    #[must_use]
    pub fn kind(&self) -> &'static MachineKind {
        self.kind
    }

    /// The form that `spec.providerID` of its node has.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("{}://{}", self.kind.scheme, self.id)
    }

    /// By kind, then as numbers where ids are numbers: of two of those the longer one is the larger.
    fn key(&self) -> (&str, usize, &str) {
        (self.kind.scheme, self.id.len(), &self.id)
    }
}

impl PartialOrd for MachineId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MachineId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.noun, self.id)
    }
}
