//! Why a node does not match, as a closed set of reasons in words.
//!
//! Texts follow a subject: "node-1 is not Ready". This module owns the words, and decides which reasons may pass by
//! themselves. `matching` decides which reason comes first, and `survey` writes the texts about many nodes.

use crate::model::facts::Taint;
use std::fmt;

/// Taints by which Kubernetes reports that a node fails, and which it removes by itself. Any other taint is somebody's
/// decision.
pub const PASSING_TAINTS: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
];

/// The taint that `kubectl cordon` sets. Users know it by that word.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The class of a failure, which decides its grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// No pod serves on the node; it may be a restart.
    Pod,
    /// The node itself fails; it may be a reboot.
    Node,
    /// Somebody took the node out of service, or the node is gone: no grace.
    Hard,
}

/// Why a node does not match.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// No matching pod on it is Running, Ready and not being deleted.
    PodNotReady,
    /// Condition `Ready` is `False`, or absent.
    NotReady,
    /// Condition `Ready` is `Unknown`: its kubelet stopped reporting.
    ReadyUnknown,
    /// Its machine answers no check, and its kubelet missed a renewal of its Lease.
    CheckFailed,
    /// Its machine answers no check, and its provider reports that the machine is switched off.
    MachineOff,
    /// Its machine answers no check, and its provider no longer has the machine.
    MachineGone,
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
    /// Its class, which decides its grace period.
    pub fn class(&self) -> Class {
        match self {
            Self::PodNotReady => Class::Pod,
            Self::NotReady | Self::ReadyUnknown | Self::CheckFailed | Self::MachineOff => Class::Node,
            Self::Taint(taint) if PASSING_TAINTS.contains(&taint.key.as_str()) => Class::Node,
            Self::Taint(_)
            | Self::MachineGone
            | Self::Deleting
            | Self::Gone
            | Self::NoProviderId
            | Self::Replaced
            | Self::Edited => Class::Hard,
        }
    }

    /// Whether it rests on checks of the node.
    pub const fn is_by_check(&self) -> bool {
        matches!(self, Self::CheckFailed | Self::MachineOff | Self::MachineGone)
    }

    /// The word for it in a status: the reason, or the key of the taint.
    pub fn name(&self) -> &str {
        if let Self::Taint(taint) = self { &taint.key } else { self.kind() }
    }

    /// The word for it in metrics, where all taints count as one.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::PodNotReady => "PodNotReady",
            Self::NotReady => "NotReady",
            Self::ReadyUnknown => "ReadyUnknown",
            Self::CheckFailed => "CheckFailed",
            Self::MachineOff => "MachineOff",
            Self::MachineGone => "MachineGone",
            Self::Taint(_) => "Taint",
            Self::Deleting => "Deleting",
            Self::Gone => "Gone",
            Self::NoProviderId => "NoProviderID",
            Self::Replaced => "Replaced",
            Self::Edited => "Edited",
        }
    }

    /// One of each kind.
    pub fn every() -> Vec<Self> {
        let taint = Taint { key: String::new(), value: String::new(), effect: String::new() };
        vec![
            Self::PodNotReady,
            Self::NotReady,
            Self::ReadyUnknown,
            Self::CheckFailed,
            Self::MachineOff,
            Self::MachineGone,
            Self::Taint(taint),
            Self::Deleting,
            Self::Gone,
            Self::NoProviderId,
            Self::Replaced,
            Self::Edited,
        ]
    }

    /// The text that follows several nodes.
    pub(crate) fn of_many(&self) -> String {
        match self {
            Self::PodNotReady => "run no matching pod that is Ready".to_owned(),
            Self::NotReady => "are not Ready".to_owned(),
            Self::ReadyUnknown => "stopped reporting (Ready is Unknown)".to_owned(),
            Self::CheckFailed => "answer no check and missed a renewal of their Lease".to_owned(),
            Self::MachineOff => "answer no check and are switched off".to_owned(),
            Self::MachineGone => "answer no check, and their machines no longer exist".to_owned(),
            Self::Taint(taint) => format!("have the taint {taint}"),
            Self::Deleting => "are being deleted".to_owned(),
            Self::Gone => "were deleted or relabeled".to_owned(),
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
            Self::CheckFailed => f.write_str("answers no check and missed a renewal of its Lease"),
            Self::MachineOff => f.write_str("answers no check and is switched off"),
            Self::MachineGone => f.write_str("answers no check, and its machine no longer exists"),
            Self::Taint(taint) => write!(f, "has the taint {taint}"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::Gone => f.write_str("was deleted or relabeled"),
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
        let word = if key == CORDONED { " (cordoned)" } else { "" };
        write!(f, "{key}{equals}{value}:{effect}{word}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_by_itself_has_a_grace() {
        let taint = |key: &str| {
            Mismatch::Taint(Taint { key: key.into(), value: String::new(), effect: "NoExecute".into() })
        };
        for (why, class) in [
            (Mismatch::PodNotReady, Class::Pod),
            (Mismatch::NotReady, Class::Node),
            (Mismatch::ReadyUnknown, Class::Node),
            (Mismatch::CheckFailed, Class::Node),
            (Mismatch::MachineOff, Class::Node),
            (Mismatch::MachineGone, Class::Hard),
            (taint("node.kubernetes.io/not-ready"), Class::Node),
            (taint("node.kubernetes.io/unreachable"), Class::Node),
            (taint("node.kubernetes.io/network-unavailable"), Class::Node),
            (taint("node.kubernetes.io/memory-pressure"), Class::Node),
            (taint("node.kubernetes.io/disk-pressure"), Class::Node),
            (taint("node.kubernetes.io/pid-pressure"), Class::Node),
            (taint(CORDONED), Class::Hard),
            (taint("node.kubernetes.io/out-of-service"), Class::Hard),
            (taint("node.cloudprovider.kubernetes.io/shutdown"), Class::Hard),
            (taint("example.com/not-ready"), Class::Hard),
            (Mismatch::Deleting, Class::Hard),
            (Mismatch::Gone, Class::Hard),
            (Mismatch::NoProviderId, Class::Hard),
            (Mismatch::Replaced, Class::Hard),
            (Mismatch::Edited, Class::Hard),
        ] {
            assert_eq!(why.class(), class, "{why}");
        }
        let cordoned = "has the taint node.kubernetes.io/unschedulable:NoExecute (cordoned)";
        assert_eq!(taint(CORDONED).to_string(), cordoned);
    }
}
