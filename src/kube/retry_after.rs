//! How long the API server asks to wait, kept where it would be lost.
//!
//! It says so in the header `Retry-After`, and in the body only where that is a `Status`: what is refused before the API
//! itself (too many requests at a time, a server that shuts down, a proxy in front of it) is answered in plain text. kube
//! hands on the body of a refusal alone, so the seconds are put there. Nothing is repeated here, and nobody waits.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt as _, Either, Full, Limited};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// Longest refusal that is read: a `Status` that names every field of a large object fits.
const MAX_REFUSAL_BYTES: usize = 1 << 20;

/// Layers a [`RetryAfterKept`] service.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepRetryAfter;

impl<S> Layer<S> for KeepRetryAfter {
    type Service = RetryAfterKept<S>;

    fn layer(&self, inner: S) -> RetryAfterKept<S> {
        RetryAfterKept { inner }
    }
}

/// Puts `Retry-After` of a refusal into its body.
#[derive(Debug, Clone)]
pub(super) struct RetryAfterKept<S> {
    inner: S,
}

impl<S, B> Service<Request<Body>> for RetryAfterKept<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await?;
            let Some(seconds) = asked_to_wait(&answer) else { return Ok(answer.map(Either::Left)) };
            let (parts, body) = answer.into_parts();
            // What a refusal says is worth less than that it is one.
            let text = Limited::new(body, MAX_REFUSAL_BYTES).collect().await;
            let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let body = with_seconds(&text, parts.status, seconds)?;
            Ok(Response::from_parts(parts, Either::Right(Full::new(body))))
        }
        .boxed()
    }
}

/// The seconds that a refusal names; none if it names a date, which no API server does.
fn asked_to_wait<B>(answer: &Response<B>) -> Option<u32> {
    let refused = answer.status().is_client_error() || answer.status().is_server_error();
    let header = answer.headers().get(RETRY_AFTER).filter(|_| refused)?;
    header.to_str().ok()?.trim().parse().ok()
}

fn with_seconds(text: &[u8], code: http::StatusCode, seconds: u32) -> Result<Bytes, serde_json::Error> {
    let mut status = serde_json::from_slice::<Status>(text).unwrap_or_else(|_plain| {
        let reason = code.canonical_reason().unwrap_or_default();
        Status::failure(String::from_utf8_lossy(text).trim(), reason).with_code(code.as_u16())
    });
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    if details.retry_after_seconds == 0 {
        details.retry_after_seconds = seconds;
    }
    serde_json::to_vec(&status).map(Bytes::from)
}
