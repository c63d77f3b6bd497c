//! How simulated firewalls are made, changed and deleted.
//!
//! Invariants: no two firewalls have the same name. They name only droplets and tags that exist. The effect of a
//! change on a droplet is pending for as long as the knob says.

use std::collections::{BTreeMap, BTreeSet};

use super::change::ChangeKind;
use super::do_answers::Problem;
use super::firewalls::{DROPLETS_MAX, Firewall, Parts, Pending, RULES_MAX, TAGS_MAX};
use super::world::World;

impl Parts {
    /// Refuses what the API refuses.
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

impl World {
    /// Droplets that a firewall governs.
    fn governed(&self, parts: &Parts) -> BTreeSet<u64> {
        let tagged = self.droplets.values().filter(|droplet| {
            parts.droplets.contains(&droplet.id) || parts.tags.iter().any(|tag| droplet.tags.contains(tag))
        });
        tagged.map(|droplet| droplet.id).collect()
    }

    /// The map of firewalls, for a change now.
    pub(super) fn firewalls_mut(&mut self) -> &mut BTreeMap<String, Firewall> {
        self.firewalls.change(self.now_ms, self.knobs.list_lag_ms)
    }

    /// Makes a firewall.
    pub(super) fn make_firewall(&mut self, parts: Parts) -> Result<String, Problem> {
        self.check_parts(&parts)?;
        if self.firewalls.now().values().any(|other| other.parts.name == parts.name) {
            return Err(Problem::new(409, "duplicate name"));
        }
        let (id, order, created_ms) = (self.seed.uuid(), self.fresh_id(), self.now_ms);
        let until_ms = self.now_ms.saturating_add(self.knobs.firewall_ms);
        let pending = self.governed(&parts).into_iter();
        let pending = pending.map(|droplet| Pending { droplet, removing: false, until_ms }).collect();
        let made = Firewall { id: id.clone(), parts, created_ms, order, pending };
        self.firewalls_mut().insert(id.clone(), made);
        self.note(ChangeKind::Firewall(id.clone()));
        Ok(id)
    }

    /// Changes the parts of a firewall. The change is pending on each droplet that it affects.
    pub(super) fn remake_firewall(&mut self, id: &str, parts: Parts) -> Result<(), Problem> {
        self.check_parts(&parts)?;
        let taken = |other: &Firewall| other.id != id && other.parts.name == parts.name;
        if self.firewalls.now().values().any(taken) {
            return Err(Problem::new(409, "duplicate name"));
        }
        let before = self.firewalls.now().get(id).ok_or_else(Problem::not_found)?.parts.clone();
        if before == parts {
            return Ok(());
        }
        let rules = (&before.inbound, &before.outbound) != (&parts.inbound, &parts.outbound);
        let (was, is) = (self.governed(&before), self.governed(&parts));
        let (now_ms, until_ms) = (self.now_ms, self.now_ms.saturating_add(self.knobs.firewall_ms));
        let told = is.iter().filter(|droplet| rules || !was.contains(droplet));
        let told = told.map(|droplet| (*droplet, false));
        let told: Vec<(u64, bool)> =
            told.chain(was.difference(&is).map(|droplet| (*droplet, true))).collect();
        if let Some(firewall) = self.firewalls_mut().get_mut(id) {
            firewall.parts = parts;
            firewall.pending.retain(|pending| pending.until_ms > now_ms);
            for (droplet, removing) in told {
                firewall.pending.retain(|pending| pending.droplet != droplet);
                firewall.pending.push(Pending { droplet, removing, until_ms });
            }
        }
        self.note(ChangeKind::Firewall(id.to_owned()));
        Ok(())
    }

    /// Deletes a firewall. Returns false if there was none.
    pub(super) fn drop_firewall(&mut self, id: &str) -> bool {
        let gone = self.firewalls_mut().remove(id).is_some();
        if gone {
            self.note(ChangeKind::Firewall(id.to_owned()));
        }
        gone
    }

    /// A destroyed droplet leaves its firewalls.
    pub(super) fn leave_firewalls(&mut self, droplet: u64) {
        for firewall in self.firewalls_mut().values_mut() {
            firewall.parts.droplets.retain(|id| *id != droplet);
            firewall.pending.retain(|pending| pending.droplet != droplet);
        }
    }

    fn check_parts(&self, parts: &Parts) -> Result<(), Problem> {
        parts.check()?;
        if let Some(id) = parts.droplets.iter().find(|id| !self.droplets.contains_key(id)) {
            return Err(Problem::new(400, &format!("droplet {id} does not exist")));
        }
        if let Some(tag) = parts.tags.iter().find(|tag| !self.tags.contains(*tag)) {
            return Err(Problem::new(400, &format!("tag {tag} does not exist")));
        }
        Ok(())
    }
}
