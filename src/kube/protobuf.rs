//! The envelope of Kubernetes' protobuf encoding.
//!
//! Lists of nodes and pods are asked for in it ([`super::objects`]), and so a list's refusal may come in it too
//! ([`super::refusal`]); everything else is JSON. Field numbers are those of the API's `generated.proto` files, and an API
//! version never changes them. Unknown fields are skipped.

use bytes::Bytes;
use prost::{DecodeError, Message};

/// What we ask for where both are read: the API server takes the first that it can give.
pub const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// Each body begins so, and no JSON does.
const MAGIC: &[u8] = b"k8s\0";

/// `k8s.io.apimachinery.pkg.runtime.Unknown`.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// Decodes a body's message; `None` if the body is no protobuf.
pub(super) fn message<M: Message + Default>(body: &Bytes) -> Option<Result<M, DecodeError>> {
    let rest = body.starts_with(MAGIC).then(|| body.slice(MAGIC.len()..))?;
    Some(Envelope::decode(rest).and_then(|envelope| M::decode(envelope.raw)))
}

/// The body that holds a message.
#[cfg(test)]
pub(super) fn body(message: &impl Message) -> Bytes {
    let envelope = Envelope { raw: Bytes::from(message.encode_to_vec()) };
    Bytes::from([MAGIC, &envelope.encode_to_vec()].concat())
}
