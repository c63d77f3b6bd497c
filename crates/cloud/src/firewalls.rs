//! Cloud firewalls at the simulated `DigitalOcean`: what they are.
//!
//! Owns their parts and limits; changes are in `firewall_changes`, endpoints in `firewall_calls`, rules in
//! `firewall_rules`. Invariant: a firewall has at least one rule, at most 10 droplets and at most 50 rules.

use super::do_answers::Problem;
use super::firewall_rules::Rule;

/// Droplets that a firewall names by their ids, at most.
pub(super) const DROPLETS_MAX: usize = 10;
/// Rules of both directions, at most.
pub(super) const RULES_MAX: usize = 50;
/// Tags of a firewall, at most.
pub(super) const TAGS_MAX: usize = 5;

/// What a firewall is made of.
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

impl Parts {
    /// What the API refuses.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let refuse = |message: &str| Err(Problem::new(400, message));
        let letters = |text: &str| {
            let first = text.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
            let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
            first && rest && text.len() >= 2
        };
        if !letters(&self.name) || self.name.len() > 255 {
            return refuse("name must begin with a letter or digit and hold only those, dots and dashes");
        }
        if self.inbound.is_empty() && self.outbound.is_empty() {
            return refuse("a firewall must have at least one inbound or outbound rule");
        }
        if self.inbound.len().saturating_add(self.outbound.len()) > RULES_MAX {
            return refuse("a firewall can have at most 50 rules");
        }
        if self.droplets.len() > DROPLETS_MAX {
            return refuse("a firewall can have at most 10 Droplets");
        }
        if self.tags.len() > TAGS_MAX {
            return refuse("a firewall can have at most 5 tags");
        }
        Ok(())
    }
}

impl Firewall {
    /// Whether it governs a droplet, by id or by tag.
    pub(super) fn covers(&self, id: u64, tags: &[String]) -> bool {
        self.parts.droplets.contains(&id) || self.parts.tags.iter().any(|tag| tags.contains(tag))
    }
}
