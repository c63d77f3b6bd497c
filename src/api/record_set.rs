//! `NodeDNSRecordSet`: A records with the addresses of matching nodes.

use super::lenient;
use super::resource::custom_resource;
use super::shared::{Condition, DnsRecordSet, Match};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keeps DNS A records on the addresses of the nodes that match.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeDNSRecordSet {
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub spec: NodeDNSRecordSetSpec,
    /// What is.
    #[serde(default)]
    pub status: Option<NodeDNSRecordSetStatus>,
}

custom_resource!(NodeDNSRecordSet, NodeDNSRecordSetSpec, plural: "nodednsrecordsets");

/// What is wanted of a record set. An error in it is reported in `status.error` and in conditions, never by a
/// refusal, and the records stay as they are until it is right.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDNSRecordSetSpec {
    /// Where the zone is hosted: `digitalocean` or `cloudflare`. `dnsRecordSet.provider` wins where it is set.
    /// Default: `digitalocean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,

    /// Which nodes are published.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub match_: Option<Match>,

    /// The records to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_record_set: Option<DnsRecordSet>,

    /// Which address of a node is published: `ExternalIP`, `InternalIP`, or
    /// `flipop.digitalocean.com/ipv4-reserved-ip` for the reserved IP that a FloatingIPPool put on the node.
    /// IPv4 only. Default: `ExternalIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_type: Option<String>,
}

/// What the operator found and published.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDNSRecordSetStatus {
    /// `active` (the records are right), `in-progress` or `error`.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub state: String,

    /// What is wrong with the spec, or why the last change of the records failed.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub error: String,

    /// The state in standard form. `Ready` sums up the records.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The `metadata.generation` that this status describes.
    #[serde(default, deserialize_with = "lenient::integer", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Fully qualified name of the records.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub fqdn: String,

    /// The addresses that the records hold, sorted.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}
