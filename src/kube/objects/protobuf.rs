//! Nodes and pods in protobuf, which cost the API server and us a fraction of what they cost in JSON.
//!
//! Owns the messages of `k8s.io/api/core/v1`, as far as decisions need them. What their fields mean is decided where JSON
//! is read too ([`super`]). Texts are bytes here: the API server hands on what some client stored, and one odd byte in one
//! object must not hide all the others.

use super::{
    FIELD_MANAGER, NodeSlim, PodSlim, RawAddress, RawAnnotations, RawCondition, RawLabels, RawManagedFields,
    RawMeta, RawNode, RawNodeSpec, RawNodeStatus, RawPod, RawPodSpec, RawPodStatus, RawTaint,
};
use crate::kube::protobuf;
pub use crate::kube::protobuf::ACCEPT;
use bytes::Bytes;
use flipop_core::model::facts::{REGION_LABEL, RESERVED_IP_ANNOTATION};
use flipop_core::model::node_labels::LabelKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::{ObjectList, TypeMeta};
use prost::{DecodeError, Message};
use serde::de::IgnoredAny;
use std::fmt::Debug;

/// Decodes a list; `None` if the body is no protobuf.
pub type DecodeList<K> = fn(&Bytes) -> Option<Result<ObjectList<K>, DecodeError>>;

/// Decodes one object, with its version; `None` if the body is no protobuf.
pub type DecodeObject<K> = fn(&Bytes) -> Option<Result<K, DecodeError>>;

/// How objects are read that the API server also has in protobuf.
#[derive(Debug)]
pub struct Wire<K: Clone> {
    /// A list of them.
    pub list: DecodeList<K>,
    /// One of them, in an event of a watch.
    pub object: DecodeObject<K>,
}

/// Nodes.
pub const NODES: Wire<NodeSlim> = Wire { list: nodes, object: node };

/// Pods.
pub const PODS: Wire<PodSlim> = Wire { list: pods, object: pod };

/// Decodes a list of nodes; `None` if the body is no protobuf.
#[must_use]
pub fn nodes(body: &Bytes) -> Option<Result<ObjectList<NodeSlim>, DecodeError>> {
    let decoded = protobuf::message::<List<Node>>(body)?;
    Some(decoded.map(|List { metadata, items }| {
        object_list("NodeList", metadata, items.into_iter().map(|node| RawNode::from(node).into()).collect())
    }))
}

/// Decodes a list of pods; `None` if the body is no protobuf.
#[must_use]
pub fn pods(body: &Bytes) -> Option<Result<ObjectList<PodSlim>, DecodeError>> {
    let decoded = protobuf::message::<List<Pod>>(body)?;
    Some(decoded.map(|List { metadata, items }| {
        object_list("PodList", metadata, items.into_iter().map(|pod| RawPod::from(pod).into()).collect())
    }))
}

fn node(body: &Bytes) -> Option<Result<NodeSlim, DecodeError>> {
    Some(protobuf::message::<Node>(body)?.map(|node| RawNode::from(node).into()))
}

fn pod(body: &Bytes) -> Option<Result<PodSlim, DecodeError>> {
    Some(protobuf::message::<Pod>(body)?.map(|pod| RawPod::from(pod).into()))
}

fn object_list<K: Clone>(kind: &str, metadata: Option<Metadata>, items: Vec<K>) -> ObjectList<K> {
    let Metadata { version, more } = metadata.unwrap_or_default();
    ObjectList {
        types: TypeMeta { api_version: "v1".to_owned(), kind: kind.to_owned() },
        metadata: ListMeta {
            resource_version: present(&version),
            continue_: present(&more),
            ..ListMeta::default()
        },
        items,
    }
}

/// `NodeList` and `PodList`.
#[derive(Clone, PartialEq, Message)]
struct List<T: Message + Default + Debug> {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<T>,
}

/// `ListMeta`.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(bytes = "bytes", tag = "2")]
    version: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    more: Bytes,
}

/// `ObjectMeta`.
#[derive(Clone, PartialEq, Message)]
struct Meta {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    namespace: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    version: Bytes,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "11")]
    labels: Vec<Entry>,
    #[prost(message, repeated, tag = "12")]
    annotations: Vec<Entry>,
    #[prost(message, repeated, tag = "17")]
    managed_fields: Vec<ManagedFields>,
}

/// `Time`, of which only its presence counts.
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

/// `FieldsV1`: JSON, in protobuf too.
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

/// `Time`, of which whole seconds count.
#[derive(Clone, PartialEq, Message)]
struct Instant {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// `Pod`.
#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Meta>,
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
            namespace: text(&meta.namespace),
            uid: text(&meta.uid),
            resource_version: present(&meta.version),
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

impl From<&ManagedFields> for RawManagedFields {
    fn from(entry: &ManagedFields) -> Self {
        let fields = entry.fields.as_ref().and_then(|fields| serde_json::from_slice(&fields.raw).ok());
        Self { manager: text(&entry.manager), fields: fields.unwrap_or_default() }
    }
}

impl From<Pair> for RawCondition {
    fn from(Pair { kind, value, heartbeat, since }: Pair) -> Self {
        // A time that was never set is an empty message here, and null in JSON.
        let second = |time: Option<Instant>| time.map(|time| time.seconds).filter(|second| *second != 0);
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

impl From<Node> for RawNode {
    fn from(Node { metadata, spec, status }: Node) -> Self {
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: RawNodeSpec { provider_id: text(&spec.provider_id), taints: all(spec.taints) },
            status: RawNodeStatus { conditions: all(status.conditions), addresses: all(status.addresses) },
        }
    }
}

impl From<Pod> for RawPod {
    fn from(Pod { metadata, spec, status }: Pod) -> Self {
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: RawPodSpec { node_name: text(&spec.node_name) },
            status: RawPodStatus { phase: text(&status.phase), conditions: all(status.conditions) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipop_core::model::facts::{NodeFacts, PodFacts};
    use serde_json::{Value, json};

    fn bytes(value: &Value) -> Bytes {
        Bytes::from(value.as_str().unwrap_or_default().to_owned())
    }

    fn entries(map: &Value) -> Vec<Entry> {
        let entry =
            |(key, value): (&String, &Value)| Entry { key: Bytes::from(key.clone()), value: bytes(value) };
        map.as_object().into_iter().flatten().map(entry).collect()
    }

    fn items<T>(list: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
        list.as_array().into_iter().flatten().map(item).collect()
    }

    fn pairs(list: &Value, value: &str) -> Vec<Pair> {
        let instant = |item: &Value, field: &str| {
            let time = item[field].as_str()?.parse::<jiff::Timestamp>().unwrap();
            Some(Instant { seconds: time.as_second() })
        };
        items(list, |item| Pair {
            kind: bytes(&item["type"]),
            value: bytes(&item[value]),
            heartbeat: instant(item, "lastHeartbeatTime"),
            since: instant(item, "lastTransitionTime"),
        })
    }

    fn meta(meta: &Value) -> Meta {
        Meta {
            name: bytes(&meta["name"]),
            namespace: bytes(&meta["namespace"]),
            uid: bytes(&meta["uid"]),
            version: bytes(&meta["resourceVersion"]),
            deletion_timestamp: meta["deletionTimestamp"].as_str().map(|_| Time {}),
            labels: entries(&meta["labels"]),
            annotations: entries(&meta["annotations"]),
            managed_fields: items(&meta["managedFields"], |entry| ManagedFields {
                manager: bytes(&entry["manager"]),
                fields: Some(Fields { raw: Bytes::from(entry["fieldsV1"].to_string()) }),
            }),
        }
    }

    fn list<T: Message + Default + Debug>(items: Vec<T>) -> Bytes {
        let metadata = Metadata { version: Bytes::from("7"), more: Bytes::new() };
        protobuf::body(&List { metadata: Some(metadata), items })
    }

    fn node_of(value: &Value) -> Node {
        Node {
            metadata: Some(meta(&value["metadata"])),
            spec: Some(NodeSpec {
                provider_id: bytes(&value["spec"]["providerID"]),
                taints: items(&value["spec"]["taints"], |taint| Taint {
                    key: bytes(&taint["key"]),
                    value: bytes(&taint["value"]),
                    effect: bytes(&taint["effect"]),
                }),
            }),
            status: Some(NodeStatus {
                conditions: pairs(&value["status"]["conditions"], "status"),
                addresses: pairs(&value["status"]["addresses"], "address"),
            }),
        }
    }

    fn facts(list: &Bytes) -> Vec<NodeFacts> {
        nodes(list).unwrap().unwrap().items.into_iter().map(NodeSlim::into_facts).collect()
    }

    fn pod_facts(list: &Bytes) -> Vec<PodFacts> {
        pods(list).unwrap().unwrap().items.into_iter().map(PodSlim::into_facts).collect()
    }

    /// A node with everything that is read of it.
    fn full() -> Value {
        json!({
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "6", "deletionTimestamp": "2024-01-01T00:00:00Z",
                "labels": {"other": "x", REGION_LABEL: "nyc3"},
                "annotations": {"other": "x", RESERVED_IP_ANNOTATION: "192.0.2.1"},
                "managedFields": [
                    {"manager": "kubelet", "fieldsV1": {"f:status": {"f:images": {}}}},
                    {"manager": FIELD_MANAGER, "fieldsV1": {"f:metadata": {"f:annotations": {
                        format!("f:{RESERVED_IP_ANNOTATION}"): {}}}}},
                ],
            },
            "spec": {
                "providerID": "digitalocean://11",
                "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "l", "effect": "NoSchedule"}],
            },
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-26T15:20:00Z",
                     "lastTransitionTime": "2026-11-26T15:00:00Z"},
                ],
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "2001:db8::1"},
                    {"type": "ExternalIP", "address": "198.51.100.1"},
                ],
            },
        })
    }

    #[test]
    fn a_node_means_the_same_as_in_json() {
        let mut other = full();
        other["metadata"]["managedFields"][1]["manager"] = json!("kubectl");
        other["metadata"]["deletionTimestamp"] = Value::Null;
        other["status"]["conditions"][1]["status"] = json!("Unknown");
        for value in [full(), other] {
            let of_json = serde_json::from_value::<NodeSlim>(value.clone()).unwrap().into_facts();
            assert_eq!(facts(&list(vec![node_of(&value)])), [of_json]);
        }
        let all = facts(&list(vec![node_of(&full())]));
        assert!(
            all[0].ready.is_ready() && all[0].deleting && all[0].annotation_ours && all[0].taints.len() == 2,
            "{all:?}"
        );
    }

    #[test]
    fn a_pod_means_the_same_as_in_json() {
        for (phase, ready, deletion) in [
            ("Running", "True", None),
            ("Running", "False", None),
            ("Running", "True", Some("x")),
            ("Failed", "True", None),
        ] {
            let value = json!({
                "metadata": {"namespace": "n", "name": "p", "uid": "u", "deletionTimestamp": deletion},
                "spec": {"nodeName": "a"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
            });
            let pod = Pod {
                metadata: Some(meta(&value["metadata"])),
                spec: Some(PodSpec { node_name: Bytes::from("a") }),
                status: Some(PodStatus {
                    phase: Bytes::from(phase),
                    conditions: pairs(&value["status"]["conditions"], "status"),
                }),
            };
            let of_json = serde_json::from_value::<PodSlim>(value).unwrap().into_facts();
            assert_eq!(pod_facts(&list(vec![pod])), [of_json]);
        }
    }

    #[test]
    fn one_odd_byte_hides_no_other_node() {
        let mut odd = node_of(&full());
        odd.metadata.as_mut().unwrap().annotations[0].value = Bytes::from_static(b"\xff");
        odd.metadata.as_mut().unwrap().managed_fields[1].fields =
            Some(Fields { raw: Bytes::from_static(b"{\xff") });
        let all = facts(&list(vec![odd, node_of(&full()), Node::default()]));
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].annotation.as_deref(), Some("\u{fffd}"));
        assert!(!all[0].annotation_ours && all[1].annotation_ours && !all[2].ready.is_ready());
    }

    #[test]
    fn a_list_has_its_version_and_its_next_page() {
        let page = |version: &'static str, more: &'static str| {
            let metadata = Metadata { version: Bytes::from(version), more: Bytes::from(more) };
            let body = protobuf::body(&List::<Pod> { metadata: Some(metadata), items: Vec::new() });
            let metadata = pods(&body).unwrap().unwrap().metadata;
            (metadata.resource_version, metadata.continue_)
        };
        assert_eq!(page("5", "next"), (Some("5".to_owned()), Some("next".to_owned())));
        assert_eq!(page("", ""), (None, None));
    }

    #[test]
    fn what_is_cut_or_no_protobuf_is_no_list() {
        assert!(nodes(&Bytes::from("{}")).is_none() && pods(&Bytes::new()).is_none());
        let whole = list(vec![node_of(&full())]);
        for end in 5..whole.len() {
            assert!(nodes(&whole.slice(..end)).unwrap().is_err(), "{end} of {}", whole.len());
        }
    }
}
