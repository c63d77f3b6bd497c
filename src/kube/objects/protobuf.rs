//! Nodes, pods and Leases in protobuf, which costs the API server and us a fraction of what JSON costs.
//!
//! Owns the messages of `k8s.io/api/core/v1` and `k8s.io/api/coordination/v1`, as far as decisions need them. [`super`]
//! decides what their fields mean, for JSON as well. Texts are bytes here: the API server passes on what a client
//! stored, and one invalid byte in one object must not hide all the others.

use super::labelled::Labelled;
use super::lease::{LeaseSlim, RawLease, RawLeaseSpec};
use super::{
    FIELD_MANAGER, NodeSlim, PodSlim, RawAddress, RawAnnotations, RawCondition, RawIdentity, RawLabels,
    RawManagedFields, RawMeta, RawNode, RawNodeSpec, RawNodeStatus, RawPod, RawPodSpec, RawPodStatus,
    RawTaint, RawTime,
};
use crate::kube::protobuf;
pub use crate::kube::protobuf::ACCEPT;
use bytes::Bytes;
use flipop_core::model::node_labels::LabelKey;
use flipop_core::model::{REGION_LABEL, RESERVED_IP_ANNOTATION};
use prost::{DecodeError, Message};
use serde::de::IgnoredAny;

/// Decodes one object, with its version, from an event of a watch. `None` if the body is not protobuf.
pub type DecodeObject<K> = fn(&Bytes) -> Option<Result<K, DecodeError>>;

/// Decodes one object of a list.
pub type DecodeItem<K> = fn(Bytes) -> Result<K, DecodeError>;

/// Decoders for objects that the API server also offers in protobuf.
#[derive(Debug)]
pub struct Wire<K: Clone> {
    /// Decodes one of them, from an event of a watch.
    pub object: DecodeObject<K>,
    /// Decodes one of them, from a list.
    pub item: DecodeItem<K>,
}

/// Nodes.
pub const NODES: Wire<NodeSlim> = wire::<Node, RawNode, NodeSlim>();

/// Pods.
pub const PODS: Wire<PodSlim> = wire::<Pod, RawPod, PodSlim>();

/// Leases.
pub const LEASES: Wire<LeaseSlim> = wire::<Lease, RawLease, LeaseSlim>();

/// Nodes with all their labels.
pub const LABELLED_NODES: Wire<Labelled<NodeSlim>> = labelled::<Node, RawNode, NodeSlim>();

/// Pods with all their labels.
pub const LABELLED_PODS: Wire<Labelled<PodSlim>> = labelled::<Pod, RawPod, PodSlim>();

/// Decodes messages `M`, whose fields mean what those of `R` mean.
const fn wire<M, R, K>() -> Wire<K>
where
    M: Message + Default,
    R: From<M>,
    K: From<R> + Clone,
{
    Wire {
        object: |body| Some(protobuf::message::<M>(body)?.map(|object| R::from(object).into())),
        item: |bytes| M::decode(bytes).map(|object| R::from(object).into()),
    }
}

/// The same, with the labels. They are read separately, so that other watches skip them.
const fn labelled<M, R, K>() -> Wire<Labelled<K>>
where
    M: Message + Default,
    R: From<M>,
    K: From<R> + Clone,
{
    Wire {
        object: |body| {
            let (object, outline) = (protobuf::message::<M>(body)?, protobuf::message(body)?);
            Some(object.and_then(|object| Ok(with_labels(R::from(object).into(), outline?))))
        },
        item: |bytes| {
            let outline = Outline::decode(bytes.clone())?;
            M::decode(bytes).map(|object| with_labels(R::from(object).into(), outline))
        },
    }
}

fn with_labels<K>(object: K, Outline { metadata }: Outline) -> Labelled<K> {
    let labels = metadata.unwrap_or_default().labels;
    Labelled { object, labels: labels.iter().map(|entry| (text(&entry.key), text(&entry.value))).collect() }
}

/// The field of a list that holds its metadata.
pub const METADATA: u64 = 1;

/// The field of a list that holds an object.
pub const ITEM: u64 = 2;

/// Decodes the version of a list, and the token of its next page.
///
/// # Errors
/// If it is no such message.
pub fn list_metadata(bytes: Bytes) -> Result<(Option<String>, Option<String>), DecodeError> {
    let Metadata { version, more } = Metadata::decode(bytes)?;
    Ok((present(&version), present(&more)))
}

/// Declares messages in the language of protobuf, which Kubernetes' `generated.proto` files are written in.
macro_rules! messages {
    ($($(#[$about:meta])* message $name:ident { $($fields:tt)* })*) => {
        $(messages!(@ [$(#[$about])* struct $name] {} $($fields)*);)*
    };
    (@ [$($head:tt)*] { $($done:tt)* }) => {
        #[derive(Clone, PartialEq, Message)]
        $($head)* { $($done)* }
    };
    (@ $head:tt { $($done:tt)* } bytes $field:ident = $tag:tt; $($rest:tt)*) => {
        messages!(@ $head { $($done)* #[prost(bytes = "bytes", tag = $tag)] $field: Bytes, } $($rest)*);
    };
    (@ $head:tt { $($done:tt)* } int32 $field:ident = $tag:tt; $($rest:tt)*) => {
        messages!(@ $head { $($done)* #[prost(int32, tag = $tag)] $field: i32, } $($rest)*);
    };
    (@ $head:tt { $($done:tt)* } int64 $field:ident = $tag:tt; $($rest:tt)*) => {
        messages!(@ $head { $($done)* #[prost(int64, tag = $tag)] $field: i64, } $($rest)*);
    };
    (@ $head:tt { $($done:tt)* } optional int32 $field:ident = $tag:tt; $($rest:tt)*) => {
        messages!(@ $head { $($done)* #[prost(int32, optional, tag = $tag)] $field: Option<i32>, } $($rest)*);
    };
    (@ $head:tt { $($done:tt)* } repeated $type:ident $field:ident = $tag:tt; $($rest:tt)*) => {
        messages!(@ $head { $($done)* #[prost(message, repeated, tag = $tag)] $field: Vec<$type>, } $($rest)*);
    };
    (@ $head:tt { $($done:tt)* } $type:ident $field:ident = $tag:tt; $($rest:tt)*) => {
        messages!(@ $head { $($done)* #[prost(message, optional, tag = $tag)] $field: Option<$type>, } $($rest)*);
    };
}

messages! {
    /// `ListMeta`.
    message Metadata {
        bytes version = 2;
        bytes more = 3;
    }

    /// `ObjectMeta` of a node.
    message Meta {
        bytes name = 1;
        bytes uid = 5;
        bytes version = 6;
        Instant created = 8;
        Time deletion_timestamp = 9;
        repeated Entry labels = 11;
        repeated Entry annotations = 12;
        repeated ManagedFields managed_fields = 17;
    }

    /// `ObjectMeta` of a pod or a Lease.
    message Identity {
        bytes name = 1;
        bytes namespace = 3;
        bytes version = 6;
        Time deletion_timestamp = 9;
    }

    /// The part of any object that holds its labels.
    message Outline { OutlineMeta metadata = 1; }

    /// `ObjectMeta` of any object.
    message OutlineMeta { repeated Entry labels = 11; }

    /// `Time`. Only its presence counts here.
    message Time {}

    /// One entry of a map of texts.
    message Entry {
        bytes key = 1;
        bytes value = 2;
    }

    /// `ManagedFieldsEntry`.
    message ManagedFields {
        bytes manager = 1;
        Fields fields = 7;
    }

    /// `FieldsV1`. It holds JSON even in protobuf.
    message Fields { bytes raw = 1; }

    /// `Node`.
    message Node {
        Meta metadata = 1;
        NodeSpec spec = 2;
        NodeStatus status = 3;
    }

    /// `NodeSpec`.
    message NodeSpec {
        bytes provider_id = 3;
        repeated Taint taints = 5;
    }

    /// `Taint`.
    message Taint {
        bytes key = 1;
        bytes value = 2;
        bytes effect = 3;
    }

    /// `NodeStatus`.
    message NodeStatus {
        repeated Pair conditions = 4;
        repeated Pair addresses = 5;
    }

    /// The type and status of a `NodeCondition` or `PodCondition`, the type and address of a `NodeAddress`.
    message Pair {
        bytes kind = 1;
        bytes value = 2;
        // `lastHeartbeatTime` of the condition of a node.
        Instant heartbeat = 3;
        // `lastTransitionTime` of a condition.
        Instant since = 4;
    }

    /// `Time`. Only the whole seconds count.
    message Instant { int64 seconds = 1; }

    /// `Pod`.
    message Pod {
        Identity metadata = 1;
        PodSpec spec = 2;
        PodStatus status = 3;
    }

    /// `PodSpec`.
    message PodSpec { bytes node_name = 10; }

    /// `PodStatus`.
    message PodStatus {
        bytes phase = 1;
        repeated Pair conditions = 2;
    }

    /// `Lease`.
    message Lease {
        Identity metadata = 1;
        LeaseSpec spec = 2;
    }

    /// `LeaseSpec`.
    message LeaseSpec {
        optional int32 duration_s = 2;
        MicroTime renewed = 4;
    }

    /// `MicroTime`.
    message MicroTime {
        int64 seconds = 1;
        int32 nanoseconds = 2;
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Kubernetes writes an absent text as an empty one.
fn present(bytes: &[u8]) -> Option<String> {
    Some(text(bytes)).filter(|text| !text.is_empty())
}

fn value_of(entries: &[Entry], key: &str) -> Option<String> {
    entries.iter().find(|entry| entry.key == key).map(|entry| text(&entry.value))
}

impl From<Meta> for RawMeta {
    fn from(meta: Meta) -> Self {
        let ours = |entry: &&ManagedFields| entry.manager == FIELD_MANAGER;
        Self {
            name: text(&meta.name),
            uid: text(&meta.uid),
            resource_version: present(&meta.version),
            creation_timestamp: time(meta.created),
            deletion_timestamp: meta.deletion_timestamp.map(|Time {}| IgnoredAny),
            labels: RawLabels {
                region: value_of(&meta.labels, REGION_LABEL),
                active: value_of(&meta.labels, LabelKey::Active.as_str()),
                ip: value_of(&meta.labels, LabelKey::Ip.as_str()),
                legacy_ip: value_of(&meta.labels, LabelKey::LegacyIp.as_str()),
                legacy_enabled: value_of(&meta.labels, LabelKey::LegacyEnabled.as_str()),
            },
            annotations: RawAnnotations { reserved_ip: value_of(&meta.annotations, RESERVED_IP_ANNOTATION) },
            managed_fields: meta.managed_fields.iter().filter(ours).map(RawManagedFields::from).collect(),
        }
    }
}

impl From<Identity> for RawIdentity {
    fn from(Identity { name, namespace, version, deletion_timestamp }: Identity) -> Self {
        Self {
            name: text(&name),
            namespace: text(&namespace),
            resource_version: present(&version),
            deletion_timestamp: deletion_timestamp.map(|Time {}| IgnoredAny),
        }
    }
}

impl From<&ManagedFields> for RawManagedFields {
    fn from(entry: &ManagedFields) -> Self {
        let fields = entry.fields.as_ref().and_then(|fields| serde_json::from_slice(&fields.raw).ok());
        Self { manager: text(&entry.manager), fields: fields.unwrap_or_default() }
    }
}

/// A time that was never set is an empty message in protobuf, and null in JSON.
fn time(time: Option<Instant>) -> RawTime {
    let set = time.filter(|time| time.seconds != 0);
    RawTime(set.and_then(|time| jiff::Timestamp::from_second(time.seconds).ok()))
}

impl From<Pair> for RawCondition {
    fn from(Pair { kind, value, heartbeat, since }: Pair) -> Self {
        Self { kind: text(&kind), status: text(&value), heartbeat: time(heartbeat), since: time(since) }
    }
}

impl From<Pair> for RawAddress {
    fn from(Pair { kind, value, .. }: Pair) -> Self {
        Self { kind: text(&kind), address: text(&value) }
    }
}

impl From<Taint> for RawTaint {
    fn from(Taint { key, value, effect }: Taint) -> Self {
        Self { key: text(&key), value: text(&value), effect: text(&effect) }
    }
}

fn all<A, B: From<A>>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(B::from).collect()
}

/// The conditions of type `Ready`. The others decide nothing.
fn ready(conditions: Vec<Pair>) -> Vec<RawCondition> {
    conditions
        .into_iter()
        .filter(|condition| &condition.kind[..] == b"Ready")
        .map(RawCondition::from)
        .collect()
}

impl From<Node> for RawNode {
    fn from(Node { metadata, spec, status }: Node) -> Self {
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: RawNodeSpec { provider_id: text(&spec.provider_id), taints: all(spec.taints) },
            status: RawNodeStatus { conditions: ready(status.conditions), addresses: all(status.addresses) },
        }
    }
}

impl From<Pod> for RawPod {
    fn from(Pod { metadata, spec, status }: Pod) -> Self {
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: RawPodSpec { node_name: text(&spec.node_name) },
            status: RawPodStatus { phase: text(&status.phase), conditions: ready(status.conditions) },
        }
    }
}

impl From<Lease> for RawLease {
    fn from(Lease { metadata, spec }: Lease) -> Self {
        let LeaseSpec { duration_s, renewed } = spec.unwrap_or_default();
        let time = |time: MicroTime| jiff::Timestamp::new(time.seconds, time.nanoseconds).ok();
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: RawLeaseSpec {
                duration_s: duration_s.map(i64::from),
                renewed: RawTime(renewed.and_then(time)),
            },
        }
    }
}

#[cfg(test)]
#[path = "protobuf_tests.rs"]
mod tests;
