//! I7: the reads of a process since its permit began, judged by its calls.

use super::truth::{Pool, Truth};
use super::{Judge, Process};
use crate::facts::{Facts, Kind};
use flipop_cloud::Provider;
use std::collections::{BTreeMap, BTreeSet};

/// The reads of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Reads {
    /// Kinds of objects with a complete list.
    complete: BTreeSet<String>,
    /// How many items the pages read so far can hold, for lists that go on.
    pages: BTreeMap<String, u64>,
    addresses: bool,
    /// Whether the token is proved to see droplets: by an address that shows one, or by a list of droplets.
    droplets: bool,
    records: BTreeSet<Provider>,
    firewalls: bool,
}

impl Reads {
    /// Leadership begins anew, so earlier reads do not count.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A read was answered. `shows` says whether the address list shows a droplet.
    pub(super) fn answered(&mut self, facts: &Facts, truth: &Truth, shows: bool) {
        match &facts.kind {
            Kind::List { resource, limit, goes_on, selector } => {
                let key = facts.scope.clone();
                let before = if *goes_on { self.pages.get(&key).copied().unwrap_or_default() } else { 0 };
                let held = before.saturating_add(*limit);
                self.pages.insert(key, held);
                if *limit == 0 || held >= truth.count(resource, selector) {
                    self.complete.insert(resource.clone());
                }
            }
            Kind::ListIps => {
                self.addresses = true;
                self.droplets |= shows;
            }
            Kind::Read => {
                self.droplets |= facts.what == "ListDroplets";
                self.firewalls |= facts.what == "ListFirewalls";
            }
            Kind::ReadRecords => self.records.extend(facts.account),
            Kind::Lease { .. }
            | Kind::Event
            | Kind::Watch
            | Kind::Write { .. }
            | Kind::Assign { .. }
            | Kind::Unassign { .. }
            | Kind::CreateIp
            | Kind::DeleteIp { .. }
            | Kind::Record
            | Kind::Firewall => {}
        }
    }

    /// The reads that a changing call still lacks. `pods`: all objects that could want the call ask for pods.
    pub(super) fn missing(&self, facts: &Facts, pods: bool) -> Vec<&'static str> {
        let listed = |resource: &str| self.complete.contains(resource);
        let (nodes, addresses, records) = match &facts.kind {
            Kind::Assign { .. } | Kind::Unassign { .. } => (true, true, false),
            Kind::CreateIp | Kind::DeleteIp { .. } => (false, true, false),
            // DNS needs no account of addresses.
            Kind::Record => (true, false, true),
            // A machine that would be isolated is taken out, even without any other knowledge.
            Kind::Firewall => {
                let acts = !facts.what.starts_with("RemoveFirewallDroplets");
                (acts, acts, false)
            }
            Kind::Lease { .. }
            | Kind::Event
            | Kind::List { .. }
            | Kind::Watch
            | Kind::Read
            | Kind::ReadRecords
            | Kind::Write { .. }
            | Kind::ListIps => (false, false, false),
        };
        let annotates = matches!(&facts.kind, Kind::Write { resource } if resource == "nodes");
        let records_read = facts.account.is_some_and(|account| self.records.contains(&account));
        [
            ("pools", listed("floatingippools")),
            ("record sets", listed("nodednsrecordsets")),
            ("nodes", !(nodes || annotates) || listed("nodes")),
            ("pods", !(nodes && pods) || listed("pods")),
            ("addresses", !addresses || self.addresses),
            ("a droplet", !addresses || self.droplets),
            ("records", !records || records_read),
            ("firewalls", facts.kind != Kind::Firewall || self.firewalls),
        ]
        .into_iter()
        .filter_map(|(what, known)| (!known).then_some(what))
        .collect()
    }
}

impl Judge {
    /// I7: nothing is changed before the data that it depends on is read.
    pub(super) fn check_knowledge(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        // Records are changed one after another: the later ones may still follow the spec of the first.
        let from_ms = self.blindness.since_of_records(now_ms);
        let pools = || self.pools_since(from_ms).chain(self.truth.record_sets.values());
        let pods = if let Kind::Assign { ip, .. } | Kind::Unassign { ip } = facts.kind {
            let owners = self.truth.owners(ip, self.blindness.since(now_ms));
            let mut named = self.truth.pools.iter().filter(|(name, _)| owners.contains(name)).peekable();
            named.peek().is_some() && named.all(|(_, pool)| pool.asks_for_pods())
        } else {
            facts.kind == Kind::Record && pools().next().is_some() && pools().all(Pool::asks_for_pods)
        };
        let mut missing = self.known.entry(process).or_default().reads.missing(facts, pods);
        if self.ending.contains(&process) && facts.what.starts_with("PUT floatingippools") {
            // A purchase is written down at the end, even if others may claim it.
            missing.clear();
        }
        if !missing.is_empty() {
            let text = format!("{process} starts {:?} before it has read {}", facts.what, missing.join(", "));
            self.blame(now_ms, "I7", text);
        }
    }
}
