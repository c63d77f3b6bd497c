//! The firewalls and tags of the handle, changed from outside the API.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::firewall_rules::render;
use super::firewalls::{Direction, Firewall, Parts, Rule};
use super::handle::Cloud;
use super::token::Token;
use super::wire::Provider;
use super::world::World;

/// A firewall as a test sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirewallView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The droplets that it names by id.
    pub droplets: BTreeSet<u64>,
    /// The tags that it names.
    pub tags: BTreeSet<String>,
    /// The rules for incoming traffic, as `protocol/ports/source`, with one entry per source.
    pub inbound: BTreeSet<String>,
    /// Droplets that a change has not reached yet.
    pub pending: BTreeSet<u64>,
    /// The whole firewall, for comparisons.
    pub whole: Value,
}

fn sources(rule: &Rule) -> impl Iterator<Item = String> {
    let droplets = rule.droplets.iter().map(|id| format!("droplet:{id}"));
    let others = rule.balancers.iter().chain(&rule.clusters).chain(&rule.tags).cloned();
    let all: Vec<String> = rule.addresses.iter().cloned().chain(droplets).chain(others).collect();
    let of = format!("{}/{}", rule.protocol, rule.ports);
    all.into_iter().map(move |source| format!("{of}/{source}"))
}

fn view(world: &World, firewall: &Firewall) -> FirewallView {
    let Firewall { id, parts, pending, .. } = firewall;
    let pending = pending.iter().filter(|pending| pending.until_ms > world.now_ms);
    let all = Token {
        name: String::new(),
        provider: Provider::DigitalOcean,
        scopes: vec!["*".into()],
        revoked: false,
    };
    let rendered = |rules: &[Rule], way| rules.iter().map(|rule| render(rule, way, &all)).collect::<Vec<_>>();
    FirewallView {
        id: id.clone(),
        name: parts.name.clone(),
        droplets: parts.droplets.iter().copied().collect(),
        tags: parts.tags.iter().cloned().collect(),
        inbound: parts.inbound.iter().filter(|rule| !rule.denies).flat_map(sources).collect(),
        pending: pending.map(|pending| pending.droplet).collect(),
        whole: json!({
            "id": id, "name": parts.name, "droplet_ids": parts.droplets, "tags": parts.tags,
            "inbound_rules": rendered(&parts.inbound, Direction::Inbound),
            "outbound_rules": rendered(&parts.outbound, Direction::Outbound),
        }),
    }
}

impl Cloud {
    /// Makes a firewall from outside the API, for these droplets and tags. It lets in SSH and lets out everything.
    /// Returns its id, or `None` if the API would refuse it.
    pub fn add_firewall(&self, name: &str, droplets: &[u64], tags: &[&str]) -> Option<String> {
        let rule = |protocol: &str, ports: &str| Rule {
            protocol: protocol.to_owned(),
            ports: ports.to_owned(),
            addresses: vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
            ..Rule::default()
        };
        self.with(|world| {
            world.tags.extend(tags.iter().map(ToString::to_string));
            let parts = Parts {
                name: name.to_owned(),
                inbound: vec![rule("tcp", "22")],
                outbound: ["tcp", "udp", "icmp"].map(|protocol| rule(protocol, "0")).to_vec(),
                droplets: droplets.to_vec(),
                tags: tags.iter().map(ToString::to_string).collect(),
            };
            world.make_firewall(parts).ok()
        })
    }

    /// Puts droplets into a firewall, or takes them out, as if by hand. Returns false if the API would refuse it.
    pub fn set_firewall_droplets(&self, id: &str, droplets: &[u64]) -> bool {
        self.alter(id, |parts| parts.droplets = droplets.to_vec())
    }

    /// Opens one more port of a firewall, as if by hand. Returns false if the API would refuse it.
    pub fn open_port(&self, id: &str, protocol: &str, ports: &str, source: &str) -> bool {
        self.add_rule(id, false, (protocol, ports, source))
    }

    /// Denies a port in a firewall, as if by hand. Returns false if the API would refuse it.
    pub fn deny_port(&self, id: &str, protocol: &str, ports: &str, source: &str) -> bool {
        self.add_rule(id, true, (protocol, ports, source))
    }

    fn add_rule(&self, id: &str, denies: bool, (protocol, ports, source): (&str, &str, &str)) -> bool {
        let (protocol, ports, addresses) = (protocol.to_owned(), ports.to_owned(), vec![source.to_owned()]);
        let rule = Rule { denies, protocol, ports, addresses, ..Rule::default() };
        self.alter(id, |parts| parts.inbound.push(rule))
    }

    /// Closes a port of a firewall for all sources, as if by hand. Returns false if the API would refuse it.
    pub fn close_port(&self, id: &str, protocol: &str, ports: &str) -> bool {
        self.alter(id, |parts| parts.inbound.retain(|rule| rule.protocol != protocol || rule.ports != ports))
    }

    fn alter(&self, id: &str, change: impl FnOnce(&mut Parts)) -> bool {
        self.with(|world| {
            let Some(mut parts) = world.firewalls.now().get(id).map(|found| found.parts.clone()) else {
                return false;
            };
            change(&mut parts);
            world.remake_firewall(id, parts).is_ok()
        })
    }

    /// Deletes a firewall from outside the API. Returns false if there was none.
    pub fn delete_firewall(&self, id: &str) -> bool {
        self.with(|world| world.drop_firewall(id))
    }

    /// All firewalls, in the order in which they were made.
    pub fn firewalls(&self) -> Vec<FirewallView> {
        self.with(|world| {
            let mut all: Vec<&Firewall> = world.firewalls.now().values().collect();
            all.sort_by_key(|firewall| firewall.order);
            all.into_iter().map(|firewall| view(world, firewall)).collect()
        })
    }

    /// Sets the tags of a droplet.
    pub fn tag(&self, id: u64, tags: &[&str]) {
        self.with(|world| {
            world.tags.extend(tags.iter().map(ToString::to_string));
            if let Some(droplet) = world.droplets.get_mut(&id) {
                droplet.tags = tags.iter().map(ToString::to_string).collect();
            }
        });
    }

    /// The ids of the firewalls that govern a droplet, by its id or by a tag.
    pub fn governing(&self, id: u64) -> BTreeSet<String> {
        self.with(|world| {
            let tags = world.droplets.get(&id).map(|droplet| droplet.tags.clone()).unwrap_or_default();
            let all = world.firewalls.now().values();
            all.filter(|firewall| firewall.covers(id, &tags)).map(|firewall| firewall.id.clone()).collect()
        })
    }

    /// The traffic that may reach a droplet from outside, as `protocol/ports/source`. `None`: everything, since no
    /// firewall governs it. A pending change counts as done if it closes something, and as not done if it opens
    /// something.
    pub fn lets_in(&self, id: u64) -> Option<BTreeSet<String>> {
        self.with(|world| {
            let tags = world.droplets.get(&id).map(|droplet| droplet.tags.clone()).unwrap_or_default();
            let all = world.firewalls.now().values();
            let governing: Vec<&Firewall> = all.filter(|firewall| firewall.covers(id, &tags)).collect();
            if governing.is_empty() {
                return None;
            }
            let pending = |firewall: &Firewall| {
                firewall
                    .pending
                    .iter()
                    .any(|pending| pending.droplet == id && pending.until_ms > world.now_ms)
            };
            let inbound = |denies: bool| {
                let of = governing.iter().filter(move |firewall| denies || !pending(firewall));
                let rules = of.flat_map(|firewall| firewall.parts.inbound.iter());
                rules.filter(move |rule| rule.denies == denies).flat_map(sources).collect::<BTreeSet<_>>()
            };
            Some(inbound(false).difference(&inbound(true)).cloned().collect())
        })
    }
}

impl World {
    /// Gives a droplet a tag, or removes it.
    pub(super) fn tag_droplet(&mut self, id: u64, name: &str, on: bool) {
        if let Some(droplet) = self.droplets.get_mut(&id) {
            droplet.tags.retain(|tag| tag != name);
            if on {
                droplet.tags.push(name.to_owned());
            }
        }
    }
}
