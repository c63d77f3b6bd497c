//! The changes in a simulated world, of the cluster and of the accounts, in the order of time.
//!
//! This module only reads. Invariant: within one millisecond, the cluster's changes come first, because they hold the
//! reasons.

use flipop_apiserver::{ApiServer, Change, Changes};
use flipop_cloud::{Change as AccountChange, ChangeKind, Cloud};
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Something that happened.
#[derive(Debug, Clone)]
pub struct News {
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The event.
    pub what: What,
}

/// The change.
#[derive(Debug, Clone)]
pub enum What {
    /// An object of the cluster changed.
    Cluster(Arc<Change>),
    /// An account changed.
    Account(ChangeKind),
}

/// The changes of a world from now on.
#[derive(Debug)]
pub struct Feed {
    cluster: Changes,
    account: Receiver<AccountChange>,
    epoch: Timestamp,
}

impl Feed {
    /// The changes of these two. `epoch` is the beginning of the world by the API server's clock.
    pub fn new(api: &ApiServer, cloud: &Cloud, epoch: Timestamp) -> Self {
        Self { cluster: api.subscribe(), account: cloud.changes(), epoch }
    }

    /// Waits for the next changes; `None` if there will be no more.
    pub async fn next(&mut self) -> Option<Vec<News>> {
        tokio::select! {
            biased;
            changes = self.cluster.next() => Some(self.dated(changes)),
            change = self.account.recv() => match change {
                Ok(change) => Some(vec![News::from(change)]),
                Err(RecvError::Lagged(_)) => Some(Vec::new()),
                Err(RecvError::Closed) => None,
            },
        }
    }

    /// Adds everything else so far, and sorts.
    pub fn complete(&mut self, news: &mut Vec<News>) {
        let changes = self.cluster.drain();
        news.extend(self.dated(changes));
        loop {
            match self.account.try_recv() {
                Ok(change) => news.push(News::from(change)),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        news.sort_by_key(|news| (news.at_ms, matches!(news.what, What::Account(_))));
    }

    fn dated(&self, changes: Vec<Arc<Change>>) -> Vec<News> {
        let dated = |change: Arc<Change>| {
            let since = change.time.duration_since(self.epoch).as_millis();
            News { at_ms: u64::try_from(since).unwrap_or_default(), what: What::Cluster(change) }
        };
        changes.into_iter().map(dated).collect()
    }
}

impl From<AccountChange> for News {
    fn from(change: AccountChange) -> Self {
        Self { at_ms: change.at_ms, what: What::Account(change.kind) }
    }
}
