//! Runs the elector on its own thread and runtime.
//!
//! A busy main runtime or a full log pipe then delays no renewal. The drawback: a stuck main runtime keeps its lease.
//! The liveness probe runs on the main runtime and ends such a process.

use super::LeaderOutcome;
use super::elector::Elector;
use crate::kube::client::{self, ClientError};
use crate::kube::kubeconfig::Cluster;
use kube::Client;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
