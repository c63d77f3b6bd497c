//! The events of a watch, as JSON or protobuf.
//!
//! `Api::watch` reads JSON only, and no event is too long for it. An event of a pod is then 9 KB of text, of which a
//! few fields count.
//!
//! Invariants: an event is read whole or not at all. A stream that breaks off within an event ends there, like a stream
//! that ends between two events.

use crate::kube::objects::protobuf::DecodeObject;
use crate::kube::protobuf::{self, MAX_OBJECT_BYTES};
use crate::kube::refusal;
use crate::kube::trouble::Trouble;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, Stream, StreamExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use kube::api::WatchParams;
use kube::core::{PartialObjectMeta, Request, Resource, ResourceExt as _, Status};
use kube::{Api, Error};
use prost::Message;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::io;

/// Longest chain of causes that is followed.
const MAX_CAUSES: usize = 16;

/// One event.
pub(super) enum Event<K> {
    /// The object exists, in this state.
    Seen(K),
    /// The object is gone. This was its last state.
    Gone(K),
    /// Nothing has changed up to this version.
    Bookmark(Option<String>),
    /// The watch cannot go on.
    Failed(Trouble),
}

/// Starts a watch, in protobuf if `decode` is given and the API server supports it.
pub(super) async fn open<K>(
    api: &Api<K>,
    params: &WatchParams,
    version: &str,
    decode: Option<DecodeObject<K>>,
) -> kube::Result<BoxStream<'static, kube::Result<Event<K>>>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut request = Request::new(api.resource_url()).watch(params, version).map_err(Error::BuildRequest)?;
    if decode.is_some() {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(protobuf::ACCEPT));
    }
    // The client cannot decompress a stream in which each event is compressed by itself.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let body = api.clone().into_client().request_stream(request).await?;
    Ok(events(body, decode).boxed())
}

/// The events in a body.
fn events<K>(
    body: impl AsyncBufRead + Send + 'static,
    decode: Option<DecodeObject<K>>,
) -> impl Stream<Item = kube::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Send,
{
    // Each event is written over the one before it, if nobody holds that any more.
    let memory = BytesMut::new();
    stream::try_unfold((Box::pin(body), memory), move |(mut body, mut memory)| async move {
        let event = match frame(&mut body, &mut memory).await {
            Ok(None) => return Ok(None),
            Ok(Some(Frame::Protobuf(bytes))) => {
                from_protobuf(bytes, decode.ok_or_else(|| undecodable("protobuf that nobody asked for"))?)?
            }
            Ok(Some(Frame::Json(line))) => from_json(&line)?,
            Err(error) if is_end(&error) => return Ok(None),
            // An unreadable event is a missed event. A resumed watch would meet it again.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(undecodable(error)),
            Err(error) => return Err(Error::ReadEvents(error)),
        };
        Ok(Some((event, (body, memory))))
    })
}

/// One event, not decoded.
enum Frame {
    Protobuf(Bytes),
    Json(Vec<u8>),
}

/// Reads the next event. In protobuf it begins with its length in four bytes, the first of which is 0 up to
/// [`MAX_OBJECT_BYTES`]. In JSON it is a line.
async fn frame(body: &mut (impl AsyncBufRead + Unpin), memory: &mut BytesMut) -> io::Result<Option<Frame>> {
    let Some(first) = body.fill_buf().await?.first().copied() else { return Ok(None) };
    if first == b'{' {
        let mut line = Vec::new();
        let most = u64::try_from(MAX_OBJECT_BYTES).unwrap_or(u64::MAX);
        body.take(most).read_until(b'\n', &mut line).await?;
        return match line.last() {
            Some(b'\n') => Ok(Some(Frame::Json(line))),
            _ if line.len() >= MAX_OBJECT_BYTES => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the event is too long"))
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        };
    }
    let mut length = [0; 4];
    body.read_exact(&mut length).await?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    protobuf::object(body, length, memory).await.map(|bytes| Some(Frame::Protobuf(bytes)))
}

/// Whether the connection ended, maybe within an event. hyper wraps the end of a body in errors of its own.
fn is_end(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    for _ in 0..MAX_CAUSES {
        let Some(error) = cause else { return false };
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof)
            || error.to_string().contains("unexpected EOF during chunk")
        {
            return true;
        }
        // The source of an `io::Error` leaves out the error that it wraps.
        cause = io
            .and_then(io::Error::get_ref)
            .map(|inner| -> &(dyn std::error::Error + 'static) { inner })
            .or_else(|| error.source());
    }
    false
}

/// An event, with its object as text.
#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl JsonEvent<'_> {
    fn decoded<K: DeserializeOwned>(&self) -> serde_json::Result<Event<K>> {
        let object = self.object.get();
        Ok(match &*self.kind {
            "ADDED" | "MODIFIED" => Event::Seen(serde_json::from_str(object)?),
            "DELETED" => Event::Gone(serde_json::from_str(object)?),
            "BOOKMARK" => {
                let bookmark: PartialObjectMeta = serde_json::from_str(object)?;
                Event::Bookmark(bookmark.metadata.resource_version)
            }
            "ERROR" => Event::Failed(Trouble::from(&serde_json::from_str::<Status>(object)?)),
            other => return Err(serde_json::Error::custom(format_args!("an event of type {other:?}"))),
        })
    }
}

fn from_json<K: DeserializeOwned>(line: &[u8]) -> kube::Result<Event<K>> {
    serde_json::from_slice(line).and_then(|event: JsonEvent<'_>| event.decoded()).map_err(|error| {
        match serde_json::from_slice::<Status>(line).ok().filter(|status| status.code > 0) {
            Some(status) => Error::Api(status.boxed()),
            None => Error::SerdeError(error),
        }
    })
}

fn undecodable(what: impl Display) -> Error {
    Error::SerdeError(serde_json::Error::custom(what))
}

fn from_protobuf<K: Resource>(frame: Bytes, decode: DecodeObject<K>) -> kube::Result<Event<K>> {
    let WireEvent { kind, object } = WireEvent::decode(frame).map_err(undecodable)?;
    let raw = object.unwrap_or_default().raw;
    if &kind[..] == b"ERROR" {
        let (status, seconds) =
            refusal::from_protobuf(&raw).ok_or_else(|| undecodable("an error without a Status"))?;
        let mut trouble = Trouble::from(&status);
        trouble.retry_after_ms = seconds.filter(|s| *s > 0).map(|s| u64::from(s) * 1_000);
        return Ok(Event::Failed(trouble));
    }
    let object = decode(&raw).ok_or_else(|| undecodable("an object that is no protobuf"))?;
    let object = object.map_err(undecodable)?;
    match &kind[..] {
        b"ADDED" | b"MODIFIED" => Ok(Event::Seen(object)),
        b"DELETED" => Ok(Event::Gone(object)),
        b"BOOKMARK" => Ok(Event::Bookmark(object.resource_version())),
        other => Err(undecodable(format_args!("an event of type {:?}", String::from_utf8_lossy(other)))),
    }
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.WatchEvent`.
#[derive(Clone, PartialEq, Message)]
struct WireEvent {
    #[prost(bytes = "bytes", tag = "1")]
    kind: Bytes,
    #[prost(message, optional, tag = "2")]
    object: Option<WireObject>,
}

/// `k8s.io.apimachinery.pkg.runtime.RawExtension`.
#[derive(Clone, PartialEq, Message)]
struct WireObject {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::NodeSlim;
    use crate::kube::objects::protobuf::NODES;
    use crate::kube::trouble::TroubleKind;
    use futures::TryStreamExt as _;
    use futures::io::BufReader;
    use serde_json::json;

    /// A `Node` with its name and version.
    #[derive(Clone, PartialEq, Message)]
    struct WireNode {
        #[prost(message, optional, tag = "1")]
        metadata: Option<WireMeta>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct WireMeta {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "6")]
        version: String,
    }

    fn in_protobuf(kind: &str, object: &impl Message) -> Vec<u8> {
        let object = Some(WireObject { raw: protobuf::body(object) });
        let event = WireEvent { kind: Bytes::from(kind.to_owned()), object }.encode_to_vec();
        [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
    }

    fn node(name: &str, version: &str) -> WireNode {
        WireNode { metadata: Some(WireMeta { name: name.to_owned(), version: version.to_owned() }) }
    }

    fn stream_in_protobuf() -> Vec<u8> {
        let gone = refusal::wire("too old", "Expired", 410, 7);
        [
            in_protobuf("ADDED", &node("a", "1")),
            in_protobuf("MODIFIED", &node("b", "2")),
            in_protobuf("DELETED", &node("a", "3")),
            in_protobuf("BOOKMARK", &node("", "4")),
            in_protobuf("ERROR", &gone),
        ]
        .concat()
    }

    fn stream_in_json() -> Vec<u8> {
        let line = |kind: &str, name: &str, version: &str| {
            json!({ "type": kind, "object": { "apiVersion": "v1", "kind": "Node",
                    "metadata": { "name": name, "uid": name, "resourceVersion": version } } })
        };
        let gone = json!({ "type": "ERROR", "object": {
            "kind": "Status", "message": "too old", "reason": "Expired", "code": 410,
            "details": { "retryAfterSeconds": 7 },
        } });
        let lines = [line("ADDED", "a", "1"), line("MODIFIED", "b", "2"), line("DELETED", "a", "3")];
        let lines = lines.into_iter().chain([line("BOOKMARK", "", "4"), gone]);
        lines.flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    /// The events in a body that arrives in pieces of this size, as text.
    async fn read(body: &[u8], piece: usize) -> Vec<String> {
        let body = BufReader::with_capacity(piece, futures::io::Cursor::new(body.to_vec()));
        let events = events(body, Some(NODES.object));
        let reported = events.map(|event| match event {
            Ok(Event::Seen(node)) => format!("seen {}", named(node)),
            Ok(Event::Gone(node)) => format!("gone {}", named(node)),
            Ok(Event::Bookmark(version)) => format!("bookmark {}", version.unwrap_or_default()),
            Ok(Event::Failed(Trouble { kind, message, retry_after_ms, .. })) => {
                format!("failed {kind:?} {message} {}", retry_after_ms.unwrap_or_default())
            }
            Err(error) => format!("error {error}"),
        });
        reported.collect().await
    }

    fn named(node: NodeSlim) -> String {
        let version = node.resource_version().unwrap_or_default();
        format!("{} {version}", node.into_facts().name)
    }

    const REPORTED: [&str; 5] =
        ["seen a 1", "seen b 2", "gone a 3", "bookmark 4", "failed Expired 410 too old 7000"];

    #[tokio::test]
    async fn events_are_the_same_in_both_forms_in_pieces_of_any_size() {
        for piece in [1, 3, 64, 4_096] {
            assert_eq!(read(&stream_in_protobuf(), piece).await, REPORTED, "pieces of {piece}");
            assert_eq!(read(&stream_in_json(), piece).await, REPORTED, "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_ends_after_its_last_whole_event() {
        for stream in [stream_in_protobuf(), stream_in_json()] {
            for end in 0..stream.len() {
                let reported = read(&stream[..end], 4_096).await;
                assert_eq!(reported, REPORTED[..reported.len()], "{end} of {}", stream.len());
                assert!(reported.len() < REPORTED.len());
            }
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error_and_ends_the_stream() {
        let odd = [in_protobuf("ADDED", &node("a", "1")), in_protobuf("RENAMED", &node("a", "2"))].concat();
        let reported = read(&odd, 4_096).await;
        assert_eq!(reported.len(), 2);
        assert!(reported[1].contains("RENAMED"), "{reported:?}");
        let long = u32::try_from(MAX_OBJECT_BYTES + 1).unwrap().to_be_bytes();
        let reported = read(&long, 4_096).await;
        assert!(reported.len() == 1 && reported[0].contains("too long"), "{reported:?}");
        let one =
            events::<NodeSlim>(BufReader::new(futures::io::Cursor::new(long.to_vec())), Some(NODES.object));
        let error = one.map_err(Trouble::from).try_collect::<Vec<_>>().await.err().unwrap();
        assert_eq!(error.kind, TroubleKind::Undecodable, "it is listed again");
        let reported = read(b"{\"type\": 1}\n{}\n", 4_096).await;
        assert_eq!(reported.len(), 1, "{reported:?}");
    }
}
