//! Changes in the accounts: where addresses go, which records come and go, and why.

use super::super::pools::{self, Cluster, RECORD_SET_KIND, Standing};
use super::super::records::{self, RecordSet};
use super::super::teller::{Line, brief, seconds};
use super::{Move, Story};
use flipop_cloud::{ChangeKind, RecordVerb};
use std::net::Ipv4Addr;

impl Story {
    pub(super) fn tell_account(&mut self, at_ms: u64, kind: &ChangeKind) {
        match kind {
            ChangeKind::IpReserved(ip) => {
                self.teller.line(at_ms, Line::Account, &format!("{ip} is created"));
            }
            ChangeKind::AssignStarted { ip, droplet } => self.begin(at_ms, *ip, *droplet),
            ChangeKind::Assigned { ip, droplet, from } => self.finish(at_ms, *ip, *droplet, *from),
            ChangeKind::Unassigned { ip, from } => {
                let node = self.node(*from);
                self.teller.line(at_ms, Line::Account, &format!("{ip} is taken off {node}"));
            }
            ChangeKind::ActionErrored(ip) => {
                self.open.remove(ip);
                self.teller.line(at_ms, Line::Account, &format!("the move of {ip} failed"));
            }
            ChangeKind::IpReleased(ip) => {
                self.teller.line(at_ms, Line::Account, &format!("{ip} is released"));
            }
            ChangeKind::Record { provider, verb, fqdn, rtype, data, replaced, id: _ } => {
                let verb = match (verb, replaced) {
                    (RecordVerb::Created, _) => "created".to_owned(),
                    (RecordVerb::Deleted, _) => "deleted".to_owned(),
                    (RecordVerb::Updated, Some(old)) if old != data => format!("put in place of {old}"),
                    (RecordVerb::Updated, _) => "updated".to_owned(),
                };
                let provider = provider.name();
                let reason = self.record_reason(at_ms, provider, (fqdn, data), verb != "deleted");
                let text = format!("{fqdn} {rtype} {data} {verb} at {provider}{reason}");
                self.teller.line(at_ms, Line::Record, &text);
            }
            ChangeKind::Firewall(id) => self.tell_firewall(at_ms, id),
            ChangeKind::DropletAdded(_) | ChangeKind::DropletDestroyed(_) => {}
        }
    }

    /// Why a record came or went, as far as the cluster and the account show it.
    fn record_reason(
        &mut self,
        at_ms: u64,
        provider: &str,
        (fqdn, data): (&str, &str),
        came: bool,
    ) -> String {
        let Ok(ip) = data.parse::<Ipv4Addr>() else { return String::new() };
        let zones = &self.stage.zones;
        let here = |set: &RecordSet| {
            let located = set.located(zones);
            located.is_some_and(|(zone, name)| name == fqdn && zone.provider.name() == provider)
        };
        let sets = records::record_sets(&self.stage.api);
        // Other objects with this name write nothing.
        let Some(owner) = sets.into_iter().filter(here).min_by_key(RecordSet::has_failed) else {
            return String::new();
        };
        if owner.kind == RECORD_SET_KIND {
            return match self.unannotated.get(&ip).filter(|_| !came && owner.follows_annotations()) {
                Some(node) => format!(": {node} has lost the annotation"),
                None => owner.reason(ip, &Cluster::now(&self.stage.api)),
            };
        }
        let object = &owner.object;
        self.rounds.insert(object.clone(), at_ms);
        if came {
            let last = self.moves.iter_mut().rev().find(|done| done.ip == ip);
            if let Some(done) = last {
                done.published_ms.get_or_insert(at_ms);
            }
            let droplet = self.stage.cloud.cloud().ip(ip).and_then(|view| view.droplet);
            return droplet
                .map_or_else(String::new, |droplet| format!(": it is on {} now", self.node(droplet)));
        }
        let leaves = self.open.get(&ip).and_then(|open| open.from.clone());
        let place = self.stage.cloud.cloud().ip(ip).and_then(|view| view.droplet);
        match leaves.or_else(|| place.map(|droplet| self.node(droplet))) {
            Some(node) if self.matches(object, &node) => format!(": it leaves {node}"),
            Some(node) => format!(": {node} no longer matches {object}"),
            None => ": it is on no node".to_owned(),
        }
    }

    fn begin(&mut self, at_ms: u64, ip: Ipv4Addr, droplet: u64) {
        let to = self.node(droplet);
        let view = self.stage.cloud.cloud().ip(ip);
        let from =
            view.and_then(|view| view.droplet).filter(|from| *from != droplet).map(|from| self.node(from));
        let (reason, lost_ms) = self.reason(ip, from.as_deref(), &to);
        let text = match (&from, lost_ms) {
            (Some(from), Some(lost_ms)) => {
                let after = brief(at_ms.saturating_sub(lost_ms));
                format!(
                    "{ip} begins to move from {from} to {to}, {after} after {from} stopped matching: {reason}"
                )
            }
            (Some(from), None) => format!("{ip} begins to move from {from} to {to}: {reason}"),
            (None, _) => format!("{ip} begins to move to {to}: {reason}"),
        };
        self.teller.line(at_ms, Line::Account, &text);
        let begun = Move {
            ip,
            from,
            to,
            reason,
            lost_ms,
            began_ms: at_ms,
            done_ms: at_ms,
            confirmed_ms: None,
            published_ms: None,
        };
        self.open.insert(ip, begun);
    }

    /// Why an address leaves a node for another one, and since when.
    fn reason(&self, ip: Ipv4Addr, from: Option<&str>, to: &str) -> (String, Option<u64>) {
        let pools = pools::pools(&self.stage.api);
        let owner = pools.iter().find(|pool| pool.names(ip)).map(|pool| &pool.name);
        let Some(owner) = owner else {
            return ("no pool names it".to_owned(), None);
        };
        let Some(from) = from else {
            return (format!("it is free, and {to} matches {owner} and has none"), None);
        };
        let key = (owner.clone(), from.to_owned());
        let reason = match self.standings.get(&key) {
            Some(Standing::Fails(reason)) => reason.to_string(),
            Some(Standing::NotSelected) | None => format!("{from} is none of the nodes of {owner}"),
            Some(Standing::Matches) => format!("{from} matches {owner}, so this move is needless"),
        };
        (reason, self.lost.get(&key).copied())
    }

    fn finish(&mut self, at_ms: u64, ip: Ipv4Addr, droplet: u64, from: Option<u64>) {
        let to = self.node(droplet);
        let Some(open) = self.open.remove(&ip) else {
            let from = from.map(|from| format!(" (from {})", self.node(from))).unwrap_or_default();
            self.teller.line(at_ms, Line::Account, &format!("{ip} is on {to}{from}, moved by hand"));
            return;
        };
        let done = Move { done_ms: at_ms, ..open };
        let took = match (done.lost_ms, &done.from) {
            (Some(lost_ms), Some(from)) => {
                format!("{} after {from} stopped matching", seconds(at_ms.saturating_sub(lost_ms)))
            }
            _ => format!("after {}", seconds(at_ms.saturating_sub(done.began_ms))),
        };
        self.teller.line(at_ms, Line::Account, &format!("{ip} is on {to}, {took}"));
        self.moves.push(done);
    }

    /// The node on a droplet.
    pub(super) fn node(&self, droplet: u64) -> String {
        self.stage.nodes.get(&droplet).cloned().unwrap_or_else(|| format!("droplet {droplet}"))
    }
}
