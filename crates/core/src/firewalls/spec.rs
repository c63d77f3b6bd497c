//! Parses `spec.firewall` into rules and a list of mistakes. A mistake stops only the parts that depend on it. Also has
//! the firewalls that a pool owns, as its status remembers them, and their names.

use super::facts::{Direction, Rule, Targets};
use crate::model::provider::FirewallLimits;
use crate::model::spec::{Scope, SpecProblem};
use crate::model::words::shown;
use crate::model::{AccountId, Uid};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// An entry of `spec.firewall.ports` as written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawPort {
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// A port or a range. Empty for ICMP.
    pub port: String,
}

/// `spec.firewall` as written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawFirewall {
    /// The ports to open.
    pub ports: Vec<RawPort>,
    /// The permitted sources.
    pub sources: Vec<String>,
}

/// The firewall that a pool asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FirewallSpec {
    /// No firewall.
    #[default]
    None,
    /// No entry is usable. Open ports stay open.
    Unusable,
    /// These rules.
    Open(BTreeSet<Rule>),
}

impl FirewallSpec {
    /// Parses the spec. `limits` are those of the pool's provider, if it has firewalls.
    pub fn parse(
        raw: Option<&RawFirewall>,
        provider: &str,
        limits: Option<&FirewallLimits>,
        problems: &mut Vec<SpecProblem>,
    ) -> Self {
        let Some(RawFirewall { ports, sources }) = raw.filter(|raw| !raw.ports.is_empty()) else {
            return Self::None;
        };
        let mut note = |field: String, message: String| {
            problems.push(SpecProblem { scope: Scope::Firewall, field, message });
        };
        let Some(limits) = limits else {
            let message = format!("provider {:?} has no firewalls; remove spec.firewall", shown(provider));
            note("spec.firewall".to_owned(), message);
            return Self::Unusable;
        };
        for (field, count, most) in
            [("ports", ports.len(), limits.rules), ("sources", sources.len(), limits.sources)]
        {
            if count > most {
                let message = format!("{count} entries are too many; use at most {most}");
                note(format!("spec.firewall.{field}"), message);
                return Self::Unusable;
            }
        }
        let mut addresses = BTreeSet::new();
        for (position, text) in sources.iter().enumerate() {
            match source(text) {
                Ok(network) => {
                    addresses.insert(network);
                }
                Err(message) => note(format!("spec.firewall.sources[{position}]"), message),
            }
        }
        let mut opened = BTreeSet::new();
        for (position, raw) in ports.iter().enumerate() {
            match port(raw) {
                Ok(port) => {
                    opened.insert(port);
                }
                Err(message) => note(format!("spec.firewall.ports[{position}]"), message),
            }
        }
        if addresses.is_empty() {
            let message = "it has no usable source, so open ports stay open and FLIPOP opens no others; name networks, \
                           such as 0.0.0.0/0 for every IPv4 address";
            note("spec.firewall.sources".to_owned(), message.to_owned());
        }
        if opened.is_empty() || addresses.is_empty() {
            return Self::Unusable;
        }
        let targets = Targets { addresses, ..Targets::default() };
        let rule = |(protocol, ports)| Rule {
            denies: false,
            direction: Direction::Inbound,
            protocol,
            ports,
            targets: targets.clone(),
        };
        Self::Open(opened.into_iter().map(rule).collect())
    }
}

/// A network whose host bits are all zero.
fn source(text: &str) -> Result<String, String> {
    let given = shown(text);
    let bad = || format!("{given:?} is not a network; write one such as 192.0.2.0/24 or 2001:db8::/32");
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    let address: IpAddr = address.parse().map_err(|_unparsable| bad())?;
    let (bits, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32_u32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let digits = |prefix: &&str| prefix.bytes().all(|byte| byte.is_ascii_digit());
    let length = match prefix {
        None => width,
        Some(prefix) => Some(prefix).filter(digits).and_then(|p| p.parse().ok()).ok_or_else(bad)?,
    };
    let host = width.checked_sub(length).ok_or_else(bad)?;
    let network = bits.checked_shr(host).and_then(|net| net.checked_shl(host)).unwrap_or(0);
    if network != bits {
        return Err(format!("{given:?} has bits beyond its prefix; write the network that you mean"));
    }
    Ok(if host == 0 { address.to_string() } else { format!("{address}/{length}") })
}

/// Protocol and ports as the provider writes them.
fn port(raw: &RawPort) -> Result<(String, String), String> {
    let RawPort { protocol, port } = raw;
    match protocol.as_str() {
        "icmp" if port.is_empty() => return Ok((protocol.clone(), "0".to_owned())),
        "icmp" => return Err("icmp has no port; remove port".to_owned()),
        "tcp" | "udp" => {}
        _ => return Err(format!("{:?} is not a protocol; use tcp, udp or icmp", shown(protocol))),
    }
    let number = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        text.parse::<u16>().ok().filter(|_| plain)
    };
    let good = match port.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from < to),
        None => number(port).is_some(),
    };
    let form = "write one from 1 to 65535, or a range such as 30000-30100";
    if good {
        Ok((protocol.clone(), port.clone()))
    } else {
        Err(format!("{:?} is not a port; {form}", shown(port)))
    }
}

/// The prefix of the uid in a name.
const PREFIX: &str = "flipop-";

/// The number of characters of the uid in a name.
const UID_CHARS: usize = 8;

/// A firewall of a pool. The status holds it before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Its id. Empty until FLIPOP learns it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its account.
    pub account_id: AccountId,
}

/// The name of a pool's firewall with this number.
pub fn name_of(uid: &Uid, number: u64) -> String {
    let start: String = uid.0.chars().take(UID_CHARS).collect();
    format!("{PREFIX}{start}-{number}")
}

/// The number in the name of a firewall of ours.
pub fn number_of(name: &str) -> Option<u64> {
    let (uid, number) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && uid.chars().count() == UID_CHARS).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::examples::OF_BOTH;

    fn raw(ports: &[(&str, &str)], sources: &[&str]) -> RawFirewall {
        let port = |(protocol, port): &(&str, &str)| RawPort {
            protocol: (*protocol).to_owned(),
            port: (*port).to_owned(),
        };
        RawFirewall {
            ports: ports.iter().map(port).collect(),
            sources: sources.iter().map(ToString::to_string).collect(),
        }
    }

    fn parse(raw: &RawFirewall) -> (FirewallSpec, Vec<String>) {
        let mut problems = Vec::new();
        let spec = FirewallSpec::parse(Some(raw), "p", OF_BOTH.firewalls.as_ref(), &mut problems);
        assert!(problems.iter().all(|problem| problem.scope == Scope::Firewall));
        (spec, problems.into_iter().map(|problem| problem.field).collect())
    }

    fn opened(spec: &FirewallSpec) -> Vec<String> {
        let FirewallSpec::Open(rules) = spec else { return Vec::new() };
        let text = |rule: &Rule| {
            let sources: Vec<&str> = rule.targets.addresses.iter().map(String::as_str).collect();
            format!("{}/{} {}", rule.protocol, rule.ports, sources.join(","))
        };
        rules.iter().map(text).collect()
    }

    #[test]
    fn each_good_entry_is_a_rule_from_every_good_source_and_a_bad_one_is_ignored_alone() {
        let (spec, problems) = parse(&raw(
            &[("tcp", "443"), ("udp", "30000-30100"), ("icmp", ""), ("tcp", "http"), ("sctp", "1")],
            &["0.0.0.0/0", "::/0", "192.0.2.1/24", "192.0.2.7/32"],
        ));
        let from = "0.0.0.0/0,192.0.2.7,::/0";
        let right = ["icmp/0", "tcp/443", "udp/30000-30100"].map(|port| format!("{port} {from}"));
        assert_eq!(opened(&spec), right);
        let fields = ["spec.firewall.sources[2]", "spec.firewall.ports[3]", "spec.firewall.ports[4]"];
        assert_eq!(problems, fields);
    }

    #[test]
    fn without_ports_there_is_no_firewall_and_without_a_good_source_nothing_changes() {
        assert_eq!(FirewallSpec::parse(None, "p", None, &mut Vec::new()), FirewallSpec::None);
        assert_eq!(parse(&raw(&[], &["nonsense"])), (FirewallSpec::None, Vec::new()));
        for sources in [&[][..], &["nonsense"], &["10.0.0.1/8"]] {
            let (spec, problems) = parse(&raw(&[("tcp", "443")], sources));
            assert_eq!(spec, FirewallSpec::Unusable, "{sources:?}");
            assert!(problems.contains(&"spec.firewall.sources".to_owned()), "{problems:?}");
        }
        let (spec, problems) = parse(&raw(&[("tcp", "")], &["::/0"]));
        assert_eq!((spec, problems), (FirewallSpec::Unusable, vec!["spec.firewall.ports[0]".to_owned()]));
    }

    #[test]
    fn beyond_the_provider_s_limits_and_without_firewalls_nothing_is_followed() {
        let many: Vec<String> = (1..=51).map(|port: u32| port.to_string()).collect();
        let ports: Vec<(&str, &str)> = many.iter().map(|port| ("tcp", port.as_str())).collect();
        let (spec, problems) = parse(&raw(&ports, &["::/0"]));
        assert_eq!((spec, problems), (FirewallSpec::Unusable, vec!["spec.firewall.ports".to_owned()]));
        let mut problems = Vec::new();
        let raw = raw(&[("tcp", "1")], &["::/0"]);
        assert_eq!(FirewallSpec::parse(Some(&raw), "p", None, &mut problems), FirewallSpec::Unusable);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn ports_and_networks_out_of_bounds_are_told_apart_from_good_ones() {
        for bad in ["0", "65536", "9-8", "7-7", "-1", "1-", "080", "+80", " 80"] {
            assert!(port(&RawPort { protocol: "tcp".into(), port: bad.into() }).is_err(), "{bad}");
        }
        assert!(port(&RawPort { protocol: "icmp".into(), port: "8".into() }).is_err());
        for bad in ["", "/0", "0.0.0.0/33", "::/129", "1.2.3.4/", "1.2.3.4/+8", "::1/64", "example.com"] {
            assert!(source(bad).is_err(), "{bad}");
        }
        assert_eq!(source("2001:DB8::/32"), Ok("2001:db8::/32".to_owned()));
    }

    #[test]
    fn a_name_has_the_begin_of_the_uid_and_a_number() {
        let uid = Uid("0f3a9c1e-77aa-4b0e-9d3c-000000000000".into());
        assert_eq!(name_of(&uid, 12), "flipop-0f3a9c1e-12");
        assert_eq!(number_of("flipop-0f3a9c1e-12"), Some(12));
        for other in
            ["flipop-0f3a9c1e", "flipop-0f3a9c1e-", "flipop-base", "flipop-short-1", "flipop-0f3a9c1e-x"]
        {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
