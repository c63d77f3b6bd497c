//! Firewalls as a provider shows them.

use crate::model::machine::MachineId;
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

/// A rule of a firewall. Each rule permits something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
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
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut rule = self.clone();
        rule.targets.addresses = self.targets.addresses.iter().map(|text| network(text)).collect();
        rule
    }
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
