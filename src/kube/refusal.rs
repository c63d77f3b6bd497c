//! Turns every refusal of the API server into the one form that kube reads.
//!
//! kube passes on only the body of a refusal, and only if it is JSON. It takes any object for a `Status`. But a request
//! for protobuf gets a protobuf `Status`. A refusal from in front of the API itself (too many requests at a time, a
//! server shutting down, a proxy) is plain text or other JSON, with the seconds to wait in the header `Retry-After`.
//! Here each becomes a `Status` with the answer's code. Nothing is repeated, and nothing waits.

use super::protobuf;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt as _, Either, Full, Limited};
use kube::core::Status;
use kube::core::response::StatusDetails;
use prost::Message;
use tower::BoxError;
use tower::util::AndThenLayer;

/// Longest refusal that is read. A `Status` that names every field of a large object fits.
const MAX_REFUSAL_BYTES: usize = 1 << 20;

/// An answer under way whose body will be a JSON `Status` if it is a refusal.
type Reading<B> = BoxFuture<'static, Result<Response<Either<B, Full<Bytes>>>, BoxError>>;

/// Layers a service to replace the body of each refusal with a JSON `Status` that holds everything the refusal says.
pub fn read_refusals<B>() -> AndThenLayer<fn(Response<B>) -> Reading<B>>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    AndThenLayer::new(|answer| readable(answer).boxed())
}

async fn readable<B>(answer: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if !is_refusal(&answer) {
        return Ok(answer.map(Either::Left));
    }
    let seconds = asked_to_wait(&answer);
    let (parts, body) = answer.into_parts();
    // That it is a refusal matters more than its text.
    let text = Limited::new(body, MAX_REFUSAL_BYTES).collect().await;
    let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = status(&text, parts.status, seconds)?;
    Ok(Response::from_parts(parts, Either::Right(Full::new(body))))
}

fn is_refusal<B>(answer: &Response<B>) -> bool {
    answer.status().is_client_error() || answer.status().is_server_error()
}

/// The seconds in the header. `None` if it holds a date, which no API server sends.
fn asked_to_wait<B>(answer: &Response<B>) -> Option<u32> {
    answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// The refusal as JSON.
fn status(body: &Bytes, code: StatusCode, seconds: Option<u32>) -> Result<Bytes, serde_json::Error> {
    let (mut status, said) =
        from_protobuf(body).or_else(|| Some((from_json(body)?, None))).unwrap_or_else(|| {
            let reason = code.canonical_reason().unwrap_or_default();
            (Status::failure(String::from_utf8_lossy(body).trim(), reason), None)
        });
    if !(400..600).contains(&status.code) {
        status.code = code.as_u16();
    }
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    if details.retry_after_seconds == 0 {
        details.retry_after_seconds = said.filter(|seconds| *seconds > 0).or(seconds).unwrap_or_default();
    }
    serde_json::to_vec(&status).map(Bytes::from)
}

/// A `Status` in protobuf, with the seconds that it asks to wait. `None` if the body is no such thing.
pub(super) fn from_protobuf(body: &Bytes) -> Option<(Status, Option<u32>)> {
    let wire: WireStatus = protobuf::message(body)?.ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = Status::failure(&text(&wire.message), &text(&wire.reason));
    let status = status.with_code(u16::try_from(wire.code).unwrap_or_default());
    Some((status, wire.details.and_then(|details| u32::try_from(details.retry_after_seconds).ok())))
}

/// Any object parses as a `Status`, because no field is required. `None` if it says nothing; then the body is quoted as
/// it came.
fn from_json(body: &Bytes) -> Option<Status> {
    let status: Status = serde_json::from_slice(body).ok()?;
    Some(status).filter(|status| !status.message.is_empty() || !status.reason.is_empty())
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.Status`, limited to the fields that are read.
#[derive(Clone, PartialEq, Message)]
struct WireStatus {
    #[prost(bytes = "bytes", tag = "3")]
    message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    reason: Bytes,
    #[prost(message, optional, tag = "5")]
    details: Option<WireDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

/// Such a refusal.
#[cfg(test)]
pub(super) fn wire(message: &str, reason: &str, code: i32, seconds: i32) -> impl Message + use<> {
    let text = |text: &str| Bytes::from(text.to_owned());
    let details = Some(WireDetails { retry_after_seconds: seconds });
    WireStatus { message: text(message), reason: text(reason), details, code }
}

/// `StatusDetails`.
#[derive(Clone, PartialEq, Message)]
struct WireDetails {
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}
