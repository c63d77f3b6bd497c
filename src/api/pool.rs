//! `FloatingIPPool`: reserved IPs that follow healthy matching nodes.

use super::lenient;
use super::resource::custom_resource;
use super::shared::{Condition, DnsRecordSet, Match};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most entries of `spec.releasedIPs`. Far above any account's quota; it bounds what the API server must check.
const RELEASED_IPS_MAX: usize = 500;

/// Keeps reserved IPs (floating IPs) on healthy nodes that match, and DNS A records on those IPs.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct FloatingIPPool {
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub spec: FloatingIPPoolSpec,
    /// What is.
    #[serde(default)]
    pub status: Option<FloatingIPPoolStatus>,
}

custom_resource!(FloatingIPPool, FloatingIPPoolSpec, plural: "floatingippools");

/// What is wanted of a pool. An error in it is reported in `status.error` and in conditions, never by a refusal,
/// and what stands stays as it is until it is right.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FloatingIPPoolSpec {
    /// Where the IPs come from: `digitalocean`. Without it nothing is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,

    /// Region slug in which missing IPs are created, for example `nyc3`; capitals and white space around it do not
    /// matter. Needed only if IPs are to be created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,

    /// How many IPs the pool uses (a count, 0 or more): the first ones of `ips`; the rest is disabled, and missing
    /// ones are created in `region` and written into `ips`. Created IPs are paid for and never deleted by the
    /// operator. Default (also 0): all of `ips`, and none is created.
    #[serde(
        rename = "desiredIPs",
        default,
        deserialize_with = "lenient::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0))]
    pub desired_ips: Option<i64>,

    /// The condition `Ready` is False (reason `BelowMinimum`) while fewer IPs than this are active (a count, 0 to 1000).
    /// It changes nothing else. Default (also 0): `Ready` does not ask how many are active.
    #[serde(default, deserialize_with = "lenient::integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_active: Option<i64>,

    /// Reserved IPv4 addresses of the account, in the order in which they are used. An entry that is no IPv4
    /// address, or that repeats an earlier one, is reported and otherwise ignored. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,

    /// IPv4 addresses that the pool shall let go of now, created ones too; it wins over `ips`. They stay in the
    /// account. To give one up, in one edit add it here, remove it from `ips` and lower `desiredIPs` by one: without
    /// the last a replacement is bought at once. When `status.createdIPs` no longer names it, it can be deleted in the
    /// account and removed here; an entry has to stay for as long as the address is in `ips`. At most 500 entries.
    /// Default: none.
    #[serde(rename = "releasedIPs", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "released_ips_schema")]
    pub released_ips: Option<Vec<String>>,

    /// Least time between the starts of two assignments, in seconds (0 or more, fractions allowed). Default: 0,
    /// no pause.
    #[serde(default, serialize_with = "lenient::write_number", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub assignment_cool_off_seconds: Option<f64>,

    /// Which nodes may hold an IP of the pool.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub match_: Option<Match>,

    /// DNS A records that point to the IPs that are active. Default: no DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_record_set: Option<DnsRecordSet>,
}

fn released_ips_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": RELEASED_IPS_MAX,
        "items": {
            "type": "string",
            // No IPv4 address is longer; it also lets the API server estimate the cost of the rule.
            "maxLength": 15,
            "x-kubernetes-validations": [{
                "rule": r"self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$')",
                "message": "write each address to release as an IPv4 address, for example 203.0.113.7",
            }],
        },
    })
}

/// What the operator found and remembers of a pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FloatingIPPoolStatus {
    /// Each address of the pool: where it is and how it fares.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub ips: BTreeMap<String, IpStatus>,

    /// How many addresses the pool uses: `desiredIPs`, or without it every valid entry of `ips`. Those that are still to
    /// be created count too.
    #[serde(
        rename = "usedIPs",
        default,
        deserialize_with = "lenient::integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub used_ips: Option<i64>,

    /// How many addresses stand on a matching node, confirmed by the provider.
    #[serde(
        rename = "activeIPs",
        default,
        deserialize_with = "lenient::integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub active_ips: Option<i64>,

    /// Candidates that wait for an IP, sorted by name.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub assignable_nodes: Vec<String>,

    /// Candidates whose assignment failed or is blocked, sorted by name.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub node_errors: Vec<String>,

    /// What is wrong with the spec, or why the last creation of an IP failed.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub error: String,

    /// The state in standard form. `Ready` sums up the addresses alone: `RecordSetReady` speaks of the DNS records.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// The `metadata.generation` that this status describes.
    #[serde(default, deserialize_with = "lenient::integer", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Memory of the operator: addresses that it created for this pool, in order of creation. Absent: the operator
    /// remembers nothing of this pool.
    #[serde(rename = "createdIPs", default, skip_serializing_if = "Option::is_none")]
    pub created_ips: Option<Vec<CreatedIp>>,

    /// Memory of the operator: addresses that the pool held and let go.
    #[serde(
        rename = "formerIPs",
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub former_ips: Vec<String>,

    /// Memory of the operator: addresses of the account that have stood on candidates of this pool, named by no pool,
    /// while nothing was created for it. Each counts against `desiredIPs` until it is in `spec.ips` or has left the
    /// droplet.
    #[serde(
        rename = "unknownIPs",
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub unknown_ips: Vec<String>,

    /// Memory of the operator: addresses of the account that stood on candidates of this pool, named by no pool,
    /// before its first creation. Each counts against `desiredIPs` until it is in `spec.ips` or has left the
    /// droplet. Absent: nothing was created for it yet.
    #[serde(rename = "orphanIPs", default, skip_serializing_if = "Option::is_none")]
    pub orphan_ips: Option<Vec<String>>,

    /// Memory of the operator: the purchase of an address that has begun and is not yet recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation: Option<Creation>,

    /// The record set as last published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_record_set: Option<PublishedRecordSet>,
}

/// One address of a pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpStatus {
    /// `active` (on a matching node), `in-progress`, `error` (the last action failed), `no-match` (on a node that no
    /// longer matches), `unassigned` or `disabled` (beyond `desiredIPs`).
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub state: String,

    /// The node that it stands on.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,

    /// The `spec.providerID` of what it stands on, for example `digitalocean://12345`.
    #[serde(
        rename = "providerID",
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub provider_id: String,

    /// Why the last action on it failed, or what is wrong with it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// An address that the operator created.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedIp {
    /// The address.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub ip: String,

    /// It stood in `spec.ips` once, and is not written there again.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub written: bool,
}

/// A purchase of an address that has begun.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Creation {
    /// Counts the creations of this pool.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub number: u64,

    /// The provider that was asked.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub provider: String,

    /// Region slug in which it was begun.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub region: String,

    /// Every address that the account had before: what is not among them may be the new one.
    #[serde(rename = "knownIPs", default, deserialize_with = "lenient::or_default")]
    pub known_ips: Vec<String>,

    /// `Open` (its outcome is being found out) or `Uncertain` (more than one address may be the new one).
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub phase: String,

    /// The addresses one of which may be the new one. Put the right one into `spec.ips`.
    #[serde(
        rename = "uncertainIPs",
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub uncertain_ips: Vec<String>,
}

/// A record set as last published.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedRecordSet {
    /// Fully qualified name of the records.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub fqdn: String,

    /// The addresses that the records hold, sorted.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}
