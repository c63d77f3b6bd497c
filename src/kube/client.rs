//! Clients of the API server. Each has deadlines that suit its use. The client for requests also has the leadership
//! fence.
//!
//! kube's own retries are off everywhere: they would repeat POSTs and hide an outage.

use super::kubeconfig::Cluster;
pub use super::layers::Fence;
use super::layers::{authorise, doubt};
pub use super::refusal::read_refusals;
pub use super::server_time::ServerTime;
use super::trouble::{Trouble, causes};
use crate::clock::Clock;
use http::Request;
use http::header::{HeaderValue, USER_AGENT};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use std::time::Duration;
use tower::util::option_layer;
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

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
