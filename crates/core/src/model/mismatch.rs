//! Why a node does not match, as a closed set of reasons in words.
//!
//! Texts follow a subject: "node-1 is not Ready". Owns the words; which reason comes first is `matching`'s, and texts about
//! many nodes are `survey`'s.

use crate::model::facts::Taint;
use std::fmt;

/// Why a node does not match.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// No matching pod is Running, Ready and staying on it.
    PodNotReady,
    /// Condition `Ready` is `False`, or absent.
    NotReady,
    /// Condition `Ready` is `Unknown`: its kubelet stopped reporting.
    ReadyUnknown,
    /// A taint that no toleration covers.
    Taint(Taint),
    /// The node is being deleted.
    Deleting,
    /// The node was deleted, or its labels no longer match: a filtered watch shows both alike.
    Gone,
    /// `spec.providerID` is not set.
    NoProviderId,
    /// Another machine has its name: another `uid` or `spec.providerID`.
    Replaced,
    /// The criteria were edited.
    Edited,
}

impl Mismatch {
    /// The text after several nodes.
    pub(crate) fn of_many(&self) -> String {
        match self {
            Self::PodNotReady => "run no matching pod that is Ready".to_owned(),
            Self::NotReady => "are not Ready".to_owned(),
            Self::ReadyUnknown => "stopped reporting (Ready is Unknown)".to_owned(),
            Self::Taint(taint) => format!("have the taint {taint}"),
            Self::Deleting => "are being deleted".to_owned(),
            Self::Gone => "were deleted or relabelled".to_owned(),
            Self::NoProviderId => "have no spec.providerID".to_owned(),
            Self::Replaced => "were replaced by other machines".to_owned(),
            Self::Edited => "do not meet spec.match as it was edited".to_owned(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodNotReady => f.write_str("runs no matching pod that is Ready"),
            Self::NotReady => f.write_str("is not Ready"),
            Self::ReadyUnknown => f.write_str("stopped reporting (Ready is Unknown)"),
            Self::Taint(taint) => write!(f, "has the taint {taint}"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::Gone => f.write_str("was deleted or relabelled"),
            Self::NoProviderId => f.write_str("has no spec.providerID"),
            Self::Replaced => f.write_str("was replaced by another machine"),
            Self::Edited => f.write_str("does not meet spec.match as it was edited"),
        }
    }
}

impl fmt::Display for Taint {
    /// As `kubectl taint` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        let equals = if value.is_empty() { "" } else { "=" };
        write!(f, "{key}{equals}{value}:{effect}")
    }
}
