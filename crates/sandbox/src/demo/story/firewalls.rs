//! Firewalls in the account: which come and go, which ports they open, and on which nodes.

use super::super::teller::Line;
use super::Story;
use flipop_cloud::FirewallView;
use std::collections::{BTreeMap, BTreeSet};

impl Story {
    /// Tells how a firewall has changed since it was last told.
    pub(super) fn tell_firewall(&mut self, at_ms: u64, id: &str) {
        let now = self.stage.cloud.cloud().firewalls().into_iter().find(|view| view.id == id);
        let before = match &now {
            Some(view) => self.firewalls.insert(id.to_owned(), view.clone()),
            None => self.firewalls.remove(id),
        };
        for text in self.changes(before.as_ref(), now.as_ref()) {
            self.teller.line(at_ms, Line::Firewall, &text);
        }
    }

    fn changes(&self, before: Option<&FirewallView>, now: Option<&FirewallView>) -> Vec<String> {
        let (none, no_rules) = (BTreeSet::new(), BTreeSet::new());
        let Some(view) = now else {
            return before.map(|view| format!("{} is deleted", view.name)).into_iter().collect();
        };
        let (was, had) = before.map_or((&none, &no_rules), |before| (&before.droplets, &before.inbound));
        let nodes =
            |of: Vec<&u64>| -> Vec<String> { of.into_iter().map(|droplet| self.node(*droplet)).collect() };
        let name = &view.name;
        let mut lines = Vec::new();
        let mut tell = |verb: &str, what: String| {
            if !what.is_empty() {
                lines.push(format!("{name} {verb} {what}"));
            }
        };
        tell("opens", ports(view.inbound.difference(had)));
        tell("now covers", nodes(view.droplets.difference(was).collect()).join(", "));
        tell("closes", ports(had.difference(&view.inbound)));
        tell("no longer covers", nodes(was.difference(&view.droplets).collect()).join(", "));
        lines
    }
}

/// Rules in words: each port with all its sources.
fn ports<'a>(rules: impl Iterator<Item = &'a String>) -> String {
    let mut ports: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for rule in rules {
        let mut fields = rule.splitn(3, '/');
        let (protocol, port) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let name = if port == "0" { protocol.to_owned() } else { format!("{protocol} {port}") };
        ports.entry(name).or_default().push(fields.next().unwrap_or_default());
    }
    let told = ports.into_iter().map(|(port, sources)| format!("{port} for {}", sources.join(" and ")));
    told.collect::<Vec<_>>().join(", ")
}
