//! Watches the Lease beside the polls, so that a release, a deletion or a takeover is acted on at once.
//!
//! Best effort: if the role lacks the verb `watch` or the connection falls silent, the elector's polls notice the same
//! change a few seconds later. The stream never ends; it pauses after an error.

use super::LEASE_NAME;
use crate::clock::Clock;
use crate::kube::trouble::{Trouble, TroubleKind};
use flipop_core::model::Moment;
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use std::time::Duration;

/// The server ends a watch after this long.
const SERVER_TIMEOUT_S: u32 = 50;

/// Silence after which the connection counts as dead.
const SILENCE: Duration = Duration::from_secs(55);

/// Longest wait for a watch to start.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A watch that ends sooner than this counts as failed, as in follow.rs. The next one waits, so that nothing spins
/// behind a proxy that ends each watch at once.
const SHORTEST_WATCH_MS: u64 = 1_000;

/// Pause after a failure: about one poll period.
const PAUSE: Duration = Duration::from_secs(2);

/// Pause after a refusal, which lasts until someone changes a role.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// One observation of the lease.
#[derive(Debug)]
pub(super) enum Sight {
    /// The lease is now this, or became this.
    Changed(Box<Lease>),
    /// The lease was deleted.
    Deleted,
}

type Events = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

struct Watch {
    api: Api<Lease>,
    clock: Clock,
    events: Option<Events>,
    /// When the latest watch was requested.
    began_at: Moment,
    refused: bool,
}

/// An endless stream of observations of the lease.
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
        // No resource version: the current state comes first, then the changes.
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
