//! Firewalls as a provider shows them, and how their rules differ from the wanted ones.

use crate::model::MachineId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The direction of a rule's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// To the machine.
    Inbound,
    /// From the machine.
    Outbound,
}

/// The other side of a rule's traffic, exactly as the provider writes it. FLIPOP has to repeat it to remove a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Targets {
    /// Addresses and networks.
    pub addresses: BTreeSet<String>,
    /// Ids of machines.
    pub machines: BTreeSet<String>,
    /// Ids of load balancers.
    pub balancers: BTreeSet<String>,
    /// Ids of clusters.
    pub clusters: BTreeSet<String>,
    /// Names of tags.
    pub tags: BTreeSet<String>,
}

/// A rule of a firewall.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Whether it denies its traffic. A denial in any firewall of a machine outweighs the permissions in all others.
    pub denies: bool,
    /// Its direction.
    pub direction: Direction,
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// A port, a range, or `0` for all.
    pub ports: String,
    /// The other side of the traffic.
    pub targets: Targets,
}

impl Rule {
    /// The rule in canonical form, in which rules that differ only in spelling are equal.
    pub fn canonical(&self) -> Self {
        let mut rule = self.clone();
        rule.targets.addresses = self.targets.addresses.iter().map(|text| network(text)).collect();
        rule
    }

    /// Whether some traffic is that of both rules, as far as their addresses tell.
    pub fn meets(&self, other: &Self) -> bool {
        let (networks, others) = (&self.targets.addresses, &other.targets.addresses);
        self.direction == other.direction
            && self.protocol == other.protocol
            && range(&self.ports).zip(range(&other.ports)).is_none_or(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && networks.iter().any(|one| others.iter().any(|other| overlap(one, other)))
    }
}

/// The wanted rules that the firewall lacks.
pub fn lacking(intended: &BTreeSet<Rule>, there: &BTreeSet<Rule>) -> Vec<Rule> {
    let there: BTreeSet<Rule> = there.iter().map(Rule::canonical).collect();
    intended.iter().filter(|rule| !there.contains(&rule.canonical())).cloned().collect()
}

/// The rules that are not wanted, as the provider writes them.
pub fn foreign(intended: &BTreeSet<Rule>, there: &BTreeSet<Rule>) -> Vec<Rule> {
    let intended: BTreeSet<Rule> = intended.iter().map(Rule::canonical).collect();
    there.iter().filter(|rule| !intended.contains(&rule.canonical())).cloned().collect()
}

/// The rules that deny something, as the provider writes them. No pool asks for any.
pub fn denials(there: &BTreeSet<Rule>) -> Vec<Rule> {
    there.iter().filter(|rule| rule.denies).cloned().collect()
}

/// The first and the last port. `None` for all, and for what cannot be read.
fn range(ports: &str) -> Option<(u16, u16)> {
    let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
    from.parse().ok().zip(to.parse().ok()).filter(|(from, _)| *from > 0)
}

/// Whether two networks have an address in common.
fn overlap(one: &str, other: &str) -> bool {
    let parsed = |text: &str| {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let (bits, width) = match address.parse().ok()? {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32_u32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let prefix: u32 = prefix.map_or(Some(width), |prefix| prefix.parse().ok())?;
        Some((bits, width, prefix.min(width)))
    };
    let Some(((a, width, long), (b, other_width, short))) = parsed(one).zip(parsed(other)) else {
        return false;
    };
    let host = width.saturating_sub(long.min(short));
    width == other_width && (a ^ b).checked_shr(host).unwrap_or(0) == 0
}

/// The canonical spelling of a network. A network of a single address becomes that address.
fn network(text: &str) -> String {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    let Ok(parsed) = address.parse::<IpAddr>() else { return text.to_owned() };
    let single = if parsed.is_ipv4() { "32" } else { "128" };
    match prefix.filter(|prefix| *prefix != single) {
        Some(prefix) => format!("{parsed}/{prefix}"),
        None => parsed.to_string(),
    }
}

/// A firewall as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firewall {
    /// Its id at the provider.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The machines that it names by their ids.
    pub machines: BTreeSet<MachineId>,
    /// The tags whose machines it governs.
    pub tags: BTreeSet<String>,
    /// Its rules.
    pub rules: BTreeSet<Rule>,
    /// Machines that its last changes have not reached. The value says whether the machine is about to leave it.
    pub pending: BTreeMap<MachineId, bool>,
}

/// The result of one look at an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// Every firewall.
    pub firewalls: Vec<Firewall>,
    /// Every machine with its tags. `None` if the look did not ask for them, or the token may not read them.
    pub machines: Option<BTreeMap<MachineId, BTreeSet<String>>>,
    /// Scopes that the token lacks. The look leaves something out because of them.
    pub missing: BTreeSet<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(protocol: &str, ports: &str, from: &str) -> Rule {
        Rule {
            denies: false,
            direction: Direction::Inbound,
            protocol: protocol.to_owned(),
            ports: ports.to_owned(),
            targets: Targets { addresses: [from.to_owned()].into(), ..Targets::default() },
        }
    }

    #[test]
    fn a_rule_with_another_source_is_another_rule_and_one_spelt_otherwise_is_not() {
        let tcp = |ports, from| rule("tcp", ports, from);
        let intended = BTreeSet::from([tcp("1", "192.0.2.1"), tcp("2", "::/0")]);
        let there = BTreeSet::from([tcp("1", "192.0.2.1/32"), tcp("2", "0.0.0.0/0"), tcp("3", "::/0")]);
        assert_eq!(lacking(&intended, &there), [tcp("2", "::/0")]);
        assert_eq!(foreign(&intended, &there), [tcp("2", "0.0.0.0/0"), tcp("3", "::/0")]);
    }

    #[test]
    fn two_rules_meet_if_protocol_ports_and_networks_have_something_in_common() {
        let opens = rule("tcp", "443", "192.0.2.0/24");
        for (protocol, ports, from, meets) in [
            ("tcp", "443", "0.0.0.0/0", true),
            ("tcp", "0", "192.0.2.7", true),
            ("tcp", "400-443", "192.0.2.128/25", true),
            ("tcp", "444-500", "0.0.0.0/0", false),
            ("udp", "443", "0.0.0.0/0", false),
            ("tcp", "443", "198.51.100.0/24", false),
            ("tcp", "443", "::/0", false),
            ("tcp", "443", "nonsense", false),
        ] {
            let other = rule(protocol, ports, from);
            assert_eq!((opens.meets(&other), other.meets(&opens)), (meets, meets), "{other:?}");
        }
        let nowhere = Rule { targets: Targets::default(), ..opens.clone() };
        let outbound = Rule { direction: Direction::Outbound, ..opens.clone() };
        assert!(!nowhere.meets(&opens) && !outbound.meets(&opens));
        let (all, v6) = (rule("icmp", "0", "::/0"), rule("icmp", "0", "2001:db8::/32"));
        assert!(all.meets(&v6), "a whole family");
    }

    #[test]
    fn networks_have_one_spelling() {
        for (text, right) in [
            ("192.0.2.7/32", "192.0.2.7"),
            ("192.0.2.7", "192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8:0::/32", "2001:db8::/32"),
            ("::1/128", "::1"),
            ("nonsense/9", "nonsense/9"),
        ] {
            assert_eq!(network(text), right);
        }
    }
}
