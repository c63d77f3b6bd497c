//! Leadership: the right to write.
//!
//! [`elector::Elector`] holds the Lease by client-go's protocol, so it and a client-go elector never lead at the same
//! time. The rest of the process sees leadership through [`crate::permit`]. The work of a leader is not part of this
//! module.
//!
//! Invariants: a lease is taken only if its record is free, or unchanged for its whole duration *on our own clock*.
//! Every write of the lease is guarded by its resource version. A permit ends before the lease can expire for anyone
//! else.

mod api_recovery;
pub mod elector;
mod lease_watch;
pub mod record;
#[cfg(test)]
pub(crate) mod tests;
pub mod thread;

use crate::latest;
use crate::permit::Permit;
use flipop_core::model::moment::Moment;
use tokio::sync::watch;

/// Name of the Lease in the operator's namespace. The Go operator uses the same.
pub const LEASE_NAME: &str = "floating-ip-pool-controller-leader-election";

/// The state of leadership.
#[derive(Debug, Clone)]
pub enum LeaderState {
    /// Nothing is known yet.
    Starting,
    /// Someone else holds the lease. An empty holder means nobody.
    Standby {
        /// The other's identity.
        holder: String,
    },
    /// We hold the lease. A new [`Permit::epoch`] follows a gap: read everything before writing.
    Leading {
        /// Number of changes of holder, from the Lease.
        term: i32,
        /// When the lease was taken.
        since: Moment,
        /// The right to write in this epoch.
        permit: Permit,
    },
    /// We took the lease but failed to renew it until the permit ended. No other holder is known.
    Lapsed {
        /// When this was noticed.
        since: Moment,
    },
    /// Someone else took the lease from us. The process must end.
    Lost {
        /// The other's identity; empty when the lease was emptied.
        holder: String,
    },
    /// We released the lease, or stopped competing for it.
    Ended,
}

impl LeaderState {
    /// Whether the lease is ours as far as is known, whatever the state of the permit.
    pub fn holds(&self) -> bool {
        match self {
            Self::Leading { .. } | Self::Lapsed { .. } => true,
            Self::Starting | Self::Standby { .. } | Self::Lost { .. } | Self::Ended => false,
        }
    }

    /// The permit, while leading.
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
    /// It was told to stop and left the lease unchanged.
    Stopped,
    /// It released the lease.
    Released,
    /// It was told to release the lease and could not. The lease will expire.
    NotReleased,
    /// Someone else has the lease. Exit non-zero.
    Lost {
        /// The other's identity; empty when the lease was emptied.
        holder: String,
    },
}

/// An order to the elector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Take the lease when it is free, and keep it.
    Compete,
    /// Keep the lease if it is ours, but do not take it.
    StandDown,
    /// Release the lease and end.
    Release,
}

/// The handle to a running elector. Clones share it.
#[derive(Debug, Clone)]
pub struct LeaderHandle {
    state: watch::Receiver<LeaderState>,
    orders: watch::Sender<Order>,
    returns: latest::Receiver<u64>,
}

impl LeaderHandle {
    /// The current and later states of leadership.
    pub fn state(&self) -> watch::Receiver<LeaderState> {
        self.state.clone()
    }

    /// Counts how often the API server came back, judged by calls on the lease. Each return resets every backoff.
    pub fn api_returns(&self) -> latest::Receiver<u64> {
        self.returns.clone()
    }

    /// From now on only renew. The first step of a shutdown.
    pub fn stand_down(&self) {
        self.orders.send_if_modified(|order| {
            let changes = *order == Order::Compete;
            if changes {
                *order = Order::StandDown;
            }
            changes
        });
    }

    /// Releases the lease: the permit ends now, and so does the elector. Call it only after every call in flight has
    /// ended.
    pub fn release(&self) {
        self.orders.send_replace(Order::Release);
    }
}
