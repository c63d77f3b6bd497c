//! `FloatingIPPool`: reserved IPs that follow healthy matching nodes, and the firewalls of these nodes.

use super::lenient::{api_types, is_default, write_number};
use super::resource::custom_resource;
use super::shared::{Condition, DnsRecordSet, Grace, Match, NodeCheck};
use flipop_core::model::bounds::TooLarge;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{Schema, SchemaGenerator, json_schema};
use std::collections::BTreeMap;

/// Most entries of `spec.releasedIPs`. Far above any account's quota; it bounds what the API server must check.
const RELEASED_IPS_MAX: usize = 500;

/// Rules of one firewall at DigitalOcean.
const PORTS_MAX: usize = 50;

/// Sources of one rule at DigitalOcean.
const SOURCES_MAX: usize = 1_000;

/// The longest way to write an IPv6 network.
const SOURCE_CHARS_MAX: usize = 43;

custom_resource! {
    /// Keeps reserved IPs (floating IPs) on healthy nodes that match, and DNS A records on those IPs.
    FloatingIPPool is Pool, with FloatingIPPoolSpec and FloatingIPPoolStatus, plural "floatingippools"
}

api_types! {
    /// The desired state of the pool. In every field an empty string, 0 and null mean absent.
    pub struct FloatingIPPoolSpec {
        /// Provider of the addresses. An unknown provider, or one without a token, freezes the pool: existing
        /// assignments are kept, and no new ones are made. Values: `digitalocean`. Default: none; set the field.
        pub provider: Option<String>,

        /// Region in which missing addresses are created, as a slug such as `nyc3`. Upper case and surrounding white
        /// space are ignored. Values: a region slug of the provider. Default: none.
        pub region: Option<String>,

        /// Number of addresses that the pool uses: the first ones of `ips`. Further addresses are disabled. Missing
        /// ones are created in `region` and added to `ips`; they cost money, and a lower number deletes none. Above
        /// 1,000, the first 1,000 addresses are used and none is created. Range: 0 to 1,000. Default: 0, which uses all
        /// of `ips` and creates none.
        #[serde(rename = "desiredIPs")]
        #[schemars(range(min = 0))]
        pub desired_ips: Option<i64>,

        /// Minimum number of active addresses. While fewer are active, the condition `Ready` is False; nothing else
        /// changes. Range: 0 to 1,000. Default: 0, which sets no minimum.
        #[schemars(range(min = 0, max = 1000))]
        pub min_active: Option<i64>,

        /// Reserved IPv4 addresses of the account, in the order in which the pool uses them. FLIPOP adds the addresses
        /// that it creates, and ignores bad and repeated entries. Values: IPv4 addresses. Default: empty; set `ips`,
        /// `desiredIPs` or both.
        pub ips: Option<Vec<String>>,

        /// Addresses to release immediately, including created ones and those in `ips`. They stay in the account unless
        /// `reclaimPolicy` says otherwise. To release a created address, add it here, remove it from `ips` and lower
        /// `desiredIPs` by one, all in one edit; otherwise FLIPOP creates a replacement. Keep the entry while `ips` or
        /// `status.createdIPs` names the address. Values: IPv4 addresses, at most 500. Default: empty.
        #[serde(rename = "releasedIPs")]
        #[schemars(schema_with = "released_ips_schema")]
        pub released_ips: Option<Vec<String>>,

        /// Whether FLIPOP deletes an address that it created for the pool, once `releasedIPs` names it. `Retain`: it
        /// stays in the account for good. `Delete`: FLIPOP removes it from the records, its node and then the account,
        /// unless somebody uses it. Deleting the pool then releases all of them. FLIPOP never deletes an address that
        /// it did not create, or whose creation had no answer. Values: `Retain`, `Delete`. Default: `Retain`.
        #[schemars(schema_with = "reclaim_policy_schema")]
        pub reclaim_policy: Option<String>,

        /// Minimum interval between the start of two assignments of the pool, in seconds. Fractions count down to 1 ms.
        /// Range: 0 or more. Default: 0, no pause.
        #[serde(serialize_with = "write_number")]
        #[schemars(range(min = 0))]
        pub assignment_cool_off_seconds: Option<f64>,

        /// Which nodes may hold an address of the pool: nodes that are Ready and not being deleted, have a
        /// `spec.providerID`, the labels of `nodeLabel` and only tolerated taints and, if `podNamespace` or `podLabel`
        /// is set, run a Ready pod that they select. Default: every Ready node without taints.
        #[serde(rename = "match")]
        pub match_: Option<Match>,

        /// How long a node that has an address of the pool may fail before it stops matching, so that the address can
        /// move. A taint that somebody sets, a deletion of the node and an edit of `match` have no grace period.
        /// Default: no grace period.
        pub grace: Option<Grace>,

        /// Checks of the nodes by FLIPOP itself. `{}` asks for them with the default values. While they lack a right or
        /// an environment variable, the condition `ChecksUnavailable` says so. Default: no checks.
        pub node_check: Option<NodeCheck>,

        /// Labels on the nodes that have an address of the pool, for policies and routes that select nodes by label.
        /// Default: no labels.
        pub node_labels: Option<NodeLabels>,

        /// DNS A records of one name that hold exactly the active addresses of the pool. With no active address,
        /// `whenEmpty` decides. Default: none; no records are written.
        pub dns_record_set: Option<DnsRecordSet>,

        /// Ports to open in cloud firewalls of the pool's own, on every node whose labels match and on every node that
        /// has an address of the pool. Removing the field removes these firewalls; deleting the pool leaves them.
        /// Default: none; no firewall is touched.
        pub firewall: Option<Firewall>,

        /// The fields that were over their bounds, and are cut above.
        #[serde(skip)]
        pub too_large: Vec<TooLarge>,
    }

    /// Labels of nodes.
    pub struct NodeLabels {
        /// Whether a node has the labels `flipop.digitalocean.com/reserved-ip-active`, with the value `true`, and
        /// `flipop.digitalocean.com/reserved-ip`, with the address, while it has the annotation. Default: false.
        pub enabled: Option<bool>,

        /// Whether the nodes also have the labels of an older tool: `do-outbound-floating-ip`, with the address, and
        /// `do-outbound-floating-ip-enabled`, which is `true`, or `false` on a matching node that has no address. It
        /// has no effect unless `enabled` is true. Default: false.
        pub legacy: Option<bool>,
    }

    /// The observed state of the pool, and FLIPOP's memory of it.
    pub struct FloatingIPPoolStatus {
        /// State and place of each address of the pool, by address. An entry of `spec.ips` that is not an IPv4 address
        /// appears as it was written.
        pub ips: BTreeMap<String, IpStatus>,

        /// Number of addresses that the pool uses, including those that are still to be created.
        #[serde(rename = "usedIPs")]
        pub used_ips: Option<i64>,

        /// Number of addresses in state `active`.
        #[serde(rename = "activeIPs")]
        pub active_ips: Option<i64>,

        /// Matching nodes that wait for an address, sorted by name.
        pub assignable_nodes: Vec<String>,

        /// Number of nodes in `assignableNodes`, if it lists only the first 500 of them.
        pub assignable_node_count: Option<i64>,

        /// Matching nodes whose assignment failed or is blocked, sorted by name. The condition `NodesBlocked` says why.
        pub node_errors: Vec<String>,

        /// Number of nodes in `nodeErrors`, if it lists only the first 500 of them.
        pub node_error_count: Option<i64>,

        /// The mistake in the spec, or else that the installed CRDs are outdated, or why the last creation failed.
        pub error: String,

        /// Conditions in the standard Kubernetes form. `Ready` covers the addresses, and `RecordSetReady` the DNS
        /// records.
        pub conditions: Vec<Condition>,

        /// The `metadata.generation` that this status describes. -1 means that FLIPOP has not read the object yet.
        pub observed_generation: Option<i64>,

        /// Internal, do not edit: addresses that FLIPOP created for this pool, in order of creation. Absent means
        /// that FLIPOP remembers nothing of this pool.
        #[serde(rename = "createdIPs")]
        pub created_ips: Option<Vec<CreatedIp>>,

        /// Internal, do not edit: addresses that answers to creations for this pool named, in order of creation. FLIPOP
        /// deletes no other one. With `spec.reclaimPolicy: Retain`, a released address leaves this list for good.
        #[serde(rename = "purchasedIPs")]
        pub purchased_ips: Vec<PurchasedIp>,

        /// Internal, do not edit: addresses that the pool once had and released.
        #[serde(rename = "formerIPs")]
        pub former_ips: Vec<String>,

        /// Internal, do not edit: addresses that no pool names and that were seen on matching nodes of this pool, while
        /// nothing has been created for it. Each reduces the number of addresses to create by one, until it is in
        /// `spec.ips` or has left its droplet.
        #[serde(rename = "unknownIPs")]
        pub unknown_ips: Vec<String>,

        /// Internal, do not edit: the same, from before the first creation for this pool. Absent means that nothing has
        /// been created for it.
        #[serde(rename = "orphanIPs")]
        pub orphan_ips: Option<Vec<String>>,

        /// Internal, do not edit: the creation of an address that has begun and is not recorded yet.
        pub creation: Option<Creation>,

        /// The last request to move an address by hand (the annotation `flipop.digitalocean.com/move`), and its
        /// outcome.
        pub last_move: Option<LastMove>,

        /// The DNS records as last published.
        pub dns_record_set: Option<PublishedRecordSet>,

        /// Internal, do not edit: the firewalls that FLIPOP made for the pool. It deletes only these.
        pub firewalls: Vec<FirewallEntry>,
    }

    /// State and place of one address.
    pub struct IpStatus {
        /// State of the address. Values: `active`, `in-progress`, `error`, `no-match`, `unassigned`, `disabled`.
        pub state: String,

        /// Name of the matching node that has the address, or that is to get it while the state is `in-progress`.
        pub node_name: String,

        /// The droplet that has the address, or that is to get it, in the form of a node's `spec.providerID`, for
        /// example `digitalocean://12345`.
        #[serde(rename = "providerID")]
        pub provider_id: String,

        /// Why the last operation on the address failed, or why the address cannot be used.
        pub error: String,

        /// When the failure of the node began that `spec.grace` covers (RFC 3339, by the API server's clock). It is
        /// absent for the first 2 s of a failure.
        #[schemars(with = "Option<String>")]
        pub suspect_since: Option<Time>,

        /// The failure of the node that `spec.grace` covers. Values: `PodNotReady`, `NotReady`, `ReadyUnknown`,
        /// `CheckFailed`, `MachineOff`, the key of a taint.
        pub suspect_reason: String,
    }

    /// The last request to move an address by hand.
    pub struct LastMove {
        /// The annotation as it was set, up to 400 characters of it.
        pub request: String,

        /// The address to move. Absent if the request cannot be read.
        pub ip: String,

        /// The node that had the address, or else the droplet. Absent if the address was on no droplet.
        pub from: String,

        /// The node that is to get the address. Absent if the request cannot be read.
        pub to: String,

        /// When `outcome` last changed (RFC 3339).
        #[schemars(with = "Option<String>")]
        pub time: Option<Time>,

        /// Outcome of the request. Values: `Pending`, `Done`, `Interrupted`, `Refused`, `Ignored`.
        pub outcome: String,

        /// Why the move was interrupted, refused or ignored, or what a pending move waits for.
        pub message: String,
    }

    /// The DNS records as last published.
    pub struct PublishedRecordSet {
        /// Fully qualified name of the records.
        pub fqdn: String,

        /// Addresses that the records hold, sorted.
        pub addresses: Vec<String>,
    }

    /// Ports that FLIPOP opens on every node that the pool may use, in cloud firewalls of its own.
    pub struct Firewall {
        /// The ports to open. Without entries there is no firewall. FLIPOP ignores a malformed entry. Values: at most
        /// 50 entries. Default: empty.
        #[schemars(length(max = PORTS_MAX))]
        pub ports: Option<Vec<FirewallPort>>,

        /// Networks from which the ports can be reached. `0.0.0.0/0` and `::/0` together mean everybody. FLIPOP ignores
        /// an entry that is not a network, or that has bits beyond its prefix. Values: at most 1,000 networks. Default:
        /// empty; set the field.
        #[schemars(schema_with = "sources_schema")]
        pub sources: Option<Vec<String>>,
    }

    /// A protocol and a port to open.
    pub struct FirewallPort {
        /// The protocol. Values: `tcp`, `udp`, `icmp`. Default: none; set the field.
        #[schemars(schema_with = "protocol_schema")]
        pub protocol: Option<String>,

        /// The port, as a string: a number such as `"443"`, or a range such as `"30000-30100"`. Leave it out for
        /// `icmp`. Range: 1 to 65535. Default: none; set the field for `tcp` and `udp`.
        #[schemars(schema_with = "port_schema")]
        pub port: Option<String>,
    }

    /// A firewall that FLIPOP made for a pool, or is about to make.
    pub struct FirewallEntry {
        /// Id of the firewall. Absent while FLIPOP does not know whether it was made.
        pub id: String,

        /// Name of the firewall: `flipop-`, the first 8 characters of the pool's uid, and a number.
        pub name: String,

        /// Provider of the firewall.
        pub provider: String,

        /// Account of the firewall. Absent for the account of the token in the operator's environment.
        pub account: String,
    }
}

api_types! {
    whole:

    /// An address that FLIPOP created.
    pub struct CreatedIp {
        /// The address.
        pub ip: String,

        /// True once the address is in `spec.ips`. FLIPOP does not add it there again.
        pub written: bool,
    }

    /// A creation of an address that has begun.
    pub struct Creation {
        /// Number of this creation, counted for each pool.
        pub number: u64,

        /// Provider that was asked.
        #[serde(skip_serializing_if = "is_default")]
        pub provider: String,

        /// Slug of the region that was asked for.
        pub region: String,

        /// Every address that the account had before the request. Any other address may be the new one.
        #[serde(rename = "knownIPs")]
        pub known_ips: Vec<String>,

        /// `Open` means that the outcome is not known yet. `Uncertain` means that more than one address may be the new
        /// one. Values: `Open`, `Uncertain`.
        pub phase: String,

        /// Addresses one of which may be the new one. Put the one that belongs to the pool into `spec.ips`.
        #[serde(rename = "uncertainIPs", skip_serializing_if = "is_default")]
        pub uncertain_ips: Vec<String>,
    }

    /// An address that the answer to a creation named.
    pub struct PurchasedIp {
        /// The address.
        pub ip: String,

        /// The provider that created it.
        pub provider: String,

        /// The account there. Empty for the one whose token is in the operator's environment.
        #[serde(skip_serializing_if = "is_default")]
        pub account: String,

        /// `metadata.uid` of the pool for which it was created.
        pub uid: String,

        /// The droplet on which the pool last had it, in the form of a node's `spec.providerID`.
        #[serde(skip_serializing_if = "is_default")]
        pub held_on: String,

        /// Every place where records have held it.
        #[serde(skip_serializing_if = "is_default")]
        pub names: Vec<RecordName>,

        /// Whether its deletion may have been asked for.
        pub deleting: bool,
    }

    /// A place of records.
    pub struct RecordName {
        /// The provider of the zone.
        pub provider: String,

        /// The account there. Empty for the one whose token is in the operator's environment.
        #[serde(skip_serializing_if = "is_default")]
        pub account: String,

        /// The zone, by the id that its provider gives it.
        pub zone: String,

        /// Fully qualified name of the records.
        pub fqdn: String,
    }
}

fn reclaim_policy_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        // A rule instead of an enum: its message says what to write.
        "x-kubernetes-validations": [{
            "rule": "self in ['', 'Retain', 'Delete']",
            "message": "write Retain (released addresses stay in the account) or Delete (those that FLIPOP created \
                        are deleted), or omit reclaimPolicy for Retain",
        }],
    })
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

fn sources_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": SOURCES_MAX,
        "items": { "type": "string", "maxLength": SOURCE_CHARS_MAX },
    })
}

fn protocol_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "x-kubernetes-validations": [{
            "rule": "self in ['tcp', 'udp', 'icmp']",
            "message": "write tcp, udp or icmp",
        }],
    })
}

fn port_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 11,
        "x-kubernetes-validations": [{
            "rule": r"self.matches('^$|^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$')",
            "message": "write a port such as \"443\" or a range such as \"30000-30100\", and omit port for icmp",
        }],
    })
}
