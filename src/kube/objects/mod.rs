//! Nodes, pods and Leases, decoded only as far as decisions need them.
//!
//! Everything else that kubelets write (images, volumes, other conditions, other managers' fields) is skipped while the
//! answer is read, and never stored. Odd values do not fail the decoding: a value that cannot be understood counts as
//! absent.

pub mod labelled;
mod labels;
pub mod lease;
pub mod own_node;
pub mod protobuf;

use crate::provider;
use flipop_core::model::{Address, NodeFacts, PodFacts, Readiness, Taint, Uid, region_slug};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use labels::{RawLabelFields, RawLabels, labels_of};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Field manager of all our writes. The Go operator uses the same.
pub const FIELD_MANAGER: &str = "flipop";

/// The field manager of the annotations that commands write.
pub const COMMAND_FIELD_MANAGER: &str = "flipop-cli";

/// Declares an object as the API server sends it, reduced to its facts.
macro_rules! slim {
    ($(#[$about:meta])* $name:ident, from $raw:literal to $facts:ident, $scope:ident, $names:tt) => {
        $(#[$about])*
        #[derive(Debug, Clone, serde::Deserialize)]
        #[serde(from = $raw)]
        pub struct $name {
            metadata: ObjectMeta,
            facts: $facts,
        }

        impl $name {
            /// The facts that decisions need.
            pub fn into_facts(self) -> $facts {
                self.facts
            }
        }

        crate::api::resource::resource!($name, $scope, $names);
    };
}
use slim;

slim! {
    /// A node.
    NodeSlim, from "RawNode" to NodeFacts, ClusterResourceScope, ["Node", "", "v1", "nodes"]
}

slim! {
    /// A pod.
    PodSlim, from "RawPod" to PodFacts, NamespaceResourceScope, ["Pod", "", "v1", "pods"]
}

/// Declares the parts of an object that are read from JSON. What is absent or null is the default.
macro_rules! raw {
    ($($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $type:ty),+ $(,)? })*) => {$(
        $(#[$about])*
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        pub(in crate::kube::objects) struct $name {
            $(
                $(#[$of])*
                #[serde(deserialize_with = "crate::api::lenient::or_default")]
                pub(in crate::kube::objects) $field: $type,
            )+
        }
    )*};
}
use raw;

raw! {
    /// The metadata of a pod or a Lease. The rest decides nothing, and pods are by far the most numerous objects.
    RawIdentity {
        name: String,
        namespace: String,
        resource_version: Option<String>,
        deletion_timestamp: Option<IgnoredAny>,
    }

    /// The metadata of a node.
    RawMeta {
        name: String,
        uid: String,
        resource_version: Option<String>,
        creation_timestamp: RawTime,
        deletion_timestamp: Option<IgnoredAny>,
        labels: RawLabels,
        annotations: RawAnnotations,
        managed_fields: Vec<RawManagedFields>,
    }

    // The literal repeats `RESERVED_IP_ANNOTATION`: serde attributes take no constants. A test compares.
    RawAnnotations {
        #[serde(rename = "flipop.digitalocean.com/ipv4-reserved-ip")]
        reserved_ip: Option<String>,
    }

    RawManagedFields {
        manager: String,
        #[serde(rename = "fieldsV1")]
        fields: RawFields,
    }

    RawFields {
        #[serde(rename = "f:metadata")]
        metadata: RawMetadataFields,
    }

    RawMetadataFields {
        #[serde(rename = "f:annotations")]
        annotations: RawAnnotationFields,
        #[serde(rename = "f:labels")]
        labels: RawLabelFields,
    }

    RawAnnotationFields {
        #[serde(rename = "f:flipop.digitalocean.com/ipv4-reserved-ip")]
        reserved_ip: Option<IgnoredAny>,
    }

    RawCondition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
        #[serde(rename = "lastTransitionTime")]
        since: RawTime,
        #[serde(rename = "lastHeartbeatTime")]
        heartbeat: RawTime,
    }

    RawNode { metadata: RawMeta, spec: RawNodeSpec, status: RawNodeStatus }

    RawNodeSpec {
        #[serde(rename = "providerID")]
        provider_id: String,
        taints: Vec<RawTaint>,
    }

    RawTaint { key: String, value: String, effect: String }

    RawNodeStatus { conditions: Vec<RawCondition>, addresses: Vec<RawAddress> }

    RawAddress {
        #[serde(rename = "type")]
        kind: String,
        address: String,
    }

    RawPod { metadata: RawIdentity, spec: RawPodSpec, status: RawPodStatus }

    RawPodSpec { node_name: String }

    RawPodStatus { phase: String, conditions: Vec<RawCondition> }
}

impl RawManagedFields {
    fn holds_the_annotation_as_ours(&self) -> bool {
        self.manager == FIELD_MANAGER && self.fields.metadata.annotations.reserved_ip.is_some()
    }
}

/// A time. An unreadable one counts as absent.
#[derive(Clone, Copy, Default)]
struct RawTime(Option<jiff::Timestamp>);

impl RawTime {
    /// In seconds since 1970.
    fn as_second(self) -> Option<i64> {
        self.0.map(jiff::Timestamp::as_second)
    }
}

impl<'de> Deserialize<'de> for RawTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(Self(text.and_then(|text| text.parse().ok())))
    }
}

fn ready_of(conditions: &[RawCondition]) -> Option<&RawCondition> {
    conditions.iter().find(|condition| condition.kind == "Ready")
}

fn readiness(conditions: &[RawCondition]) -> Readiness {
    match ready_of(conditions).map(|condition| condition.status.as_str()) {
        Some("True") => Readiness::Ready,
        Some("Unknown") => Readiness::Unknown,
        Some(_) | None => Readiness::NotReady,
    }
}

fn addresses_of(kind: &str, addresses: &[RawAddress]) -> Vec<Address> {
    let of_kind = addresses.iter().filter(|address| address.kind == kind);
    let mut found: Vec<Address> = of_kind.filter_map(|address| Address::v4(&address.address)).collect();
    // A node has one address of a kind, and a vector begins with room for four.
    found.shrink_to_fit();
    found
}

/// The metadata that a watch needs: its place in the stream of events.
fn slim_metadata(resource_version: Option<String>) -> ObjectMeta {
    ObjectMeta { resource_version, ..ObjectMeta::default() }
}

impl From<RawNode> for NodeSlim {
    fn from(RawNode { metadata, spec, status }: RawNode) -> Self {
        let annotation_ours =
            metadata.managed_fields.iter().any(RawManagedFields::holds_the_annotation_as_ours);
        let region = metadata.labels.region.as_deref().map(region_slug);
        let ours = metadata.managed_fields.iter().filter(|entry| entry.manager == FIELD_MANAGER);
        let labels = labels_of(metadata.labels, &ours.map(|entry| &entry.fields.metadata.labels));
        let taints = spec.taints.into_iter();
        Self {
            metadata: slim_metadata(metadata.resource_version),
            facts: NodeFacts {
                name: metadata.name,
                uid: Uid(metadata.uid.into()),
                created_at_s: metadata.creation_timestamp.as_second(),
                machine: provider::machine(&spec.provider_id),
                provider_id: spec.provider_id,
                ready: readiness(&status.conditions),
                ready_since_s: ready_of(&status.conditions).and_then(|ready| ready.since.as_second()),
                heartbeat_s: ready_of(&status.conditions).and_then(|ready| ready.heartbeat.as_second()),
                deleting: metadata.deletion_timestamp.is_some(),
                taints: taints.map(|RawTaint { key, value, effect }| Taint { key, value, effect }).collect(),
                region,
                external_ips: addresses_of("ExternalIP", &status.addresses),
                internal_ips: addresses_of("InternalIP", &status.addresses),
                annotation: metadata.annotations.reserved_ip,
                annotation_ours,
                labels,
            },
        }
    }
}

impl From<RawPod> for PodSlim {
    fn from(RawPod { metadata, spec, status }: RawPod) -> Self {
        let is_ready = readiness(&status.conditions).is_ready();
        let fails_since_s =
            ready_of(&status.conditions).filter(|_| !is_ready).and_then(|ready| ready.since.as_second());
        Self {
            metadata: slim_metadata(metadata.resource_version),
            facts: PodFacts {
                namespace: metadata.namespace,
                name: metadata.name,
                node: spec.node_name,
                serving: status.phase == "Running" && is_ready && metadata.deletion_timestamp.is_none(),
                fails_since_s,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::digitalocean::droplet;
    use flipop_core::model::{REGION_LABEL, RESERVED_IP_ANNOTATION};
    use serde_json::{Value, json};

    fn node(value: Value) -> NodeFacts {
        serde_json::from_value::<NodeSlim>(value).expect("a node").into_facts()
    }

    fn pod(value: Value) -> PodFacts {
        serde_json::from_value::<PodSlim>(value).expect("a pod").into_facts()
    }

    #[test]
    fn a_node_is_cut_to_its_facts() {
        let facts = node(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-11-26T15:00:00Z",
                "labels": {REGION_LABEL: "nyc3", "other": "x"},
                "annotations": {RESERVED_IP_ANNOTATION: "192.0.2.1", "other": "x"},
                "managedFields": [
                    {"manager": "kubelet", "fieldsV1": {"f:status": {"f:images": {}}}},
                    {"manager": "flipop", "operation": "Update", "fieldsV1": {"f:metadata": {"f:annotations": {
                        format!("f:{RESERVED_IP_ANNOTATION}"): {}}}}},
                ],
            },
            "spec": {"providerID": "digitalocean://11", "taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "False", "lastTransitionTime": "2001-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-26T15:00:00Z"},
                ],
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "2001:db8::1"},
                    {"type": "ExternalIP", "address": "198.51.100.1"}, {"type": "Hostname", "address": "a"},
                ],
                "images": [{"names": ["x"]}],
            },
        }));
        assert_eq!(
            facts,
            NodeFacts {
                name: "a".into(),
                uid: Uid("u".into()),
                created_at_s: Some(1_795_705_200),
                provider_id: "digitalocean://11".into(),
                machine: Some(droplet(11)),
                ready: Readiness::Ready,
                ready_since_s: Some(1_795_705_200),
                taints: vec![Taint { key: "k".into(), value: String::new(), effect: "NoExecute".into() }],
                region: Some("nyc3".into()),
                external_ips: vec![Address::from([198, 51, 100, 1])],
                internal_ips: vec![Address::from([10, 0, 0, 1])],
                annotation: Some("192.0.2.1".into()),
                annotation_ours: true,
                ..NodeFacts::default()
            }
        );
    }

    #[test]
    fn a_node_s_region_is_in_lower_case_and_without_white_space_around_it() {
        let facts = node(json!({"metadata": {"name": "a", "labels": {REGION_LABEL: " NYC3"}}}));
        assert_eq!(facts.region.as_deref(), Some("nyc3"));
    }

    #[test]
    fn an_annotation_of_another_manager_is_not_ours() {
        let facts = node(json!({"metadata": {
            "name": "a", "annotations": {RESERVED_IP_ANNOTATION: "192.0.2.1"},
            "managedFields": [
                {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {
                    format!("f:{RESERVED_IP_ANNOTATION}"): {}}}}},
                {"manager": "flipop", "fieldsV1": {"f:metadata": {"f:annotations": {"f:other": {}}}}},
            ],
        }}));
        assert_eq!(facts.annotation.as_deref(), Some("192.0.2.1"));
        assert!(!facts.annotation_ours);
    }

    #[test]
    fn nulls_and_missing_parts_of_a_node_are_absent_and_no_error() {
        let facts = node(json!({
            "metadata": {"name": "a", "uid": "u", "labels": null, "annotations": null, "managedFields": null,
                "deletionTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"taints": null, "providerID": null}, "status": null,
        }));
        assert!(facts.deleting && !facts.ready.is_ready() && facts.taints.is_empty());
        assert_eq!(facts.machine, None);
    }

    #[test]
    fn a_pod_serves_only_while_it_runs_ready_and_is_not_being_deleted() {
        let running = json!({
            "metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a", "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-26T15:00:00Z"},
            ]},
        });
        let facts = pod(running.clone());
        assert_eq!((facts.namespace.as_str(), facts.name.as_str(), facts.node.as_str()), ("n", "p", "a"));
        assert!(facts.serving && facts.fails_since_s.is_none());
        let changes = [
            ("/status/phase", json!("Pending")),
            ("/status/conditions/0/status", json!("False")),
            ("/status/conditions", Value::Null),
        ];
        for (pointer, value) in changes {
            let mut other = running.clone();
            *other.pointer_mut(pointer).expect("a field") = value;
            let facts = pod(other);
            assert!(!facts.serving, "{pointer}");
            let since_s = (pointer == "/status/conditions/0/status").then_some(1_795_705_200);
            assert_eq!(facts.fails_since_s, since_s, "{pointer}");
        }
        let mut deleted = running;
        deleted["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        assert!(!pod(deleted).serving);
    }
}
