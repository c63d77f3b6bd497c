//! Specs that are as large as the API server accepts: what somebody could write to use up the memory of the operator.

use crate::cluster::Kind;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// The most that etcd takes in one request, in bytes. An object with its status has to fit.
pub const MOST_BYTES: usize = 3 << 19;

/// Bytes of a text that leaves room for the rest of its object.
const TEXT_BYTES: usize = 1_400_000;

/// A large object.
#[derive(Debug, Clone)]
pub struct Large {
    /// The large part of it. Usable as a name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its spec.
    pub spec: Value,
}

/// One object of each sort. A `share` of 1 makes them as large as possible, and one of 10 a tenth of that.
pub fn all(share: usize) -> Vec<Large> {
    let list = |size: usize, entry: fn(usize) -> Value| (0..size / share).map(entry).collect::<Value>();
    let text = || json!("x".repeat(TEXT_BYTES / share));
    let values: Vec<String> = (0..150_000 / share).map(|number| format!("{number:06}")).collect();
    let selector = json!(format!("role in ({})", values.join(",")));
    let tolerations = list(490_000, |_| json!({}));
    vec![
        pool("bad-ips", "/ips", list(190_000, |number| json!(format!("{number:05x}")))),
        pool("empty-ips", "/ips", list(500_000, |_| json!(""))),
        pool("valid-ips", "/ips", list(105_000, address)),
        pool("tolerations", "/match/tolerations", tolerations.clone()),
        pool("provider", "/provider", text()),
        pool("selector", "/match/nodeLabel", selector.clone()),
        record_set("set-tolerations", "/match/tolerations", tolerations),
        record_set("set-selector", "/match/nodeLabel", selector),
        record_set("set-zone", "/dnsRecordSet/zone", text()),
    ]
}

/// An address that no account has.
fn address(number: usize) -> Value {
    let number = u32::try_from(number).unwrap_or_default();
    json!(Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits().wrapping_add(number)))
}

fn pool(name: &'static str, field: &str, large: Value) -> Large {
    let spec = json!({
        "provider": "digitalocean", "region": "nyc3", "ips": ["192.0.2.77"],
        "match": { "nodeLabel": "pool=strangers", "tolerations": [] },
    });
    Large { name, kind: Kind::Pool, spec: with(spec, field, large) }
}

fn record_set(name: &'static str, field: &str, large: Value) -> Large {
    let spec = json!({
        "match": { "nodeLabel": "pool=strangers", "tolerations": [] },
        "dnsRecordSet": { "provider": "digitalocean", "zone": "example.com", "recordName": name },
    });
    Large { name, kind: Kind::RecordSet, spec: with(spec, field, large) }
}

fn with(mut spec: Value, field: &str, large: Value) -> Value {
    if let Some(place) = spec.pointer_mut(field) {
        *place = large;
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_nearly_as_large_as_the_server_accepts() {
        for Large { name, spec, .. } in all(1) {
            let bytes = spec.to_string().len();
            assert!((1_000_000..MOST_BYTES - (32 << 10)).contains(&bytes), "{name}: {bytes}");
        }
    }
}
