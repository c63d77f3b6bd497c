//! JSON and protobuf decode to the same facts.

use super::*;
use crate::kube::objects::labelled::Labels;
use flipop_core::model::NodeFacts;
use kube::Resource as _;
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

fn instant(item: &Value, field: &str) -> Option<Instant> {
    let time = item[field].as_str()?.parse::<jiff::Timestamp>().unwrap();
    Some(Instant { seconds: time.as_second() })
}

fn pairs(list: &Value, value: &str) -> Vec<Pair> {
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
        uid: bytes(&meta["uid"]),
        version: bytes(&meta["resourceVersion"]),
        created: instant(meta, "creationTimestamp"),
        deletion_timestamp: meta["deletionTimestamp"].as_str().map(|_| Time {}),
        labels: entries(&meta["labels"]),
        annotations: entries(&meta["annotations"]),
        managed_fields: items(&meta["managedFields"], |entry| ManagedFields {
            manager: bytes(&entry["manager"]),
            fields: Some(Fields { raw: Bytes::from(entry["fieldsV1"].to_string()) }),
        }),
    }
}

fn identity(meta: &Value) -> Identity {
    Identity {
        name: bytes(&meta["name"]),
        namespace: bytes(&meta["namespace"]),
        version: bytes(&meta["resourceVersion"]),
        deletion_timestamp: meta["deletionTimestamp"].as_str().map(|_| Time {}),
    }
}

fn item<K: Clone>(wire: &Wire<K>, message: &impl Message) -> K {
    (wire.item)(message.encode_to_vec().into()).unwrap()
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

fn facts(node: &Node) -> NodeFacts {
    item(&NODES, node).into_facts()
}

/// A node with a value in every field that is read.
fn full() -> Value {
    json!({
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "6",
            "creationTimestamp": "2023-01-01T00:00:00Z", "deletionTimestamp": "2024-01-01T00:00:00Z",
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
        assert_eq!(facts(&node_of(&value)), of_json);
        let of_event = (NODES.object)(&protobuf::body(&node_of(&value))).unwrap().unwrap();
        assert_eq!(of_event.into_facts(), of_json);
    }
    let read = facts(&node_of(&full()));
    assert!(read.ready.is_ready() && read.deleting && read.annotation_ours, "{read:?}");
    assert_eq!((read.taints.len(), read.created_at_s), (2, Some(1_672_531_200)));
}

#[test]
fn the_labels_of_an_object_are_read_beside_its_facts_in_either_form() {
    for labels in [json!({"app": "x", "tier": "", REGION_LABEL: "nyc3"}), Value::Null] {
        let mut value = full();
        value["metadata"]["labels"] = labels.clone();
        let expected: Labels = serde_json::from_value(labels).unwrap_or_default();
        let node = node_of(&value);
        let of_event = (LABELLED_NODES.object)(&protobuf::body(&node)).unwrap().unwrap();
        let of_json = serde_json::from_str(&value.to_string()).unwrap();
        for read in [item(&LABELLED_NODES, &node), of_event, of_json] {
            assert_eq!(read.labels, expected);
            assert_eq!(read.object.into_facts(), facts(&node));
        }
    }
    assert!(item(&LABELLED_PODS, &Pod::default()).labels.is_empty());
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
            "status": {"phase": phase, "conditions": [
                {"type": "Initialized", "status": "Unknown"}, {"type": "Ready", "status": ready},
            ]},
        });
        let pod = Pod {
            metadata: Some(identity(&value["metadata"])),
            spec: Some(PodSpec { node_name: Bytes::from("a") }),
            status: Some(PodStatus {
                phase: Bytes::from(phase),
                conditions: pairs(&value["status"]["conditions"], "status"),
            }),
        };
        let of_json = serde_json::from_value::<PodSlim>(value).unwrap().into_facts();
        assert_eq!(item(&PODS, &pod).into_facts(), of_json);
    }
}

#[test]
fn a_lease_means_the_same_as_in_json() {
    let times = [(None, None), (Some("2026-01-01T00:00:00.000001Z"), Some((1_767_225_600, 1_999)))];
    for (duration_s, (text, time)) in
        [None, Some(0), Some(20)].into_iter().flat_map(|d| times.map(|t| (d, t)))
    {
        let value = json!({
            "metadata": {"namespace": "kube-node-lease", "name": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"holderIdentity": "n", "leaseDurationSeconds": duration_s, "renewTime": text},
        });
        let renewed = time.map(|(seconds, nanoseconds)| MicroTime { seconds, nanoseconds });
        let spec = Some(LeaseSpec { duration_s, renewed });
        let of_wire = Lease { metadata: Some(identity(&value["metadata"])), spec };
        let of_wire = item(&LEASES, &of_wire);
        let of_json = serde_json::from_value::<LeaseSlim>(value).unwrap();
        assert_eq!(of_wire.meta(), of_json.meta());
        assert_eq!(of_wire.into_facts(), of_json.into_facts());
    }
}

#[test]
fn one_odd_byte_hides_nothing_else_of_a_node() {
    let mut odd = node_of(&full());
    odd.metadata.as_mut().unwrap().annotations[0].value = Bytes::from_static(b"\xff");
    odd.metadata.as_mut().unwrap().managed_fields[1].fields =
        Some(Fields { raw: Bytes::from_static(b"{\xff") });
    let odd = facts(&odd);
    assert_eq!((odd.annotation.as_deref(), odd.annotation_ours), (Some("\u{fffd}"), false));
    assert_eq!(
        odd,
        NodeFacts { annotation: odd.annotation.clone(), annotation_ours: false, ..facts(&node_of(&full())) }
    );
    assert!(!facts(&Node::default()).ready.is_ready());
}

#[test]
fn a_list_has_its_version_and_its_next_page() {
    let read = |version: &'static str, more: &'static str| {
        let metadata = Metadata { version: Bytes::from(version), more: Bytes::from(more) };
        list_metadata(metadata.encode_to_vec().into()).unwrap()
    };
    assert_eq!(read("5", "next"), (Some("5".to_owned()), Some("next".to_owned())));
    assert_eq!(read("", ""), (None, None));
}

#[test]
fn what_is_cut_or_no_protobuf_is_no_object() {
    assert!((NODES.object)(&Bytes::from("{}")).is_none() && (PODS.object)(&Bytes::new()).is_none());
    let whole = protobuf::body(&node_of(&full()));
    for end in 5..whole.len() {
        assert!((NODES.object)(&whole.slice(..end)).unwrap().is_err(), "{end} of {}", whole.len());
    }
}
