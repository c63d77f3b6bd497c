//! `spec.firewall` of a pool, and the firewalls that its status remembers.

use super::lenient::api_types;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Rules of one firewall at DigitalOcean.
const PORTS_MAX: usize = 50;

/// Sources of one rule at DigitalOcean.
const SOURCES_MAX: usize = 1_000;

/// The longest way to write an IPv6 network.
const SOURCE_CHARS_MAX: usize = 43;

api_types! {
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
