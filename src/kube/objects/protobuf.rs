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
    RawTaint,
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

/// `ListMeta`.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(bytes = "bytes", tag = "2")]
    version: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    more: Bytes,
}

/// `ObjectMeta` of a node.
#[derive(Clone, PartialEq, Message)]
struct Meta {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    version: Bytes,
    #[prost(message, optional, tag = "8")]
    created: Option<Instant>,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "11")]
    labels: Vec<Entry>,
    #[prost(message, repeated, tag = "12")]
    annotations: Vec<Entry>,
    #[prost(message, repeated, tag = "17")]
    managed_fields: Vec<ManagedFields>,
}

/// `ObjectMeta` of a pod or a Lease.
#[derive(Clone, PartialEq, Message)]
struct Identity {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    namespace: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    version: Bytes,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
}

/// The part of any object that holds its labels.
#[derive(Clone, PartialEq, Message)]
struct Outline {
    #[prost(message, optional, tag = "1")]
    metadata: Option<OutlineMeta>,
}

/// `ObjectMeta` of any object.
#[derive(Clone, PartialEq, Message)]
struct OutlineMeta {
    #[prost(message, repeated, tag = "11")]
    labels: Vec<Entry>,
}

/// `Time`. Only its presence counts here.
#[derive(Clone, PartialEq, Message)]
struct Time {}

/// One entry of a map of texts.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// `ManagedFieldsEntry`.
#[derive(Clone, PartialEq, Message)]
struct ManagedFields {
    #[prost(bytes = "bytes", tag = "1")]
    manager: Bytes,
    #[prost(message, optional, tag = "7")]
    fields: Option<Fields>,
}

/// `FieldsV1`. It holds JSON even in protobuf.
#[derive(Clone, PartialEq, Message)]
struct Fields {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// `Node`.
#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Meta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<NodeStatus>,
}

/// `NodeSpec`.
#[derive(Clone, PartialEq, Message)]
struct NodeSpec {
    #[prost(bytes = "bytes", tag = "3")]
    provider_id: Bytes,
    #[prost(message, repeated, tag = "5")]
    taints: Vec<Taint>,
}

/// `Taint`.
#[derive(Clone, PartialEq, Message)]
struct Taint {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    effect: Bytes,
}

/// `NodeStatus`.
#[derive(Clone, PartialEq, Message)]
struct NodeStatus {
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<Pair>,
    #[prost(message, repeated, tag = "5")]
    addresses: Vec<Pair>,
}

/// The type and status of a `NodeCondition` or `PodCondition`, the type and address of a `NodeAddress`.
#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(bytes = "bytes", tag = "1")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
    /// `lastHeartbeatTime` of the condition of a node.
    #[prost(message, optional, tag = "3")]
    heartbeat: Option<Instant>,
    /// `lastTransitionTime` of a condition.
    #[prost(message, optional, tag = "4")]
    since: Option<Instant>,
}

/// `Time`. Only the whole seconds count.
#[derive(Clone, PartialEq, Message)]
struct Instant {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// `Pod`.
#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Identity>,
    #[prost(message, optional, tag = "2")]
    spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<PodStatus>,
}

/// `PodSpec`.
#[derive(Clone, PartialEq, Message)]
struct PodSpec {
    #[prost(bytes = "bytes", tag = "10")]
    node_name: Bytes,
}

/// `PodStatus`.
#[derive(Clone, PartialEq, Message)]
struct PodStatus {
    #[prost(bytes = "bytes", tag = "1")]
    phase: Bytes,
    #[prost(message, repeated, tag = "2")]
    conditions: Vec<Pair>,
}

/// `Lease`.
#[derive(Clone, PartialEq, Message)]
struct Lease {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Identity>,
    #[prost(message, optional, tag = "2")]
    spec: Option<LeaseSpec>,
}

/// `LeaseSpec`.
#[derive(Clone, PartialEq, Message)]
struct LeaseSpec {
    #[prost(int32, optional, tag = "2")]
    duration_s: Option<i32>,
    #[prost(message, optional, tag = "4")]
    renewed: Option<MicroTime>,
}

/// `MicroTime`.
#[derive(Clone, PartialEq, Message)]
struct MicroTime {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanoseconds: i32,
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
            creation_timestamp: second(meta.created),
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
fn second(time: Option<Instant>) -> Option<i64> {
    time.map(|time| time.seconds).filter(|second| *second != 0)
}

impl From<Pair> for RawCondition {
    fn from(Pair { kind, value, heartbeat, since }: Pair) -> Self {
        Self {
            kind: text(&kind),
            status: text(&value),
            heartbeat_s: second(heartbeat),
            since_s: second(since),
        }
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
        let microseconds = |MicroTime { seconds, nanoseconds }: MicroTime| {
            seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanoseconds / 1_000))
        };
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: RawLeaseSpec {
                duration_s: duration_s.map(i64::from),
                renewed_us: renewed.map(microseconds),
            },
        }
    }
}

#[cfg(test)]
#[path = "protobuf_tests.rs"]
mod tests;
