//! Clients of the API server. Each has deadlines that suit its use. The client for requests also has the leadership
//! fence.
//!
//! kube's own retries are off everywhere: they would repeat POSTs and hide an outage.
//!
//! Each request gets the token of the pod's service account, or of a kubeconfig's `tokenFile`, as the file has it now.
//! kube decides by the wall clock when to read the file again. If a fast clock was set back, kube would keep a token
//! that was replaced long ago; a 401 would not make it look.
//!
//! Invariant: a request with a [`Permit`] in its extensions is sent only if that permit allows it. The permit is
//! checked before a connection is looked for, and again by the request's body when the connection is about to write it
//! (see `permit::gate`): credentials, a proxy and TLS may take seconds in between. The refusal is a
//! [`PermitEnded`], or has one among its causes.

use super::kubeconfig::Cluster;
pub use super::refusal::read_refusals;
pub use super::server_time::ServerTime;
use super::trouble::{Trouble, causes};
use crate::clock::Clock;
use crate::permit::gate::{Gate, GatedBody};
use crate::permit::{Permit, PermitEnded};
use crate::token::{Token, TokenError};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use std::sync::Arc;
use std::time::Duration;
use tower::filter::{AsyncFilter, FilterLayer};
use tower::util::{MapResponseLayer, option_layer};
use tower::{BoxError, Layer};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for an answer, connecting included. It is as long as a permit.
pub const CALL_TIMEOUT_MS: u64 = 10_000;

/// Longest silence while an answer is read, and longest stall of a write. As long as a permit.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence of a connection that carries a watch. A little more than the 55 s after which the watch itself gives
/// up: a second safeguard for stalled list bodies.
const WATCH_READ_TIMEOUT: Duration = Duration::from_secs(58);

/// Longest wait of the lease client for a connection and an answer. Three such calls fit into a permit.
const LEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Failed to create a client.
#[derive(Debug, thiserror::Error)]
#[error("failed to make a Kubernetes client: {0}")]
pub struct ClientError(String);

impl From<kube::Error> for ClientError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Auth(source) = &error else { return Self(causes(&error)) };
        Self(Trouble::from(source).message)
    }
}

/// The clients of the process. Create them on the runtime that uses them.
#[derive(Clone)]
pub struct Clients {
    /// For reads and for fenced writes.
    pub requests: Client,
    /// For watches only: its deadlines are too long for anything that must answer soon.
    pub watches: Client,
    /// The API server's clock, as both clients hear it.
    pub time: ServerTime,
}

impl Clients {
    /// Creates both.
    ///
    /// # Errors
    /// If the credentials or certificates are unusable.
    pub fn new(cluster: &Cluster, clock: Clock) -> Result<Self, ClientError> {
        let time = ServerTime::new(clock);
        Ok(Self { requests: requests(cluster, Some(&time))?, watches: watches(cluster, Some(&time))?, time })
    }
}

/// A client for reads and fenced writes.
///
/// # Errors
/// If the credentials or certificates are unusable.
pub fn requests(cluster: &Cluster, time: Option<&ServerTime>) -> Result<Client, ClientError> {
    let open = build(cluster, CONNECT_TIMEOUT, READ_TIMEOUT, time)?;
    let (namespace, valid_until) = (open.default_namespace().to_owned(), *open.valid_until());
    let service = tower::service_fn(move |request: Request<Body>| {
        let open = open.clone();
        async move { open.send(request).await.map_err(BoxError::from) }
    });
    Ok(Client::new(Fence.layer(service), namespace).with_valid_until(valid_until))
}

/// A client for watches.
///
/// # Errors
/// If the credentials or certificates are unusable.
pub fn watches(cluster: &Cluster, time: Option<&ServerTime>) -> Result<Client, ClientError> {
    build(cluster, CONNECT_TIMEOUT, WATCH_READ_TIMEOUT, time)
}

/// A client for the lease only.
///
/// # Errors
/// If the credentials or certificates are unusable.
pub fn lease(cluster: &Cluster) -> Result<Client, ClientError> {
    build(cluster, LEASE_TIMEOUT, LEASE_TIMEOUT, None)
}

fn with_deadlines(cluster: &Cluster, connect: Duration, read: Duration) -> Config {
    let mut config = cluster.config.clone();
    config.connect_timeout = Some(connect);
    config.read_timeout = Some(read);
    config.write_timeout = Some(read);
    // Without this, the idle time of a pooled connection would count, and a rare request would fail on a good
    // connection.
    config.reset_reader_on_write = true;
    config.default_retry = false;
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(concat!("flipop/", env!("CARGO_PKG_VERSION")))));
    config
}

fn build(
    cluster: &Cluster,
    connect: Duration,
    read: Duration,
    time: Option<&ServerTime>,
) -> Result<Client, ClientError> {
    let builder = ClientBuilder::try_from(with_deadlines(cluster, connect, read))?;
    let token = || cluster.token.clone();
    let (doubt, authorise) = (option_layer(token().map(doubt)), option_layer(token().map(authorise)));
    let time = option_layer(time.map(ServerTime::reading));
    Ok(builder
        .with_layer(&doubt)
        .with_layer(&authorise)
        .with_layer(&read_refusals())
        .with_layer(&time)
        .build())
}

/// Layers a service that refuses requests which their permit no longer allows.
#[derive(Debug, Clone, Copy)]
pub struct Fence;

impl<S> Layer<S> for Fence {
    type Service = AsyncFilter<S, fn(Request<Body>) -> BoxFuture<'static, Result<Request<Body>, BoxError>>>;

    fn layer(&self, inner: S) -> Self::Service {
        AsyncFilter::new(inner, |request| gated(request).boxed())
    }
}

/// The request, with a body that is handed out only under its permit, if it has one.
async fn gated(request: Request<Body>) -> Result<Request<Body>, BoxError> {
    let Some(permit) = request.extensions().get::<Permit>().cloned() else { return Ok(request) };
    permit.may_start()?;
    let (parts, body) = request.into_parts();
    let body = GatedBody::new(body.collect_bytes().await?, Gate::new(permit));
    Ok(Request::from_parts(parts, into_body(body).await?))
}

/// kube builds a custom body only from an answer, so the body briefly poses as one.
async fn into_body(body: GatedBody) -> kube::Result<Body> {
    let mut body = Some(body);
    let echo = tower::service_fn(move |_| ready(body.take().map(Response::new).ok_or(PermitEnded)));
    Client::new(echo, String::new()).send(Request::new(Body::empty())).await.map(Response::into_body)
}

/// Adds this token to each request. kube handles the credentials of a kubeconfig.
fn authorise(
    token: Arc<Token>,
) -> FilterLayer<impl Fn(Request<Body>) -> Result<Request<Body>, TokenError> + Clone> {
    FilterLayer::new(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, token.bearer()?.header);
        Ok(request)
    })
}

/// Doubts this token after a 401.
fn doubt<B>(token: Arc<Token>) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |answer: Response<B>| {
        if answer.status() == StatusCode::UNAUTHORIZED {
            token.doubt();
        }
        answer
    })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
