//! The parts and limits of cloud firewalls at the simulated `DigitalOcean`.
//!
//! Changes are in `firewall_changes`, endpoints in `firewall_calls`, rules in `firewall_rules`. Invariant: a
//! firewall has at least one rule, at most 10 droplets and at most 50 rules.

/// Most droplets that a firewall names by id.
pub(super) const DROPLETS_MAX: usize = 10;
/// Most rules of both directions together.
pub(super) const RULES_MAX: usize = 50;
/// Most tags of a firewall.
pub(super) const TAGS_MAX: usize = 5;

/// The direction of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Inbound,
    Outbound,
}

impl Direction {
    /// The key of its list of rules.
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Inbound => "inbound_rules",
            Self::Outbound => "outbound_rules",
        }
    }

    /// The key of the other side of a rule.
    pub(super) fn targets(self) -> &'static str {
        match self {
            Self::Inbound => "sources",
            Self::Outbound => "destinations",
        }
    }
}

/// A rule. The other side is kept in order, so that two spellings of one rule are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// Whether it denies its traffic, whatever other firewalls permit.
    pub(super) denies: bool,
    pub(super) protocol: String,
    /// `0` for all.
    pub(super) ports: String,
    pub(super) addresses: Vec<String>,
    pub(super) droplets: Vec<u64>,
    pub(super) balancers: Vec<String>,
    pub(super) clusters: Vec<String>,
    pub(super) tags: Vec<String>,
}

/// The parts of a firewall.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) inbound: Vec<Rule>,
    pub(super) outbound: Vec<Rule>,
    pub(super) droplets: Vec<u64>,
    pub(super) tags: Vec<String>,
}

/// A change that has not reached a droplet yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) droplet: u64,
    pub(super) removing: bool,
    pub(super) until_ms: u64,
}

/// A firewall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Firewall {
    pub(super) id: String,
    pub(super) parts: Parts,
    pub(super) created_ms: u64,
    /// Position in lists.
    pub(super) order: u64,
    pub(super) pending: Vec<Pending>,
}

impl Firewall {
    /// Whether it governs a droplet, by id or by tag.
    pub(super) fn covers(&self, id: u64, tags: &[String]) -> bool {
        self.parts.droplets.contains(&id) || self.parts.tags.iter().any(|tag| tags.contains(tag))
    }
}
