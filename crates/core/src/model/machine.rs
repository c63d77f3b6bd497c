//! The machines of providers: nodes run on them, and addresses are assigned to them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// How one provider names its machines, and how nodes refer to them.
#[derive(Debug)]
pub struct MachineKind {
    /// The noun for one machine in messages.
    pub noun: &'static str,
    /// The part before `://` in a node's `spec.providerID`.
    pub scheme: &'static str,
    /// The scope that a token needs to read machines.
    pub read_scope: &'static str,
    /// Normalizes the part after `://`. Two names of one machine have the same normalized form.
    pub id: fn(&str) -> Option<String>,
}

impl PartialEq for MachineKind {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme
    }
}

impl Eq for MachineKind {}

impl MachineKind {
    /// The machine that a node's `spec.providerID` names, if it is of this kind.
    pub fn named(&'static self, provider_id: &str) -> Option<MachineId> {
        let id = provider_id.strip_prefix(self.scheme)?.strip_prefix("://")?;
        (self.id)(id).map(|id| self.machine(id))
    }

    /// The machine with this id.
    pub fn machine(&'static self, id: impl Into<Arc<str>>) -> MachineId {
        MachineId { kind: self, id: id.into() }
    }

    /// The form of `spec.providerID`.
    pub fn form(&self) -> String {
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
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its kind.
    pub fn kind(&self) -> &'static MachineKind {
        self.kind
    }

    /// The `spec.providerID` of its node.
    pub fn provider_id(&self) -> String {
        format!("{}://{}", self.kind.scheme, self.id)
    }

    /// Orders by kind, then by length before text, so numeric ids are ordered as numbers.
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
        // The fast path: almost all machines are of one kind.
        if std::ptr::eq(self.kind, other.kind) {
            return (self.id.len(), &self.id).cmp(&(other.id.len(), &other.id));
        }
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.noun, self.id)
    }
}
