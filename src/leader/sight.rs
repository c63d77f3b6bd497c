//! A watch of the Lease beside the polls, so that a release, a deletion or a theft is acted on at once.
//!
//! Best effort: without it (a role without the verb `watch`, a silent connection) the polls of the elector do the
//! same work a few seconds later. It never ends; errors are waited out.

use super::LEASE_NAME;
use crate::clock::Clock;
use crate::kube::trouble::{Trouble, TroubleKind};
use flipop_core::model::moment::Moment;
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use std::time::Duration;

/// After this long the server ends a watch by itself.
const SERVER_TIMEOUT_S: u32 = 50;

/// Silence after which the connection counts as dead.
const SILENCE: Duration = Duration::from_secs(55);

/// Longest wait for a watch to start.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A watch that ends sooner than this was no watch (follow.rs holds the others to the same): the next one waits, so
/// that nothing spins where a proxy ends each at once.
const SHORTEST_WATCH_MS: u64 = 1_000;

/// Pause after a failure, about the period of the polls.
const PAUSE: Duration = Duration::from_secs(2);

/// Pause after a refusal: someone has to change a role first.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// What was seen.
#[derive(Debug)]
pub(super) enum Sight {
    /// The lease is, or became, this.
    Changed(Box<Lease>),
    /// The lease was deleted.
    Deleted,
}

type Events = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

struct Watch {
    api: Api<Lease>,
    clock: Clock,
    events: Option<Events>,
    /// When the latest was asked for.
    began_at: Moment,
    refused: bool,
}

/// An endless stream of what happens to the lease.
pub(super) fn sights(api: Api<Lease>, clock: Clock) -> BoxStream<'static, Sight> {
    let began_at = clock.now();
    let watch = Watch { api, clock, events: None, began_at, refused: false };
    futures::stream::unfold(watch, |mut watch| async move {
        let sight = watch.next().await;
        Some((sight, watch))
    })
    .boxed()
}

impl Watch {
    async fn next(&mut self) -> Sight {
        loop {
            let Some(events) = &mut self.events else {
                self.start().await;
                continue;
            };
            match tokio::time::timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)))) => {
                    return Sight::Changed(Box::new(lease));
                }
                Ok(Some(Ok(WatchEvent::Deleted(_)))) => return Sight::Deleted,
                Ok(Some(Ok(WatchEvent::Bookmark(_)))) => {}
                Ok(Some(Ok(WatchEvent::Error(_)) | Err(_))) => {
                    self.events = None;
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(None) | Err(_) => {
                    self.events = None;
                    if self.clock.now().millis_since(self.began_at) < SHORTEST_WATCH_MS {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    async fn start(&mut self) {
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={LEASE_NAME}")),
            timeout: Some(SERVER_TIMEOUT_S),
            ..WatchParams::default()
        };
        self.began_at = self.clock.now();
        // No version: the present state comes first, then what happens to it.
        let trouble = match tokio::time::timeout(START_TIMEOUT, self.api.watch(&params, "")).await {
            Ok(Ok(events)) => {
                self.events = Some(events.boxed());
                self.refused = false;
                return;
            }
            Ok(Err(error)) => Trouble::from(error),
            Err(_elapsed) => Trouble::timed_out(5_000),
        };
        if trouble.kind == TroubleKind::Forbidden {
            if !self.refused {
                tracing::info!("the lease cannot be watched, so a release is noticed by polling: {trouble}");
            }
            self.refused = true;
            tokio::time::sleep(REFUSED_PAUSE).await;
        } else {
            tracing::debug!("failed to watch the lease: {trouble}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
