//! The two entries: a tower service for clients in this process, and HTTP/1.1 on a socket.

use super::error::ApiError;
use super::hooks::Disconnected;
use super::{ApiServer, forward, output};
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::DATE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::json;
use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Largest request body, as in apiserver (3 MiB).
const BODY_BYTES_MAX: usize = 3 << 20;

impl tower::Service<Request<kube::client::Body>> for ApiServer {
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = BoxFuture<'static, Result<Response<Body>, Disconnected>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(|_| Disconnected)?;
            Ok(server.answer(&Request::from_parts(parts, body)))
        })
    }
}

impl ApiServer {
    /// An in-process client of this front, with `namespace` as its default.
    pub fn client(&self, namespace: &str) -> kube::Client {
        kube::Client::new(self.clone(), namespace)
    }

    /// Serves this front on a socket until `stop` is cancelled, then closes open connections.
    ///
    /// # Errors
    /// If the socket stops accepting connections.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => {
                    let (stream, _) = accepted?;
                    connections.spawn(self.clone().connection(stream));
                }
            }
        }
        connections.shutdown().await;
        Ok(())
    }

    async fn connection(self, stream: TcpStream) {
        // Answers are small and awaited one by one. Waiting to fill a segment would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "failed to switch off Nagle's algorithm");
        }
        let forwarded = Mutex::new(None);
        let service = service_fn(|request| self.answer_socket(request, &forwarded).map(Ok::<_, Infallible>));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(hyper_util::rt::TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the simulated API server ended");
        }
        let forwarded = forwarded.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((upgrade, port)) = forwarded
            && let Ok(stream) = forward::agreed(upgrade).await
            && let Err(error) = forward::carry(stream, port).await
        {
            tracing::debug!(%error, port, "a forwarded port was closed");
        }
    }

    /// `forwarded` is set by a request that turns its connection into a forwarded port.
    async fn answer_socket(
        &self,
        mut request: Request<Incoming>,
        forwarded: &Mutex<Option<(OnUpgrade, u16)>>,
    ) -> Response<Body> {
        let upgrade = hyper::upgrade::on(&mut request);
        let port = request.uri().query().and_then(forward::asked);
        let (parts, body) = request.into_parts();
        let answer = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => self.answer(&Request::from_parts(parts, body.to_bytes())),
            Err(_) => output::error_response(&ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {BODY_BYTES_MAX}"),
            )),
        };
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            *forwarded.lock().unwrap_or_else(PoisonError::into_inner) = port.map(|port| (upgrade, port));
        }
        answer
    }

    /// Answers one request, unless this front refuses it. The cluster's clock dates the answer.
    pub fn answer(&self, request: &Request<Bytes>) -> Response<Body> {
        let mut response = self.handle(request);
        if let Some(date) = date(self.now()) {
            response.headers_mut().insert(DATE, date);
        }
        response
    }
}

/// An HTTP date, in whole seconds.
fn date(now: Timestamp) -> Option<HeaderValue> {
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()?;
    HeaderValue::try_from(text).ok()
}

/// A kubeconfig for a front that is served at `url`.
pub fn kubeconfig_yaml(url: &str, namespace: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "sandbox", "cluster": { "server": url } }],
        "users": [{ "name": "sandbox", "user": {} }],
        "contexts": [{ "name": "sandbox",
                       "context": { "cluster": "sandbox", "user": "sandbox", "namespace": namespace } }],
        "current-context": "sandbox",
    });
    // JSON is valid YAML, and readable when indented.
    serde_json::to_string_pretty(&config).unwrap_or_default()
}
