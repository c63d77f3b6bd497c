//! The envelope of Kubernetes' protobuf encoding.
//!
//! Nodes, pods and Leases are requested in protobuf ([`super::objects`]), so a refusal of such a request may be
//! protobuf too ([`super::refusal`]). Everything else is JSON. Field numbers are those of the API's `generated.proto`
//! files; an API version never changes them. Unknown fields are skipped.

use bytes::{Bytes, BytesMut};
use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _};
use prost::{DecodeError, Message};
use std::io;

/// The `Accept` header where both forms are read. The API server takes the first one that it supports.
pub const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// The same for a list in which only the metadata of each object is wanted. It has the same fields as the whole list.
pub(super) const ACCEPT_METADATA: &str = concat!(
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, ",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
);

/// Every protobuf body starts with this. No JSON does.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// Longest object. Far larger than the largest one that etcd accepts, even as JSON.
pub(super) const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Longest body: far larger than a page of the largest pods, and less than the Deployment's memory.
pub(super) const MAX_BODY_BYTES: usize = 96 << 20;

/// The field of [`Envelope`] that holds the message.
const RAW: u64 = 2;

/// The form of a field that holds bytes, a text or a message.
const BYTES: u64 = 2;

/// `k8s.io.apimachinery.pkg.runtime.Unknown`.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// Decodes the message in a body. `None` if the body is not protobuf.
pub(super) fn message<M: Message + Default>(body: &Bytes) -> Option<Result<M, DecodeError>> {
    let rest = body.starts_with(MAGIC).then(|| body.slice(MAGIC.len()..))?;
    Some(Envelope::decode(rest).and_then(|envelope| M::decode(envelope.raw)))
}

/// Reads an object of this length. It is written over the one before it, if nobody holds that any more.
pub(super) async fn object(
    body: &mut (impl AsyncRead + Unpin),
    length: usize,
    memory: &mut BytesMut,
) -> io::Result<Bytes> {
    if length > MAX_OBJECT_BYTES {
        return Err(invalid("the object is too long"));
    }
    memory.resize(length, 0);
    body.read_exact(memory).await?;
    Ok(memory.split().freeze())
}

/// Passes on the fields of the message in a body, one after the other: their numbers and contents. So a list of many
/// objects is never in memory as a whole.
pub(super) async fn fields(
    body: &mut (impl AsyncBufRead + Unpin),
    mut each: impl FnMut(u64, Bytes) -> io::Result<()>,
) -> io::Result<()> {
    let mut magic = [0; MAGIC.len()];
    body.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(invalid("the body is no protobuf of Kubernetes"));
    }
    let (mut memory, mut found, mut room) = (BytesMut::new(), false, MAX_BODY_BYTES);
    while let Some((number, length)) = field(body).await? {
        room = room.checked_sub(length.max(1)).ok_or_else(|| invalid("the body is too long"))?;
        if number != RAW {
            object(body, length, &mut memory).await?;
            continue;
        }
        if std::mem::replace(&mut found, true) {
            return Err(invalid("the body holds two messages"));
        }
        let mut message = (&mut *body).take(u64::try_from(length).unwrap_or(u64::MAX));
        while let Some((number, length)) = field(&mut message).await? {
            let content = object(&mut message, length, &mut memory).await?;
            each(number, content)?;
        }
        if message.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if found { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Reads the beginning of the next field: its number, and the length of its content.
async fn field(body: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<(u64, usize)>> {
    if body.fill_buf().await?.is_empty() {
        return Ok(None);
    }
    let key = varint(body).await?;
    let (number, form) = (key >> 3, key & 7);
    let length = match form {
        0 => varint(body).await.map(|_value| 0)?,
        1 => 8,
        BYTES => varint(body).await?,
        5 => 4,
        _ => return Err(invalid("a field of an unknown form")),
    };
    // The fields that are read here are the first ones of their messages. The others are skipped, whatever they are.
    if number == 0 || u32::try_from(key).is_err() || (number <= RAW && form != BYTES) {
        return Err(invalid("a field of the wrong form"));
    }
    Ok(Some((number, usize::try_from(length).unwrap_or(usize::MAX))))
}

/// Reads a number of variable length: seven bits in each byte, the lowest first.
async fn varint(body: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let mut byte = [0];
        body.read_exact(&mut byte).await?;
        let bits = u64::from(byte[0] & 0x7f);
        number |= bits << shift;
        if number >> shift != bits {
            break;
        }
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(invalid("a number is too long"))
}

/// An answer that makes no sense.
pub(super) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A body that holds `message`.
#[cfg(test)]
pub(super) fn body(message: &impl Message) -> Bytes {
    let envelope = Envelope { raw: Bytes::from(message.encode_to_vec()) };
    Bytes::from([MAGIC, &envelope.encode_to_vec()].concat())
}
