//! Leadership: the right to write.
//!
//! [`elector::Elector`] holds the Lease by client-go's protocol, so it and a client-go elector never lead at the same
//! time. The rest of the process sees leadership through [`crate::permit`]. The work of a leader is not part of this
//! module.
//!
//! The elector runs on its own thread and runtime. A busy main runtime or a full log pipe then delays no renewal. The
//! drawback: a stuck main runtime keeps its lease. The liveness probe runs on the main runtime and ends such a process.
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

use crate::kube::client::{self, ClientError};
use crate::kube::kubeconfig::Cluster;
use crate::latest;
use crate::permit::Permit;
use elector::Elector;
use flipop_core::model::Moment;
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
    /// The permit, while leading.
    pub fn permit(&self) -> Option<&Permit> {
        if let Self::Leading { permit, .. } = self { Some(permit) } else { None }
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

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The thread or its runtime could not be created.
    #[error("failed to start the thread of the lease: {0}")]
    Start(#[from] std::io::Error),
    /// A client could not be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The thread died.
    #[error("failed to keep the thread of the lease alive")]
    Died,
}

/// The pending outcome of the elector.
#[derive(Debug)]
pub struct LeaseThread(oneshot::Receiver<Result<LeaderOutcome, ThreadError>>);

impl LeaseThread {
    /// Waits for the elector to end.
    ///
    /// # Errors
    /// [`ThreadError`] if the elector could not run.
    pub async fn outcome(&mut self) -> Result<LeaderOutcome, ThreadError> {
        (&mut self.0).await.unwrap_or(Err(ThreadError::Died))
    }
}

/// Where an elector runs, and with which clients.
pub enum LeaseHome {
    /// On its own thread, with clients created there.
    Thread(Box<Cluster>),
    /// As a task on the caller's runtime. A simulation has one thread and one clock.
    Here {
        /// For calls.
        calls: Client,
        /// For the watch of the lease.
        watches: Client,
        /// Tracks the task, so that the caller can await it.
        tracker: TaskTracker,
    },
}

/// Runs `elector` at its home until it ends or is cancelled.
///
/// # Errors
/// [`ThreadError::Start`].
pub fn spawn(
    elector: Elector,
    home: LeaseHome,
    cancel: CancellationToken,
) -> Result<LeaseThread, ThreadError> {
    let (sender, receiver) = oneshot::channel();
    let cluster = match home {
        LeaseHome::Thread(cluster) => cluster,
        LeaseHome::Here { calls, watches, tracker } => {
            tracker.spawn(async move {
                // If nobody listens, the process is ending.
                let _unheard = sender.send(Ok(elector.run(calls, watches, cancel).await));
            });
            return Ok(LeaseThread(receiver));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
        let outcome = runtime.block_on(async {
            let calls = client::lease(&cluster)?;
            let watches = client::watches(&cluster, None)?;
            Ok(elector.run(calls, watches, cancel).await)
        });
        // If nobody listens, the process is ending.
        let _unheard = sender.send(outcome);
    })?;
    Ok(LeaseThread(receiver))
}
