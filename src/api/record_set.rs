//! `NodeDNSRecordSet`: A records with the addresses of matching nodes.

use super::lenient::{api_types, is_default};
use super::resource::custom_resource;
use super::shared::{Condition, DnsRecordSet, Grace, Match, NodeCheck};
use flipop_core::model::bounds::TooLarge;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

custom_resource! {
    /// Keeps DNS A records on the addresses of the nodes that match.
    NodeDNSRecordSet is RecordSet, with NodeDNSRecordSetSpec and NodeDNSRecordSetStatus, plural "nodednsrecordsets"
}

api_types! {
    /// The desired state of the records. In every field an empty string, 0 and null mean absent.
    pub struct NodeDNSRecordSetSpec {
        /// Provider that hosts the zone. `dnsRecordSet.provider` takes precedence. Values: `digitalocean`,
        /// `cloudflare`.
        ///
        /// Default: `digitalocean`.
        pub provider: Option<String>,

        /// Which nodes are published: nodes that are Ready and not being deleted, have a `spec.providerID`, the labels
        /// of `nodeLabel` and only tolerated taints and, if `podNamespace` or `podLabel` is set, run a Ready pod that
        /// they select. Default: every Ready node without taints.
        #[serde(rename = "match")]
        pub match_: Option<Match>,

        /// DNS A records of one name: one for each address of a matching node. With no matching node, `whenEmpty`
        /// decides. Default: none; no records are written.
        pub dns_record_set: Option<DnsRecordSet>,

        /// Which addresses of a node are published. `ExternalIP` and `InternalIP`: those of that type in the status of
        /// the node. `flipop.digitalocean.com/ipv4-reserved-ip`: the reserved IP that a FloatingIPPool writes into that
        /// annotation of the node. Only IPv4 addresses are published; a node may have several. The condition
        /// `AddressMissing` names matching nodes without such an address. Values: `ExternalIP`, `InternalIP`,
        /// `flipop.digitalocean.com/ipv4-reserved-ip`. Default: `ExternalIP`.
        pub address_type: Option<String>,

        /// How long a node whose address is published may fail before the address leaves the records. A taint that
        /// somebody sets, a deletion of the node and an edit of `match` have no grace period. Default: no grace period.
        pub grace: Option<Grace>,

        /// Checks of the nodes by FLIPOP itself. `{}` asks for them with the default values. While they lack a right or
        /// an environment variable, the condition `ChecksUnavailable` says so. Default: no checks.
        pub node_check: Option<NodeCheck>,

        /// The fields that were over their bounds, and are cut above.
        #[serde(skip)]
        pub too_large: Vec<TooLarge>,
    }

    /// The observed state of the records.
    pub struct NodeDNSRecordSetStatus {
        /// State of the records. `active` means that they are right. Values: `active`, `in-progress`, `error`.
        pub state: String,

        /// The mistake in the spec, or the error of the last change of the records.
        pub error: String,

        /// Conditions in the standard Kubernetes form. `Ready` says whether the records are right, and is False while
        /// no node matches.
        pub conditions: Vec<Condition>,

        /// The `metadata.generation` that this status describes. -1 means that FLIPOP has not read the object yet.
        pub observed_generation: Option<i64>,

        /// Fully qualified name of the records.
        pub fqdn: String,

        /// Addresses that the records hold as last published, sorted.
        pub addresses: Vec<String>,

        /// Nodes that fail and keep their records for the time of `spec.grace`, sorted by name. A failure appears here
        /// after 2 s.
        pub suspects: Vec<SuspectNode>,
    }
}

api_types! {
    whole:

    /// A node that fails and keeps its records for the time of `spec.grace`.
    pub struct SuspectNode {
        /// Name of the node.
        pub node: String,

        /// When the failure began (RFC 3339, by the API server's clock).
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(with = "Option<String>")]
        pub since: Option<Time>,

        /// The failure. Values: `PodNotReady`, `NotReady`, `ReadyUnknown`, `CheckFailed`, `MachineOff`, the key of a
        /// taint.
        pub reason: String,
    }
}
