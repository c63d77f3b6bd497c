//! Firewalls as a provider shows them.

use crate::model::machine::MachineId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Which way the traffic of a rule goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// To the machine.
    Inbound,
    /// From the machine.
    Outbound,
}

/// What a rule is about: all of it as the provider writes it, so that a rule can be named to be removed.
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

/// A rule of a firewall, which permits something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Which way.
    pub direction: Direction,
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// A port, a range, or `0` for all.
    pub ports: String,
    /// Whom it is about.
    pub targets: Targets,
}

impl Rule {
    /// The same rule in the one form in which two ways to write it are equal.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut rule = self.clone();
        rule.targets.addresses = self.targets.addresses.iter().map(|text| network(text)).collect();
        rule
    }
}

/// A network of a single address is that address; an address has one spelling.
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
    /// What it permits.
    pub rules: BTreeSet<Rule>,
    /// Machines that its last changes have not reached, and whether it leaves them.
    pub pending: BTreeMap<MachineId, bool>,
}

/// What one look at an account shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// Every firewall.
    pub firewalls: Vec<Firewall>,
    /// Every machine with its tags; `None` where it was not looked for, or may not be read.
    pub machines: Option<BTreeMap<MachineId, BTreeSet<String>>>,
    /// Scopes that the token lacks, so that something is left out.
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
