//! Actions on reserved IPs. They are asynchronous; their due time and outcome are fixed when they start.

use std::net::Ipv4Addr;

/// How an action ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionOutcome {
    /// It succeeds.
    Completed,
    /// It fails and changes nothing.
    Errored,
}

/// The planned course of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionPlan {
    /// Its outcome.
    pub outcome: ActionOutcome,
    /// Milliseconds from start to end. `None`: the current default.
    pub duration_ms: Option<u64>,
}

/// The effect of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionKind {
    /// Moves the address to a droplet.
    Assign(u64),
    /// Removes the address from its droplet.
    Unassign,
    /// Creates the address. Over once the address exists.
    Reserve,
}

impl ActionKind {
    /// The provider's name for this kind.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Assign(_) => "assign_ip",
            Self::Unassign => "unassign_ip",
            Self::Reserve => "reserve_ip",
        }
    }
}

/// The status of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionStatus {
    InProgress,
    Completed,
    Errored,
}

impl ActionStatus {
    /// The provider's name for this status.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in-progress",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}

/// One action.
#[derive(Debug, Clone)]
pub(super) struct Action {
    pub(super) id: u64,
    pub(super) ip: Ipv4Addr,
    pub(super) region: String,
    pub(super) kind: ActionKind,
    pub(super) status: ActionStatus,
    pub(super) outcome: ActionOutcome,
    pub(super) started_ms: u64,
    pub(super) ended_ms: Option<u64>,
}
