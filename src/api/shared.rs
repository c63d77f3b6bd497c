//! The types that both kinds share: node matching, records and conditions.

use super::lenient::{api_types, is_default, write_number};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{Schema, SchemaGenerator, json_schema};

api_types! {
    /// Which nodes match.
    pub struct Match {
        /// Label selector for nodes: requirements separated by commas, for example `pool=edge,gpu!=true`. A requirement
        /// is `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1` or `a<9`. Values: a label
        /// selector. Default: all nodes.
        pub node_label: Option<String>,

        /// Label selector for pods, written like `nodeLabel`. Only nodes with at least one matching pod that is
        /// Running, Ready and not being deleted match. Values: a label selector. Default: pods do not matter; with
        /// `podNamespace`, any pod of that namespace counts.
        pub pod_label: Option<String>,

        /// Namespace of the pods that count. Values: the name of a namespace. Default: all namespaces.
        pub pod_namespace: Option<String>,

        /// Taints that a node may have, written like the tolerations of a pod. Every other taint excludes the node,
        /// whatever its effect: `PreferNoSchedule` counts too. Default: no taint is tolerated.
        pub tolerations: Option<Vec<Toleration>>,
    }

    /// How long a node that serves may fail before it stops matching. Only failures that usually pass by themselves
    /// have a grace period. While a field has a mistake, none applies, and the condition `SpecValid` names the field.
    pub struct Grace {
        /// How long a node that serves may be without a matching pod that is Running and Ready, in seconds. Set it to
        /// cover the restart of a pod. While `nodeSeconds` is larger, this time is at least 1 s. Range: 0 to 3,600.
        /// Default: 0, no grace period.
        #[schemars(range(min = 0, max = 3600))]
        pub pod_seconds: Option<i64>,

        /// How long a node that serves may be not Ready, or have a taint by which Kubernetes reports a failure, in
        /// seconds. Set it to cover the restart of a kubelet, or a reboot. Once the node has failed, this time applies
        /// until the node matches again, and covers its pods too. Range: 0 to 3,600. Default: 0, no grace period.
        #[schemars(range(min = 0, max = 3600))]
        pub node_seconds: Option<i64>,

        /// How long a node that stopped matching must match again before it can get an address or a record, in seconds.
        /// A node that still has its address or record does not wait, and none waits if no other node matches. Range: 0
        /// to 3,600. Default: 0, no delay.
        #[schemars(range(min = 0, max = 3600))]
        pub recovery_seconds: Option<i64>,
    }

    /// Whether FLIPOP checks itself that the machines of nodes answer. A node whose machine answers no check for 4.5 to
    /// 12 s, and whose kubelet has missed a renewal of its Lease, no longer matches, about half a minute before
    /// Kubernetes marks it `NotReady`. Checks never make a node match, and never take the last matching one.
    #[derive(Copy)]
    pub struct NodeCheck {
        /// TCP port of each node's `InternalIP` to which FLIPOP connects. It does not matter whether the connection is
        /// accepted or refused. Range: 1 to 65,535. Default: 10250, the port of the kubelet.
        #[schemars(range(min = 1, max = 65_535))]
        pub port: Option<i64>,

        /// Seconds from one check of a node that serves to the next. Other nodes are checked every 10 seconds. Range:
        /// 0.5 to 10. Default: 1.
        #[serde(serialize_with = "write_number")]
        #[schemars(range(min = 0.5, max = 10))]
        pub period_seconds: Option<f64>,

        /// Seconds after which a check without an answer has failed. Range: 0.1 to 10. Default: 1.
        #[serde(serialize_with = "write_number")]
        #[schemars(range(min = 0.1, max = 10))]
        pub timeout_seconds: Option<f64>,

        /// Minimum number of checks in a row that must fail. Range: 2 to 10. Default: 3.
        #[schemars(range(min = 2, max = 10))]
        pub failure_threshold: Option<i64>,
    }

    /// One toleration, written as in a pod.
    pub struct Toleration {
        /// Effect of the taint. Values: `NoSchedule`, `PreferNoSchedule`, `NoExecute`. Default: every effect.
        pub effect: Option<String>,

        /// Key of the taint. Default: every key.
        pub key: Option<String>,

        /// How the taint is compared. `Equal` compares key and value, `Exists` the key alone. Any other operator
        /// tolerates nothing. Values: `Equal`, `Exists`. Default: `Equal`.
        pub operator: Option<String>,

        /// Value of the taint, compared if `operator` is `Equal`. Default: the empty value.
        pub value: Option<String>,
    }

    /// The DNS A records to keep: one name, and one record for each address.
    pub struct DnsRecordSet {
        /// Provider that hosts the zone. FLIPOP needs a token of that provider. Values: `digitalocean`,
        /// `cloudflare`. Default: in a FloatingIPPool the pool's `provider`; in a NodeDNSRecordSet `spec.provider`, or
        /// else `digitalocean`.
        pub provider: Option<String>,

        /// Zone of the records: its name, for example `example.com`. At Cloudflare a value without a dot is the id of a
        /// zone. Without a zone no records are written. Values: the name of a zone; at Cloudflare also its id. Default:
        /// none.
        pub zone: Option<String>,

        /// Name of the records. `@` stands for the zone itself. A name that ends in a dot, equals the zone, or ends in
        /// `.<zone>` is fully qualified; every other name is relative to the zone. A name that ends in a dot must be in
        /// the zone. Write names in other scripts in their `xn--` form. Without a name no records are written. Values:
        /// `@`, a relative name or a fully qualified name. Default: none.
        pub record_name: Option<String>,

        /// How long resolvers may cache a record, in seconds. A value below the range is raised to its lower end
        /// (condition `TTLRaised`, in a pool `RecordSetTTLRaised`). A negative value, or one above the range, is an
        /// error. Range: 30 to 2,147,483,647 at DigitalOcean; 60 to 86,400 at Cloudflare, from 30 in Enterprise zones,
        /// or 1 for automatic. Default: 60 in a FloatingIPPool; in a NodeDNSRecordSet existing records keep their TTL,
        /// and new ones get 60.
        pub ttl: Option<i64>,

        /// Whether the last records stay when no node matches. `Delete` removes them, if a node has matched this
        /// version of the spec since the leader started, or else after 10 minutes. Values: `Keep`, `Delete`. Default:
        /// `Keep` in a FloatingIPPool; `Delete` in a NodeDNSRecordSet, or `Keep` if FLIPOP runs with
        /// `--keep-last-record`.
        #[schemars(schema_with = "when_empty_schema")]
        pub when_empty: Option<String>,
    }
}

fn when_empty_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        // A rule instead of an enum: its message says what to write.
        "x-kubernetes-validations": [{
            "rule": "self in ['', 'Keep', 'Delete']",
            "message": "write Keep (leave the records as they are when nothing is left to publish) or Delete \
                        (remove them), or omit whenEmpty for the default",
        }],
    })
}

api_types! {
    whole:

    /// One aspect of the state of an object.
    pub struct Condition {
        /// The subject of the condition, for example `Ready`.
        #[serde(rename = "type")]
        pub type_: String,

        /// Whether it holds. Values: `True`, `False`, `Unknown`.
        pub status: String,

        /// Why, as one word in CamelCase.
        pub reason: String,

        /// Why, and what to do about it, as a sentence.
        pub message: String,

        /// When `status` last changed (RFC 3339).
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(with = "Option<String>")]
        pub last_transition_time: Option<Time>,

        /// The `metadata.generation` that this condition describes.
        #[serde(skip_serializing_if = "is_default")]
        pub observed_generation: Option<i64>,
    }
}
