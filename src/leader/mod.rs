//! Leadership: who may write.
//!
//! [`elector::Elector`] holds the Lease by client-go's protocol, so that it and an elector of client-go never both
//! lead; [`crate::permit`] is what the rest of the process sees of it. It does not own what a leader does.
//!
//! Invariants: a lease is taken only when its record is free or has not changed for its whole duration *by our own
//! clock*; every write of it is guarded by its version; a permit ends before the lease can expire for anyone else.

pub mod elector;
mod failing;
pub mod record;
mod returns;
mod sight;
#[cfg(test)]
pub(crate) mod tests;
pub mod thread;

use crate::permit::Permit;
use crate::signal;
use flipop_core::model::moment::Moment;
use tokio::sync::watch;

/// Name of the Lease in the operator's namespace: that of the Go operator.
pub const LEASE_NAME: &str = "floating-ip-pool-controller-leader-election";

/// Where leadership stands.
#[derive(Debug, Clone)]
pub enum LeaderState {
    /// Nothing is known yet.
    Starting,
    /// Someone else holds the lease; an empty holder means nobody.
    Standby {
        /// The other's identity.
        holder: String,
    },
    /// We hold the lease. A state with another [`Permit::epoch`] follows a gap: read everything before writing.
    Leading {
        /// Count of the changes of holder, as the Lease has it.
        term: i32,
        /// When the lease was taken.
        since: Moment,
        /// The right to write in this epoch.
        permit: Permit,
    },
    /// We took the lease and could not renew it for so long that the permit ended. Nobody else is known to have it.
    Lapsed {
        /// When that was noticed.
        since: Moment,
    },
    /// Someone else took the lease from us: the process has to end.
    Lost {
        /// The other's identity; empty when the lease was emptied.
        holder: String,
    },
    /// We gave it up, or stopped competing for it.
    Ended,
}

impl LeaderState {
    /// Whether the lease is ours as far as is known, whatever the permit says.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self {
            Self::Leading { .. } | Self::Lapsed { .. } => true,
            Self::Starting | Self::Standby { .. } | Self::Lost { .. } | Self::Ended => false,
        }
    }

    /// The permit, while leading.
    #[must_use]
    pub fn permit(&self) -> Option<&Permit> {
        match self {
            Self::Leading { permit, .. } => Some(permit),
            Self::Starting | Self::Standby { .. } | Self::Lapsed { .. } | Self::Lost { .. } | Self::Ended => {
                None
            }
        }
    }
}

/// How the elector ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderOutcome {
    /// It was told to stop, and left the lease as it was.
    Stopped,
    /// It gave the lease up.
    Released,
    /// It was told to give the lease up and could not: it will expire.
    NotReleased,
    /// Someone else has the lease: exit, non-zero.
    Lost {
        /// The other's identity; empty when the lease was emptied.
        holder: String,
    },
}

/// What the elector is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Take the lease when it is free, and keep it.
    Compete,
    /// Keep the lease if it is ours, but take it no more.
    StandDown,
    /// Give it up and end.
    Release,
}

/// The other side of a running elector; clones share it.
#[derive(Debug, Clone)]
pub struct LeaderHandle {
    state: watch::Receiver<LeaderState>,
    orders: watch::Sender<Order>,
    returns: signal::Receiver<u64>,
}

impl LeaderHandle {
    /// Where leadership stands, now and later.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<LeaderState> {
        self.state.clone()
    }

    /// Counts the times that the API server came back, as calls on the lease show it: the reset of every backoff.
    #[must_use]
    pub fn api_returns(&self) -> signal::Receiver<u64> {
        self.returns.clone()
    }

    /// From now on renew only. The first step of a shutdown.
    pub fn stand_down(&self) {
        self.orders.send_if_modified(|order| {
            let changes = *order == Order::Compete;
            if changes {
                *order = Order::StandDown;
            }
            changes
        });
    }

    /// Give the lease up: no permit from now on, and the elector ends. Only when every call in flight has ended.
    pub fn release(&self) {
        self.orders.send_replace(Order::Release);
    }
}
