//! The network between one replica and the API server.
//!
//! A request that was sent travels on its own: its sender cannot call it back by giving up or being stopped.

use axum::body::Body;
use bytes::Bytes;
use flipop::permit::Permit;
use flipop::random::Random;
use flipop_apiserver::{ApiServer, Call, FrameFacts, Interceptor, OnFrame, Verb};
use futures::future::BoxFuture;
use http::{Request, Response};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;
use tower::BoxError;

/// The longest undisturbed travel time in each direction.
const TRANSIT_MS: u64 = 30;

/// The same on a slow network: longer than a call on the lease may take.
const SLOW_MS: u64 = 6_000;

/// The longest travel time of a write other than to the lease, on a slow network. Without this bound nobody could
/// promise anything about a request that is "already on the network" (docs/how-it-works/leadership.md).
pub(crate) const WRITE_TRANSIT_MS: u64 = 2_000;

/// The longest time that a connection sometimes takes to be established.
pub(crate) const CONNECT_MS: u64 = 5_000;

/// The network's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// Connections are refused, and those of watches break.
    Refused,
    /// Nothing arrives in either direction. Calls on the lease may arrive when it ends.
    Silent,
    /// Requests take effect, but answers are lost.
    LosesReplies,
    /// Everything takes seconds.
    Slow,
}

/// The network of one replica.
pub(crate) struct Link {
    fault: watch::Sender<Fault>,
    random: Random,
    on_write: Box<dyn Fn() + Send + Sync>,
}

impl Link {
    pub(crate) fn new(random: Random, on_write: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let fault = watch::Sender::new(Fault::Nothing);
        Arc::new(Self { fault, random, on_write: Box::new(on_write) })
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    fn fault(&self) -> Fault {
        *self.fault.borrow()
    }

    fn transit(&self, random: &Random, longest_slow_ms: u64) -> Duration {
        let longest = if self.fault() == Fault::Slow { longest_slow_ms } else { TRANSIT_MS };
        Duration::from_millis(random.below(longest))
    }

    /// Waits until the network carries data again. `None` if it never carries this request.
    async fn carries(&self, random: &Random, late: bool) -> Option<()> {
        if self.fault() != Fault::Silent {
            return Some(());
        }
        if !late || random.below(2) == 0 {
            return None;
        }
        self.fault.subscribe().wait_for(|fault| *fault != Fault::Silent).await.ok()?;
        Some(())
    }
}

impl Interceptor for Link {
    fn after(&self, call: &Call, code: u16) {
        if call.verb == Verb::Patch && call.resource == "nodes" && code == 200 {
            (self.on_write)();
        }
    }

    fn frame(&self, _call: &Call, _frame: &FrameFacts<'_>) -> OnFrame {
        match self.fault() {
            Fault::Nothing => OnFrame::Deliver,
            Fault::Slow => OnFrame::Delay(self.transit(&self.random, SLOW_MS)),
            Fault::Refused => OnFrame::Tear,
            Fault::Silent | Fault::LosesReplies => OnFrame::Stall,
        }
    }
}

/// The API server as one replica reaches it.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) front: ApiServer,
    pub(crate) link: Arc<Link>,
    pub(crate) tracker: TaskTracker,
    /// Called for each request that needed a permit, as it leaves.
    pub(crate) on_fenced: Arc<dyn Fn(&Permit) + Send + Sync>,
}

impl tower::Service<Request<kube::client::Body>> for Wire {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let wire = self.clone();
        // Each request has its own random numbers, since requests at the same moment continue in any order.
        let random = Random::seeded(self.link.random.next_u64());
        Box::pin(async move {
            let request = wire.leave(request, &random).await?;
            let (reply, answer) = oneshot::channel();
            let tracker = wire.tracker.clone();
            tracker.spawn(async move {
                if let Some(answered) = wire.carry(request, &random).await {
                    // A sender that gave up is no longer waiting.
                    let _given_up = reply.send(answered);
                } else {
                    // Silence: the sender gets no answer for as long as it waits.
                    let mut reply = reply;
                    reply.closed().await;
                }
            });
            answer.await.map_err(BoxError::from)?
        })
    }
}

impl Wire {
    /// Waits for a connection and passes the request to it. For requests with a permit this sometimes takes long.
    async fn leave(
        &self,
        request: Request<kube::client::Body>,
        random: &Random,
    ) -> Result<Request<Bytes>, BoxError> {
        let (parts, body) = request.into_parts();
        let permit = parts.extensions.get::<Permit>();
        if permit.is_some() && random.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(CONNECT_MS))).await;
        }
        let body = body.collect_bytes().await?;
        if let Some(permit) = permit {
            (self.on_fenced)(permit);
        }
        Ok(Request::from_parts(parts, body))
    }

    /// `None` if no answer ever comes.
    async fn carry(
        &self,
        request: Request<Bytes>,
        random: &Random,
    ) -> Option<Result<Response<Body>, BoxError>> {
        if self.link.fault() == Fault::Refused {
            return Some(Err("connection refused".into()));
        }
        let of_lease = request.uri().path().contains("/leases");
        self.link.carries(random, of_lease).await?;
        tokio::time::sleep(self.link.transit(random, if of_lease { SLOW_MS } else { WRITE_TRANSIT_MS }))
            .await;
        let answer = self.front.answer(&request);
        if self.link.fault() == Fault::LosesReplies {
            return None;
        }
        self.link.carries(random, of_lease).await?;
        tokio::time::sleep(self.link.transit(random, SLOW_MS)).await;
        Some(Ok(answer))
    }
}
