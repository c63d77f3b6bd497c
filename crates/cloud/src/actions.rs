//! Actions on reserved IPs: asynchronous, with a due time and an outcome that is fixed when they start.

use std::net::Ipv4Addr;

/// How an action ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionOutcome {
    /// It does what was asked.
    Completed,
    /// It fails and changes nothing.
    Errored,
    /// It stays in progress until someone ends it.
    Never,
}

/// How an action will go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionPlan {
    /// Its end.
    pub outcome: ActionOutcome,
    /// Milliseconds from its start to its end; absent: as long as actions take at the moment.
    pub duration_ms: Option<u64>,
}

/// What an action does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionKind {
    /// Moves the address to a droplet.
    Assign(u64),
    /// Takes the address off its droplet.
    Unassign,
    /// The creation of the address, over when it is made.
    Reserve,
}

impl ActionKind {
    /// The provider's name for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Assign(_) => "assign_ip",
            Self::Unassign => "unassign_ip",
            Self::Reserve => "reserve_ip",
        }
    }
}

/// Where an action stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionStatus {
    InProgress,
    Completed,
    Errored,
}

impl ActionStatus {
    /// The provider's name for it.
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
