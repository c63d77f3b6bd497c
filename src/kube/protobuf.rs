//! The envelope of Kubernetes' protobuf encoding.
//!
//! Nodes, pods and Leases are requested in protobuf ([`super::objects`]), so a refusal of such a request may be
//! protobuf too ([`super::refusal`]). Everything else is JSON. Field numbers are those of the API's `generated.proto`
//! files; an API version never changes them. Unknown fields are skipped.

use bytes::Bytes;
use prost::{DecodeError, Message};

/// The `Accept` header where both forms are read. The API server takes the first one that it supports.
pub const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// Every protobuf body starts with this. No JSON does.
const MAGIC: &[u8] = b"k8s\0";

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

/// A body that holds `message`.
#[cfg(test)]
pub(super) fn body(message: &impl Message) -> Bytes {
    let envelope = Envelope { raw: Bytes::from(message.encode_to_vec()) };
    Bytes::from([MAGIC, &envelope.encode_to_vec()].concat())
}
