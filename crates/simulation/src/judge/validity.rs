//! Mistakes in a spec, and how far each one reaches. This is a second opinion, written without the core's parser.

use super::selector::{MOST_BYTES, Selector};
use crate::scene::HOME;
use flipop_cloud::Provider;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// How far a mistake in the spec of a pool reaches, the widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// A field of the pool is too large.
    Size,
    Pool,
    Creation,
    Entry,
    RecordSet,
    Minimum,
}

impl Reach {
    /// The reason of `SpecValid` if this is the widest mistake.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Size => "TooLarge",
            Self::Pool => "PoolFrozen",
            Self::Creation => "CreationImpossible",
            Self::Entry => "EntryIgnored",
            Self::RecordSet => "RecordSetIgnored",
            Self::Minimum => "MinActiveIgnored",
        }
    }
}

/// A higher number is surely a mistake.
const MAX_DESIRED: i64 = 1_000;

/// More addresses cannot be active.
const MAX_MINIMUM: usize = 1_000;

/// The longest text but a selector, in bytes.
const MAX_TEXT: usize = 253;

/// The longest lists.
const MAX_IPS: usize = 1_000;
const MAX_TOLERATIONS: usize = 64;

/// The field at a path without escapes. [`Value::pointer`] copies each name of the path twice, which takes a tenth of a
/// simulation's time.
pub(super) fn field<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(value, |value, name| value.get(name))
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    field(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> i64 {
    field(value, pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    let items = field(value, pointer).and_then(Value::as_array).into_iter().flatten();
    items.map(|item| item.as_str().unwrap_or_default()).collect()
}

/// The entries of `spec.ips` that are no IPv4 addresses.
pub(super) fn bad_entries(spec: &Value) -> BTreeSet<String> {
    let bad = texts(spec, "/ips").into_iter().filter(|entry| entry.parse::<Ipv4Addr>().is_err());
    bad.map(str::to_owned).collect()
}

fn length(value: &Value, pointer: &str) -> usize {
    field(value, pointer).and_then(Value::as_array).map_or(0, Vec::len)
}

/// Whether the criteria are too large to be looked at.
fn criteria_too_large(spec: &Value) -> bool {
    length(spec, "/match/tolerations") > MAX_TOLERATIONS
        || text(spec, "/match/podNamespace").len() > MAX_TEXT
        || ["/match/nodeLabel", "/match/podLabel"].iter().any(|field| text(spec, field).len() > MOST_BYTES)
}

/// Whether a mistake stops the whole pool.
pub(super) fn is_frozen(mistakes: &BTreeSet<Reach>) -> bool {
    mistakes.contains(&Reach::Size) || mistakes.contains(&Reach::Pool)
}

/// The mistakes in a pool's spec.
pub(super) fn of_pool(spec: &Value) -> BTreeSet<Reach> {
    let mut wrong = BTreeSet::new();
    if length(spec, "/ips") > MAX_IPS || text(spec, "/provider").len() > MAX_TEXT || criteria_too_large(spec)
    {
        // The rest does not matter.
        return BTreeSet::from([Reach::Size]);
    }
    let ips = texts(spec, "/ips");
    let good: Vec<Ipv4Addr> = ips.iter().filter_map(|entry| entry.parse().ok()).collect();
    let unique: BTreeSet<Ipv4Addr> = good.iter().copied().collect();
    let desired = number(spec, "/desiredIPs");
    if text(spec, "/provider") != HOME.name() || !criteria_good(spec) || (ips.is_empty() && desired <= 0) {
        wrong.insert(Reach::Pool);
    }
    let more = usize::try_from(desired).is_ok_and(|desired| desired > unique.len());
    if desired > MAX_DESIRED || (more && text(spec, "/region").is_empty()) {
        wrong.insert(Reach::Creation);
    }
    let released = texts(spec, "/releasedIPs").into_iter().all(|entry| entry.parse::<Ipv4Addr>().is_ok());
    if unique.len() < ips.len() || !released {
        wrong.insert(Reach::Entry);
    }
    if record_set(spec).is_some_and(|set| !record_set_good(set, text(spec, "/provider"))) {
        wrong.insert(Reach::RecordSet);
    }
    if minimum(spec).is_none() {
        wrong.insert(Reach::Minimum);
    }
    wrong
}

/// How many addresses must be active for a pool to be ready; `None` if the number makes no sense.
pub(super) fn minimum(spec: &Value) -> Option<usize> {
    usize::try_from(number(spec, "/minActive")).ok().filter(|minimum| *minimum <= MAX_MINIMUM)
}

/// Whether the spec of a `NodeDNSRecordSet` is valid.
pub(super) fn of_record_set(spec: &Value) -> bool {
    let types = ["", "ExternalIP", "InternalIP", "flipop.digitalocean.com/ipv4-reserved-ip"];
    let provider = [text(spec, "/provider"), "digitalocean"].into_iter().find(|name| !name.is_empty());
    types.contains(&text(spec, "/addressType"))
        && criteria_good(spec)
        && record_set(spec).is_some_and(|set| record_set_good(set, provider.unwrap_or_default()))
}

fn criteria_good(spec: &Value) -> bool {
    if criteria_too_large(spec) {
        return false;
    }
    let namespace = text(spec, "/match/podNamespace");
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let namespace_good = namespace.is_empty()
        || (namespace.len() <= 63
            && namespace.starts_with(plain)
            && namespace.ends_with(plain)
            && namespace.chars().all(|letter| plain(letter) || letter == '-'));
    namespace_good
        && ["/match/nodeLabel", "/match/podLabel"]
            .iter()
            .all(|field| Selector::parse(text(spec, field)).is_some())
}

/// `dnsRecordSet`, unless it is empty. The Go operator's client writes an absent one as one of empty fields.
pub(super) fn record_set(spec: &Value) -> Option<&Value> {
    let set = spec.get("dnsRecordSet")?.as_object()?;
    let says = |value: &Value| !(value.is_null() || value == "" || value.as_i64() == Some(0));
    set.values().any(says).then(|| spec.get("dnsRecordSet"))?
}

/// The provider of a record set; `None` if the name is unknown.
pub(super) fn dns_provider(set: &Value, default: &str) -> Option<Provider> {
    Provider::named([text(set, "/provider"), default].into_iter().find(|name| !name.is_empty())?)
}

fn record_set_good(set: &Value, default: &str) -> bool {
    let Some(provider) = dns_provider(set, default) else { return false };
    let (zone, name, ttl) = (text(set, "/zone"), text(set, "/recordName"), number(set, "/ttl"));
    let longest = match provider {
        Provider::DigitalOcean => 2_147_483_647,
        Provider::Cloudflare => 86_400,
    };
    let zone_good = !zone.is_empty()
        && zone.len().max(name.len()) <= MAX_TEXT
        && zone.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    let inside = name.strip_suffix('.').is_none_or(|name| {
        let (name, zone) = (name.to_lowercase(), zone.trim_end_matches('.').to_lowercase());
        name == zone || name.ends_with(&format!(".{zone}"))
    });
    let when_empty = ["", "Keep", "Delete"].contains(&text(set, "/whenEmpty"));
    zone_good && !name.is_empty() && inside && (0..=longest).contains(&ttl) && when_empty
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_mistake_reaches_as_far_as_the_contract_says() {
        let set = |extra: Value| {
            let mut set = json!({ "zone": "example.com", "recordName": "edge" });
            set.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({ "dnsRecordSet": set })
        };
        for (change, wrong) in [
            (json!({}), None),
            (json!({ "provider": "" }), Some(Reach::Pool)),
            (json!({ "provider": "cloudflare" }), Some(Reach::Pool)),
            (json!({ "ips": [] }), Some(Reach::Pool)),
            (json!({ "ips": vec![""; 1_001] }), Some(Reach::Size)),
            (json!({ "match": { "tolerations": vec![json!({}); 65] } }), Some(Reach::Size)),
            (json!({ "match": { "nodeLabel": "a".repeat(4_097) } }), Some(Reach::Size)),
            (json!({ "provider": "a".repeat(254) }), Some(Reach::Size)),
            (set(json!({ "zone": "a".repeat(254) })), Some(Reach::RecordSet)),
            (json!({ "match": { "nodeLabel": "role in (" } }), Some(Reach::Pool)),
            (json!({ "match": { "podNamespace": "A" } }), Some(Reach::Pool)),
            (json!({ "desiredIPs": 2 }), None),
            (json!({ "desiredIPs": 2, "region": null }), Some(Reach::Creation)),
            (json!({ "desiredIPs": 1, "region": null }), None),
            (json!({ "ips": ["192.0.2.1", "192.0.2.1"] }), Some(Reach::Entry)),
            (json!({ "ips": ["192.0.2.1", "2001:db8::1"] }), Some(Reach::Entry)),
            (json!({ "dnsRecordSet": { "zone": "", "ttl": 0 } }), None),
            (json!({ "dnsRecordSet": { "zone": "example.com" } }), Some(Reach::RecordSet)),
            (set(json!({})), None),
            (set(json!({ "provider": "route53" })), Some(Reach::RecordSet)),
            (set(json!({ "recordName": "a.example.org." })), Some(Reach::RecordSet)),
            (set(json!({ "recordName": "a.Example.com." })), None),
            (set(json!({ "ttl": -1 })), Some(Reach::RecordSet)),
            (set(json!({ "ttl": 86_401, "provider": "cloudflare" })), Some(Reach::RecordSet)),
            (set(json!({ "whenEmpty": "delete" })), Some(Reach::RecordSet)),
            (json!({ "minActive": 1_000 }), None),
            (json!({ "minActive": 1_001 }), Some(Reach::Minimum)),
            (json!({ "minActive": -1 }), Some(Reach::Minimum)),
            (json!({ "minActive": -1, "provider": "" }), Some(Reach::Pool)),
        ] {
            let mut spec = json!({ "provider": "digitalocean", "region": "nyc3", "ips": ["192.0.2.1"] });
            spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(of_pool(&spec).first().copied(), wrong, "{change}");
        }
        assert!(of_record_set(&set(json!({ "provider": "cloudflare" }))));
        assert!(!of_record_set(&json!({ "match": { "nodeLabel": "a" } })), "there is no record set");
    }
}
