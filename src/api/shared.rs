//! What both kinds have: which nodes, which record, and conditions.

use super::lenient;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// Which nodes are candidates. A node is one when it is Ready, has `spec.providerID`, is not being deleted, has
/// the labels of `nodeLabel`, has no taint that is not tolerated and, if `podNamespace` or `podLabel` is set, runs
/// at least one Ready pod that they select. Default: every Ready node without taints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Label selector for nodes, for example `pool=edge,gpu!=true`. Operators: `=`, `==`, `!=`, `in (a,b)`,
    /// `notin (a,b)`, `key`, `!key`, `key>1`, `key<9`. Default: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_label: Option<String>,

    /// Label selector for pods, written like `nodeLabel`: only nodes that run at least one matching pod which is
    /// Running, Ready and not being deleted are candidates. Default: pods do not matter, or, with `podNamespace`,
    /// any pod of that namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_label: Option<String>,

    /// Namespace of the pods that count. Default: all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_namespace: Option<String>,

    /// Taints that a node may have, written as in a pod. Every other taint keeps a node out, whatever its effect.
    /// Default: none is tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
}

/// One toleration, as in a pod's spec.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Effect to tolerate: `NoSchedule`, `PreferNoSchedule` or `NoExecute`. Default: every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,

    /// Key of the taint. Default: every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// `Equal` (key and value are equal) or `Exists` (the key is enough). Anything else tolerates nothing.
    /// Default: `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,

    /// Value of the taint, for `Equal`. Default: the empty value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// The DNS A records to keep: one name, one record per address.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsRecordSet {
    /// Where the zone is hosted: `digitalocean` or `cloudflare`. Default: in a FloatingIPPool the pool's
    /// `provider`; in a NodeDNSRecordSet `spec.provider`, and without that `digitalocean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,

    /// The zone: its name, for example `example.com`; with `cloudflare` a zone id (a text without a dot) will do
    /// as well. Without a zone no record is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,

    /// Name of the records: relative to the zone (`www`), `@` for the zone itself, or fully qualified
    /// (`www.example.com`, with or without a final dot). Without a name no record is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_name: Option<String>,

    /// How long resolvers may cache a record, in seconds. At least 30 with `digitalocean` and 60 with `cloudflare` (30
    /// in Enterprise zones; 1 means automatic); what is below is raised. At most 86400 with `cloudflare`. Default
    /// (also 0): 60; in a NodeDNSRecordSet an existing record keeps its own.
    #[serde(default, deserialize_with = "lenient::integer", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<i64>,

    /// What happens to the records when nothing is left to publish, since no node matches:
    /// `Keep` leaves them as they are, `Delete` removes them, once a node has matched this spec before or none has for
    /// 10 minutes. Default: `Keep` in a FloatingIPPool, `Delete` in a
    /// NodeDNSRecordSet (`Keep` if the operator runs with `--keep-last-record`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "when_empty_schema")]
    pub when_empty: Option<String>,
}

fn when_empty_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        // A rule instead of an enum: its message says what to write.
        "x-kubernetes-validations": [{
            "rule": "self in ['', 'Keep', 'Delete']",
            "message": "write Keep (leave the records as they are when nothing is left to publish) or Delete (remove them), \
                        or leave whenEmpty out for the default",
        }],
    })
}

/// One aspect of an object's state, in the form that `kubectl wait --for=condition=…` understands.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, for example `Ready`.
    #[serde(rename = "type", default, deserialize_with = "lenient::or_default")]
    pub type_: String,

    /// `True`, `False` or `Unknown`.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub status: String,

    /// One word in CamelCase that says why.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub reason: String,

    /// A sentence for people, with what one can do.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub message: String,

    /// When `status` last changed (RFC 3339).
    #[serde(default, deserialize_with = "time_if_readable", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_transition_time: Option<Time>,

    /// The `metadata.generation` that this condition describes.
    #[serde(default, deserialize_with = "lenient::integer", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A time that cannot be read is as good as none: it must not make the object undecodable.
fn time_if_readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()).map(Time))
}
