//! The elector on a thread and runtime of its own.
//!
//! A busy main runtime then delays no renewal, and a full log pipe none either. That a stuck main runtime keeps its
//! lease is the other side of it: the liveness probe runs on the main runtime and ends such a process.

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
    /// The thread or its runtime could not be made.
    #[error("failed to start the thread of the lease: {0}")]
    Start(#[from] std::io::Error),
    /// A client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The thread died.
    #[error("failed to keep the thread of the lease alive")]
    Died,
}

/// The outcome to come.
#[derive(Debug)]
pub struct LeaseThread(oneshot::Receiver<Result<LeaderOutcome, ThreadError>>);

impl LeaseThread {
    /// Waits for the elector to end.
    ///
    /// # Errors
    /// [`ThreadError`] when it could not run.
    pub async fn outcome(&mut self) -> Result<LeaderOutcome, ThreadError> {
        (&mut self.0).await.unwrap_or(Err(ThreadError::Died))
    }
}

/// Where an elector runs, and by which clients.
pub enum LeaseHome {
    /// On a thread of its own, with clients that are made there.
    Thread(Box<Cluster>),
    /// Among the tasks of the caller's runtime: a simulation has one thread and one clock.
    Here {
        /// For calls.
        calls: Client,
        /// For the watch beside them.
        watches: Client,
        /// Awaits the task.
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
                // Nobody listens any more: the process is on its way out.
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
        // Nobody listens any more: the process is on its way out.
        let _unheard = sender.send(outcome);
    })?;
    Ok(LeaseThread(receiver))
}
