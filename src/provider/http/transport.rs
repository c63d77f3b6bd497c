//! How one request gets to the provider and its answer back: over the network, or, in a simulation, to a provider in
//! the same process.
//!
//! Everything that must hold for a call (permit, deadlines, bounds, rate limits, records) is outside of it, in
//! [`super::Api`], so that it holds for both.

use super::{CONNECT_TIMEOUT, root_cause};
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::{Request, Response, Url};
use std::time::Duration;

/// Idle connections are dropped before the usual idle limit of load balancers and NAT gateways, and kept long enough
/// for the next look at the account's addresses, 50 s later.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Idle connections worth keeping: more are needed only in bursts.
const MAX_IDLE: usize = 4;

/// There is no answer, or only the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// There was not even a connection: nothing was sent.
    pub connecting: bool,
    /// Why, in the words of the innermost error.
    pub cause: String,
}

impl From<reqwest::Error> for Broken {
    fn from(error: reqwest::Error) -> Self {
        Self { connecting: error.is_connect(), cause: root_cause(&error) }
    }
}

/// Sends requests. It neither repeats nor bounds anything. Dropping the future abandons the call.
///
/// The body is asked for as an HTTP/1 connection asks: `is_end_stream` before the head is written, then the data. A
/// body that answers with an error leaves nothing sent.
pub trait Transport: Send + Sync {
    /// One request and the head of its answer.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, Broken>>;
}

/// The network.
pub(super) struct Network(reqwest::Client);

impl Network {
    /// For requests to the host of `base`.
    pub(super) fn new(base: &Url) -> Result<Self, reqwest::Error> {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // With HTTP/2 all calls would share one connection: a path that goes dead would fail them all until TCP
            // notices, while here each call that times out takes only its own connection with it.
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE);
        let client = if base.scheme() == "https" {
            builder.https_only(true).build()
        } else {
            // Loopback: no proxy is on the way, and no CA certificates are needed.
            builder.no_proxy().tls_certs_only([]).build()
        };
        client.map(Self)
    }
}

impl Transport for Network {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, Broken>> {
        let sending = self.0.execute(request);
        async move { Ok(sending.await?) }.boxed()
    }
}
