//! Troubles of the machines under the nodes and of the paths to them, as data, and which machines are alive.
//!
//! Invariant: the losses on a path depend only on the plan.

use super::dice::{Fingerprint, roll};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The default of kubelets for the duration of their Leases.
const LEASE_S: u64 = 40;

/// The part of a plan about machines and the paths to them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// Kubelets renew Leases.
    #[serde(default)]
    pub kubelets: bool,
    /// The durations of Leases, in seconds. Chance gives each node one of them. Without any, they last 40 s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lease_s: Vec<u64>,
    /// The troubles, with their times.
    #[serde(default)]
    pub ailments: Vec<Ailment>,
}

impl Machines {
    /// Whether the plan says nothing about machines.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The duration of a node's Lease in the run of `seed`, in seconds.
    pub(super) fn lease_s(&self, seed: u64, node: &str) -> u64 {
        let limit = u64::try_from(self.lease_s.len()).unwrap_or_default();
        let drawn = usize::try_from(roll(seed, Fingerprint::of(node.as_bytes()), 34, limit));
        drawn.ok().and_then(|drawn| self.lease_s.get(drawn)).copied().unwrap_or(LEASE_S)
    }

    /// The path to a node's machine at this moment, from a replica (`Some`) or from the node's kubelet (`None`).
    pub(super) fn way(&self, now_ms: u64, node: &str, replica: Option<usize>) -> Way {
        let mut way = Way::default();
        for Ailment { from_ms, to_ms, node: of, replica: seen, ail } in &self.ailments {
            let now = (*from_ms..*to_ms).contains(&now_ms);
            let here = of.as_deref().is_none_or(|of| of == node);
            if !now || !here || (seen.is_some() && *seen != replica) {
                continue;
            }
            match *ail {
                Ail::Loss { percent } => way.loss = way.loss.max(percent),
                Ail::Deaf => way.deaf = true,
                Ail::Late { ms } => way.late_ms = way.late_ms.max(ms),
                Ail::Idle => way.idle = true,
                Ail::Slow { every_ms } => way.every_ms = Some(every_ms),
                Ail::OwnFault => way.own_fault = true,
            }
        }
        way
    }
}

/// A trouble that lasts for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ailment {
    /// Its beginning.
    pub from_ms: u64,
    /// Its end.
    pub to_ms: u64,
    /// The node whose machine it affects; absent: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The replica that it affects; absent: every replica and every kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    /// The trouble itself.
    pub ail: Ail,
}

/// The kind of a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the names of fields say what they are")]
pub enum Ail {
    /// This share of the packets is lost, of checks as well as of renewals.
    Loss { percent: u64 },
    /// All checks are lost, and no renewals.
    Deaf,
    /// Checks take up to this much longer.
    Late { ms: u64 },
    /// The kubelet renews nothing.
    Idle,
    /// The kubelet renews only at this interval.
    Slow { every_ms: u64 },
    /// Checks fail on the side of the operator, so they have no verdict.
    OwnFault,
}

/// The state of the path to a machine at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    pub(super) loss: u64,
    pub(super) late_ms: u64,
    pub(super) deaf: bool,
    pub(super) idle: bool,
    pub(super) own_fault: bool,
    pub(super) every_ms: Option<u64>,
}

/// The state of the machines.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The nodes whose machines are dead.
    pub(super) dead: BTreeSet<String>,
    /// How many packets have been sent. Each number decides a roll of the dice.
    pub(super) packets: u64,
}
