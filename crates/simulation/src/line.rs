//! One process's path to the servers: the service under its Kubernetes clients, and the transport under its provider
//! clients.
//!
//! A request travels in its own task, like a packet: it takes effect even if its process has given it up or died.
//! Invariants: a dead process sends and receives nothing. A paused process sends nothing new, and receives answers when
//! it resumes.

use super::facts::{self, Facts};
use super::judge::{Ending, Process};
use super::network::{Death, Network, Verdict};
use super::plan::{Fault, Oddity, Side};
use super::scene::HOME;
use axum::body::Body;
use bytes::Bytes;
use flipop::provider::http::{Broken, Transport};
use flipop_apiserver::{ApiError, ApiServer, Disconnected, View};
use flipop_cloud::{
    ActionOutcome, ActionPlan, Cloud, Fault as Played, Garble, Injection, Provider, Refusal, Target,
};
use futures::future::{BoxFuture, pending};
use futures::{FutureExt, StreamExt};
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::json;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// More than the operator reads of any answer (4 MiB).
const OVERSIZED_BYTES: usize = 5 << 20;

/// The path of one process. Clones share it.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) network: Network,
    pub(super) process: Process,
    pub(super) front: ApiServer,
    pub(super) cloud: Cloud,
}

/// No answer came, and none will.
struct Lost;

/// An answer from either side, as far as the network looks at it.
trait Answer: Send + 'static {
    fn ending(&self) -> Ending;
}

impl Answer for Response<Body> {
    fn ending(&self) -> Ending {
        let after = self.headers().get(http::header::RETRY_AFTER);
        let retry_after_s = after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        Ending { status: Some(self.status().as_u16()), retry_after_s }
    }
}

impl Answer for flipop_cloud::Reply {
    fn ending(&self) -> Ending {
        let after = self.headers.iter().find(|(name, _)| name == "retry-after");
        let retry_after_s = after.and_then(|(_, seconds)| seconds.parse().ok());
        Ending { status: Some(self.status), retry_after_s }
    }
}

/// A call that its process waits for. Dropping it closes the call.
struct Waiting<'a> {
    line: &'a Line,
    seq: u64,
    death: Option<Death>,
    ending: Option<Ending>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.line.network.ended(self.line.process, self.seq, self.death.take(), self.ending.take());
    }
}

impl Line {
    async fn until_awake(&self) {
        self.network.until_awake(self.process.replica).await;
    }

    fn cut(&self, side: Side) -> bool {
        let link = self.network.link(self.process.replica);
        link.is_none_or(|link| link.latest().cut(side))
    }

    /// Sends a call with the effect `effect`, and waits for the answer as long as the process does.
    async fn carry<R: Answer>(
        &self,
        facts: Facts,
        verdict: Verdict,
        effect: impl Future<Output = Result<R, Lost>> + Send + 'static,
    ) -> Result<R, Lost> {
        let mut waiting = Waiting { line: self, seq: verdict.seq, death: None, ending: None };
        let (sender, answer) = oneshot::channel();
        let (line, traveller) = (self.clone(), verdict.clone());
        self.network.tracker().spawn(async move {
            if let Some(answer) = line.travel(facts, traveller, effect).await {
                // The process may have given up the call.
                let _given_up = sender.send(answer);
            }
        });
        let Ok(answer) = answer.await else { return pending().await };
        waiting.ending = Some(match &answer {
            Ok(answer) => answer.ending(),
            Err(Lost) => Ending { status: None, retry_after_s: None },
        });
        waiting.death = verdict.death;
        answer
    }

    /// Carries a call there and its answer back. `None` if no answer ever comes.
    async fn travel<R: Answer>(
        &self,
        facts: Facts,
        verdict: Verdict,
        effect: impl Future<Output = Result<R, Lost>> + Send + 'static,
    ) -> Option<Result<R, Lost>> {
        let side = facts.side;
        if self.cut(side) {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(verdict.there_ms)).await;
        match verdict.fault {
            Some(Fault::HangBefore) => return None,
            Some(Fault::ResetBefore) => return Some(Err(Lost)),
            _ if self.cut(side) => return None,
            _ => {}
        }
        let mut answer = effect.await;
        let status = answer.as_ref().ok().and_then(|answer| answer.ending().status);
        self.network.took_effect(self.process, &verdict, &facts, status);
        match verdict.fault {
            Some(Fault::HangAfter) => return None,
            Some(Fault::ResetAfter) => answer = Err(Lost),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(verdict.back_ms)).await;
        if self.cut(side) || !self.network.lives(self.process) {
            return None;
        }
        self.until_awake().await;
        Some(answer)
    }

    /// The API server that answers. A list may get one that shows past state.
    fn front_for(&self, facts: &Facts, verdict: &Verdict) -> ApiServer {
        let facts::Kind::List { .. } = facts.kind else { return self.front.clone() };
        if let Some((revision, for_ms)) = verdict.older.filter(|(_, for_ms)| *for_ms > 0) {
            self.show_past(revision, for_ms);
        }
        let shown = self.network.link(self.process.replica).and_then(|link| link.latest().past);
        let Some(revision) = verdict.older.map(|(revision, _)| revision).or(shown) else {
            return self.front.clone();
        };
        let past = self.front.front();
        past.set_view(View::AllAt(revision));
        past
    }

    /// Makes lists and watches of this replica show a revision for a while.
    fn show_past(&self, revision: u64, for_ms: u64) {
        let (network, front, replica) = (self.network.clone(), self.front.clone(), self.process.replica);
        network.show_past(replica, Some(revision));
        front.set_view(View::CacheAt(revision));
        self.network.tracker().spawn(async move {
            tokio::time::sleep(Duration::from_millis(for_ms)).await;
            network.show_past(replica, None);
            front.set_view(View::Current);
        });
    }

    async fn kube(self, request: Request<kube::client::Body>) -> Result<Response<Body>, Disconnected> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(|_| Disconnected)?;
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let facts = facts::of_kube(&parts.method, path, query, &body);
        let watch = facts.kind == facts::Kind::Watch;
        let Some(verdict) = self.network.admit(self.process, &facts, &body) else { return pending().await };
        let (front, fault) = (self.front_for(&facts, &verdict), verdict.fault.clone());
        let effect = async move {
            if let Some(Fault::Refuse { status, retry_after_s }) = fault {
                return Ok(refusal(status, retry_after_s));
            }
            let answer = front.answer(&Request::from_parts(parts, body));
            Ok(match fault {
                Some(Fault::RefuseAfter { status }) => refusal(status, None),
                _ => answer,
            })
        };
        let answer = self.carry(facts, verdict, effect).await.map_err(|Lost| Disconnected)?;
        Ok(if watch { answer.map(|body| self.clone().frames(body)) } else { answer })
    }

    /// The frames of a watch, delivered while the path is open.
    fn frames(self, body: Body) -> Body {
        let frames =
            futures::stream::unfold((self, body.into_data_stream()), |(line, mut frames)| async move {
                let frame = frames.next().await?;
                let mut link = line.network.link(line.process.replica)?;
                let open = link.wait_for(|link| !link.kube_cut && !link.paused).await.is_ok();
                open.then_some((frame, (line, frames)))
            });
        Body::from_stream(frames)
    }

    async fn cloud(&self, mut request: reqwest::Request) -> Result<reqwest::Response, Broken> {
        self.until_awake().await;
        let body = match request.body_mut().take() {
            None => Bytes::new(),
            // As on an HTTP/1 connection, the head depends on whether there is a body.
            Some(body) if body.is_end_stream() => Bytes::new(),
            Some(body) => body.collect().await?.to_bytes(),
        };
        let request = incoming(&request, body.clone());
        let facts = facts::of_cloud(&request);
        let Some(verdict) = self.network.admit(self.process, &facts, &body) else { return pending().await };
        let (cloud, fault) = (self.cloud.clone(), verdict.fault.clone());
        let effect = async move {
            let injection = fault
                .as_ref()
                .and_then(injected)
                .map(|fault| cloud.inject(Injection::once(Target::any(), fault)));
            let answer = cloud.call(request).await.map_err(|flipop_cloud::ConnectionLost| Lost);
            if let Some(id) = injection {
                cloud.withdraw(id);
            }
            let answer = answer?;
            Ok(match fault {
                Some(Fault::RefuseAfter { status }) => flipop_cloud::Reply::empty(status),
                _ => answer,
            })
        };
        match self.carry(facts, verdict, effect).await {
            Ok(reply) => Ok(response(reply)),
            Err(Lost) => Err(Broken { connecting: false, cause: "the connection was reset".to_owned() }),
        }
    }
}

fn refusal(status: u16, retry_after_s: Option<u64>) -> Response<Body> {
    let reason = match status {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let error = ApiError::new(status, reason, "injected");
    let mut response = Response::new(Body::from(error.status().to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after_s {
        headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from(seconds));
    }
    response
}

/// Cloudflare's answer for a record whose type and content already exist.
fn record_exists() -> Played {
    let error = json!({ "code": 81_057, "message": "The record already exists." });
    let body = json!({ "success": false, "errors": [error], "messages": [], "result": null });
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Played::Answer { status: 400, headers, body: body.to_string().into_bytes() }
}

/// The part of a fault that the simulated provider itself plays.
fn injected(fault: &Fault) -> Option<Played> {
    let action = |outcome, duration_ms| Played::Action(ActionPlan { outcome, duration_ms });
    Some(match fault {
        Fault::Refuse { status: 429, retry_after_s } => Played::Throttle { retry_after_s: *retry_after_s },
        Fault::Refuse { status, .. } => Played::status(*status),
        Fault::Garble => Played::Garble(Garble::MalformedJson),
        Fault::Odd(oddity) => Played::Garble(match oddity {
            Oddity::Html => Garble::Html,
            Oddity::Empty => Garble::Empty,
            Oddity::Null => Garble::Null,
            Oddity::UnknownFields => Garble::UnknownFields,
            Oddity::Oversized => Garble::Oversized(OVERSIZED_BYTES),
            Oddity::WrongTotal => Garble::WrongTotal,
        }),
        Fault::RecordExists { identical: true } => Played::Refuse(Refusal::IdenticalRecord),
        Fault::RecordExists { identical: false } => record_exists(),
        Fault::ActionFails => action(ActionOutcome::Errored, None),
        Fault::ActionTakes { ms } => action(ActionOutcome::Completed, Some(*ms)),
        Fault::Pending => Played::Refuse(Refusal::PendingEventOnIp),
        Fault::QuotaReached => Played::Refuse(Refusal::Quota),
        // The way to the provider plays these.
        Fault::Delay { .. }
        | Fault::ResetBefore
        | Fault::ResetAfter
        | Fault::HangBefore
        | Fault::HangAfter
        | Fault::RefuseAfter { .. } => return None,
    })
}

fn incoming(request: &reqwest::Request, body: Bytes) -> flipop_cloud::Request {
    let url = request.url();
    let host = url.host_str().unwrap_or_default();
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    flipop_cloud::Request {
        provider: Provider::ALL.into_iter().find(|of| host.contains(of.name())).unwrap_or(HOME),
        method: request.method().clone(),
        path: url.path().to_owned(),
        query: url.query().unwrap_or_default().to_owned(),
        authorization: header("authorization"),
        content_type: header("content-type"),
        base: format!("{}://{host}", url.scheme()),
        body,
    }
}

fn response(reply: flipop_cloud::Reply) -> reqwest::Response {
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &reply.headers {
        let pair = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value));
        if let (Ok(name), Ok(value)) = pair {
            response.headers_mut().append(name, value);
        }
    }
    response.into()
}

impl Transport for Line {
    fn send(&self, request: reqwest::Request) -> BoxFuture<'_, Result<reqwest::Response, Broken>> {
        self.cloud(request).boxed()
    }
}

impl tower::Service<Request<kube::client::Body>> for Line {
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = BoxFuture<'static, Result<Response<Body>, Disconnected>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        self.clone().kube(request).boxed()
    }
}

/// Holds back the requests of a paused process, before the last check of its permit.
#[derive(Clone)]
pub(super) struct Held<S> {
    pub(super) line: Line,
    pub(super) inner: S,
}

impl<S> tower::Service<Request<kube::client::Body>> for Held<S>
where
    S: tower::Service<Request<kube::client::Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut held = self.clone();
        async move {
            held.line.until_awake().await;
            held.inner.call(request).await
        }
        .boxed()
    }
}
