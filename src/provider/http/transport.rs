//! Carries one request to the provider and its answer back: over the network, or in a simulation to a provider in the
//! same process.
//!
//! TLS is one implementation for the whole process. Its roots come from the system: from the files that `SSL_CERT_FILE`
//! and `SSL_CERT_DIR` name, else from the distribution's usual places. An image without a CA bundle needs one of the
//! two variables or `/etc/ssl/certs/ca-certificates.crt`.
//!
//! The rules for every call (permit, deadlines, limits, rate limits, records) are in [`super::Api`], so that they hold
//! for both.

use super::{CONNECT_TIMEOUT, root_cause};
use crate::proxy::Proxy;
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::{Request, Response, Url};
use std::time::Duration;

/// Idle connections are closed before the usual idle limit of load balancers and NAT gateways. They last until the next
/// read of the account's addresses, 50 s later.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Most idle connections kept. More are needed only in bursts.
const MAX_IDLE: usize = 4;

/// There is no answer, or only its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The connection failed, so nothing was sent.
    pub connecting: bool,
    /// The cause, from the innermost error.
    pub cause: String,
}

impl From<reqwest::Error> for Broken {
    fn from(error: reqwest::Error) -> Self {
        Self { connecting: error.is_connect(), cause: root_cause(&error) }
    }
}

/// Sends requests. It repeats nothing and sets no limits. Dropping the future abandons the call.
///
/// The body must be polled as an HTTP/1 connection does: `is_end_stream` before the head is written, then the data. If
/// the body returns an error, nothing is sent.
pub trait Transport: Send + Sync {
    /// Sends one request. Returns the head of its answer.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, Broken>>;
}

/// The network.
pub(super) struct Network(reqwest::Client);

impl Network {
    /// A transport to the host of `base`.
    pub(super) fn new(base: &Url, proxy: Option<&Proxy>) -> Result<Self, reqwest::Error> {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // With HTTP/2, all calls would share one connection, and a dead path would fail them all until TCP notices.
            // Here a call that times out takes only its own connection with it.
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            // reqwest reads no variables.
            .no_proxy();
        let builder = match proxy {
            Some(proxy) => builder.proxy(proxy.for_reqwest()?),
            None => builder,
        };
        let client = if base.scheme() == "https" {
            builder.https_only(true).build()
        } else {
            // On loopback no CA certificates are needed.
            builder.tls_certs_only([]).build()
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

/// Makes ring the TLS provider of this process. Call it first in `main` and in tests that use TLS. More than one call
/// is harmless. Without it reqwest panics, and kube and reqwest would not agree on a provider.
pub fn install_tls() {
    let installed = rustls::crypto::ring::default_provider().install_default();
    if installed.is_err() {
        tracing::trace!("a TLS provider is installed already");
    }
}
