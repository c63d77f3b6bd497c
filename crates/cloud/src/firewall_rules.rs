//! Rules of the simulated firewalls: how to write and read them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::do_answers::Problem;
use super::firewalls::{Direction, Rule};
use super::token::Token;
use super::wire::DROPLETS;

/// Most addresses of one rule.
const ADDRESSES_MAX: usize = 1_000;

fn refuse<T>(message: &str) -> Result<T, Problem> {
    Err(Problem::new(400, message))
}

fn is_network(text: &str) -> bool {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let (bits, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32_u32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let Some(prefix) = prefix else { return true };
    let Some(prefix) = prefix.parse::<u32>().ok().filter(|prefix| *prefix <= width) else { return false };
    // Bits beyond the prefix name a host in the network, and a host is not a network.
    let host = width.saturating_sub(prefix);
    bits.checked_shr(host).and_then(|net| net.checked_shl(host)).unwrap_or(0) == bits
}

fn ports(protocol: &str, value: Option<&Value>) -> Result<String, Problem> {
    let text = match value {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text.as_str(),
        Some(_) => return refuse("ports must be a string"),
    };
    if protocol == "icmp" || ["", "0", "all"].contains(&text) {
        return if protocol == "icmp" || !text.is_empty() {
            Ok("0".to_owned())
        } else {
            refuse("ports is required")
        };
    }
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let good = match text.split_once('-') {
        Some((from, to)) => port(from).zip(port(to)).is_some_and(|(from, to)| from < to),
        None => port(text).is_some(),
    };
    if good { Ok(text.to_owned()) } else { refuse("ports is no port and no range of ports") }
}

/// The list below a key. Null and absent count as empty.
fn list<'a>(object: &'a Map<String, Value>, key: &str, complaint: &str) -> Result<&'a [Value], Problem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => refuse(complaint),
    }
}

/// Texts below a key, sorted and without duplicates.
pub(super) fn texts(object: &Map<String, Value>, key: &str) -> Result<Vec<String>, Problem> {
    let entries =
        list(object, key, "a list is expected")?.iter().map(|entry| entry.as_str().map(str::to_owned));
    let texts: Option<BTreeSet<String>> = entries.collect();
    texts.map_or_else(|| refuse("a string is expected"), |texts| Ok(texts.into_iter().collect()))
}

/// Ids of droplets below a key, sorted and without duplicates.
pub(super) fn ids(object: &Map<String, Value>, key: &str) -> Result<Vec<u64>, Problem> {
    let entries = list(object, key, "a list of ids is expected")?.iter().map(Value::as_u64);
    let ids: Option<BTreeSet<u64>> = entries.collect();
    ids.map_or_else(|| refuse("an id is a number"), |ids| Ok(ids.into_iter().collect()))
}

fn rule(value: &Value, direction: Direction) -> Result<Rule, Problem> {
    let Some(object) = value.as_object() else { return refuse("a rule is an object") };
    let protocol = object.get("protocol").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !["tcp", "udp", "icmp"].contains(&protocol.as_str()) {
        return refuse("protocol must be tcp, udp or icmp");
    }
    let ports = ports(&protocol, object.get("ports"))?;
    let Some(targets) = object.get(direction.targets()).and_then(Value::as_object) else {
        return refuse("a rule needs sources or destinations");
    };
    let denies = match object.get("action") {
        None | Some(Value::Null) => false,
        Some(action) if action == "allow" => false,
        Some(action) if action == "deny" => true,
        Some(_) => return refuse("action must be allow or deny"),
    };
    let rule = Rule {
        denies,
        protocol,
        ports,
        addresses: texts(targets, "addresses")?,
        droplets: ids(targets, "droplet_ids")?,
        balancers: texts(targets, "load_balancer_uids")?,
        clusters: texts(targets, "kubernetes_ids")?,
        tags: texts(targets, "tags")?,
    };
    let empty = rule.addresses.is_empty()
        && rule.droplets.is_empty()
        && rule.balancers.is_empty()
        && rule.clusters.is_empty()
        && rule.tags.is_empty();
    if empty {
        return refuse("a rule needs at least one source or destination");
    }
    if rule.addresses.len() > ADDRESSES_MAX {
        return refuse("a rule can have at most 1000 addresses");
    }
    match rule.addresses.iter().find(|text| !is_network(text)) {
        Some(bad) => refuse(&format!("{bad} is no address and no network")),
        None => Ok(rule),
    }
}

/// The rules of one direction in a body, without duplicates.
pub(super) fn rules(body: &Map<String, Value>, direction: Direction) -> Result<Vec<Rule>, Problem> {
    let mut rules: Vec<Rule> = Vec::new();
    for value in list(body, direction.list(), "a list of rules is expected")? {
        let rule = rule(value, direction)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Ok(rules)
}

/// A rule as a token sees it. Parts that the token may not read are left out silently.
pub(super) fn render(rule: &Rule, direction: Direction, token: &Token) -> Value {
    let mut targets = Map::new();
    let mut put = |key: &str, values: Vec<Value>| {
        if !values.is_empty() {
            targets.insert(key.to_owned(), Value::Array(values));
        }
    };
    let strings = |texts: &[String]| texts.iter().map(|text| json!(text)).collect::<Vec<_>>();
    put("addresses", strings(&rule.addresses));
    if token.allows(DROPLETS.read_scope) {
        put("droplet_ids", rule.droplets.iter().map(|id| json!(id)).collect());
    }
    put("load_balancer_uids", strings(&rule.balancers));
    put("kubernetes_ids", strings(&rule.clusters));
    if token.allows("tag:read") {
        put("tags", strings(&rule.tags));
    }
    let action = if rule.denies { "deny" } else { "allow" };
    json!({"protocol": rule.protocol, "ports": rule.ports, "action": action, direction.targets(): targets})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_with_host_bits_and_ports_out_of_range_are_refused() {
        for good in ["0.0.0.0/0", "::/0", "192.0.2.0/24", "192.0.2.7", "2001:db8::1/128"] {
            assert!(is_network(good), "{good}");
        }
        for bad in ["", "0.0.0.0/33", "192.0.2.1/24", "2001:db8::1/64", "example.com", "1.2.3.4/", "1.2.3/8"]
        {
            assert!(!is_network(bad), "{bad}");
        }
        for (protocol, text, right) in [
            ("tcp", "443", Some("443")),
            ("tcp", "all", Some("0")),
            ("udp", "30000-30100", Some("30000-30100")),
            ("icmp", "", Some("0")),
            ("tcp", "", None),
            ("tcp", "65536", None),
            ("tcp", "9-8", None),
            ("tcp", "http", None),
        ] {
            assert_eq!(ports(protocol, Some(&json!(text))).ok().as_deref(), right, "{protocol} {text}");
        }
    }
}
