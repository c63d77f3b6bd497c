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
const MAGIC: &[u8] = b"k8s\0";

/// Longest object. Far larger than the largest one that etcd accepts, even as JSON.
pub(super) const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Longest body: far larger than a page of the largest pods, and less than the Deployment's memory.
pub(super) const MAX_BODY_BYTES: usize = 96 << 20;

/// The field of [`Envelope`] that holds the message.
const RAW: u64 = 2;

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
    mut each: impl FnMut(u64, Bytes) -> Result<(), DecodeError>,
) -> io::Result<()> {
    let mut magic = [0; MAGIC.len()];
    body.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(invalid("the body is no protobuf of Kubernetes"));
    }
    let (mut memory, mut found) = (BytesMut::new(), false);
    while let Some((number, length)) = field(body).await? {
        if number != RAW {
            object(body, length, &mut memory).await?;
            continue;
        }
        if length > MAX_BODY_BYTES {
            return Err(invalid("the body is too long"));
        }
        found = true;
        let mut message = (&mut *body).take(u64::try_from(length).unwrap_or(u64::MAX));
        while let Some((number, length)) = field(&mut message).await? {
            let content = object(&mut message, length, &mut memory).await?;
            each(number, content).map_err(invalid)?;
        }
        if message.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if found { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Reads the number of the next field, and the length of its content. A number counts as content without a length.
async fn field(body: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<(u64, usize)>> {
    if body.fill_buf().await?.is_empty() {
        return Ok(None);
    }
    let key = varint(body).await?;
    let length = match key & 7 {
        0 => varint(body).await.map(|_number| 0)?,
        1 => 8,
        2 => varint(body).await?,
        5 => 4,
        _ => return Err(invalid("a field of an unknown form")),
    };
    Ok(Some((key >> 3, usize::try_from(length).unwrap_or(usize::MAX))))
}

/// Reads a number of variable length: seven bits in each byte, the lowest first.
async fn varint(body: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let mut byte = [0];
        body.read_exact(&mut byte).await?;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(invalid("a number is too long"))
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A body that holds `message`.
#[cfg(test)]
pub(super) fn body(message: &impl Message) -> Bytes {
    let envelope = Envelope { raw: Bytes::from(message.encode_to_vec()) };
    Bytes::from([MAGIC, &envelope.encode_to_vec()].concat())
}
