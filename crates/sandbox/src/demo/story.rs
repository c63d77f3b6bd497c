//! What happens, told as it happens: changes of the account beside those of the cluster, each with its reason.
//!
//! It reads, it never acts. Where an address goes is told when the simulated account takes the request and when it has
//! done it; why, by the operator's own rule applied to the objects as they are at that moment; what the operator says
//! of it, by its Events, annotations and conditions.

use super::pools::{self, API_VERSION, POOL_KIND, Standing, Standings};
use super::stage::Stage;
use super::teller::{Teller, seconds};
use super::{DemoError, story_pool};
use flipop_core::facts::RESERVED_IP_ANNOTATION;
use flipop_core::ids::ObjectName;
use flipop_sandbox::apiserver::{Change, Changes, Key, Storage};
use flipop_sandbox::cloud::{Change as CloudChange, ChangeKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// Field manager of the operator.
const OPERATOR: &str = "flipop";

/// The assignment of an address to a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    pub(super) ip: Ipv4Addr,
    /// Where it stood before.
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) reason: String,
    /// When the node that it left stopped matching.
    pub(super) lost_ms: Option<u64>,
    /// When the account took the request.
    pub(super) began_ms: u64,
    /// When it stood there.
    pub(super) done_ms: u64,
}

/// The narrator.
pub(super) struct Story {
    pub(super) stage: Stage,
    pub(super) teller: Teller,
    /// Assignments that succeeded.
    pub(super) moves: Vec<Move>,
    /// Assignments that have begun.
    open: BTreeMap<Ipv4Addr, Move>,
    standings: Standings,
    /// When nodes stopped matching.
    lost: BTreeMap<(ObjectName, String), u64>,
    cluster: Changes,
    account: Receiver<CloudChange>,
}

/// Something that happened.
enum News {
    Cluster(Arc<Change>),
    Account(ChangeKind),
}

impl Story {
    pub(super) fn new(stage: Stage, teller: Teller) -> Self {
        let (cluster, account) = (stage.api.subscribe(), stage.cloud.cloud().changes());
        let standings = pools::standings(&stage.api);
        Self {
            stage,
            teller,
            moves: Vec::new(),
            open: BTreeMap::new(),
            standings,
            lost: BTreeMap::new(),
            cluster,
            account,
        }
    }

    /// The story's clock.
    pub(super) fn now_ms(&self) -> u64 {
        self.stage.cloud.cloud().now_ms()
    }

    /// Tells something that the sandbox itself does.
    pub(super) fn tell(&mut self, who: &str, text: &str) {
        let now_ms = self.now_ms();
        self.teller.line(now_ms, who, text);
    }

    /// Tells what happens until `until` holds (true) or the time is over (false).
    ///
    /// # Errors
    /// When the operator ends.
    pub(super) async fn follow(
        &mut self,
        time: Duration,
        mut until: impl FnMut(&Self) -> bool,
    ) -> Result<bool, DemoError> {
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            self.tell_news(None);
            if until(self) {
                return Ok(true);
            }
            let first = tokio::select! {
                biased;
                changes = self.cluster.next() => changes.into_iter().map(News::Cluster).collect(),
                change = self.account.recv() => match change {
                    Ok(change) => vec![(News::Account(change.kind), change.at_ms)].into_iter().map(|(news, _)| news).collect(),
                    Err(RecvError::Lagged(_)) => Vec::new(),
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                error = self.stage.operator_end() => return Err(error),
                () = &mut end => return Ok(until(self)),
            };
            let _: Vec<News> = first;
        }
    }
}
