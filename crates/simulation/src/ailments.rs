//! What is wrong with the machines under the nodes and on the ways to them, as data, and which machines live.
//!
//! Invariant: what a way loses depends on the plan alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What happens to machines and on the ways to them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// Kubelets renew Leases.
    #[serde(default)]
    pub kubelets: bool,
    /// What is wrong, and when.
    #[serde(default)]
    pub ailments: Vec<Ailment>,
}

impl Machines {
    /// Nothing is said of machines.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The way to a node's machine at this moment: as a replica sees it, or as the node's kubelet does.
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

/// Something that is wrong for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ailment {
    /// From when.
    pub from_ms: u64,
    /// Until when.
    pub to_ms: u64,
    /// Of which node; absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// As which replica sees it; absent: as all do. Kubelets have no replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    /// What.
    pub ail: Ail,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ail {
    /// So many of a hundred packets are lost, of checks and of renewals.
    Loss {
        /// Percent.
        percent: u64,
    },
    /// Checks alone are lost.
    Deaf,
    /// Checks take up to so much longer.
    Late {
        /// Milliseconds.
        ms: u64,
    },
    /// The kubelet renews nothing.
    Idle,
    /// The kubelet renews this seldom.
    Slow {
        /// Milliseconds.
        every_ms: u64,
    },
    /// Checks fail on the side of the operator.
    OwnFault,
}

/// How the way to a machine is at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    pub(super) loss: u64,
    pub(super) late_ms: u64,
    pub(super) deaf: bool,
    pub(super) idle: bool,
    pub(super) own_fault: bool,
    pub(super) every_ms: Option<u64>,
}

/// The machines as they are.
#[derive(Debug, Default)]
pub(super) struct State {
    dead: BTreeSet<String>,
    /// Packets that dice were rolled for.
    packets: u64,
}

impl State {
    /// The machine of a node dies, or comes back.
    pub(super) fn set_dead(&mut self, node: &str, dead: bool) {
        if dead {
            self.dead.insert(node.to_owned());
        } else {
            self.dead.remove(node);
        }
    }

    /// Whether a node's machine is dead.
    pub(super) fn is_dead(&self, node: &str) -> bool {
        self.dead.contains(node)
    }

    /// A number of its own for each packet.
    pub(super) fn next_packet(&mut self) -> u64 {
        self.packets += 1;
        self.packets
    }
}
