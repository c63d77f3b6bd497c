//! The condition `AddressesIdle`: the addresses that serve on no node, with the place and reason of each.
//!
//! Invariants: an address is reported only after it was idle for [`REPORTED_AFTER_MS`], and never during an operation
//! on it. While the account or the nodes are unknown, the condition stays as it was.

use super::Pool;
use super::placement::Whereabouts;
use crate::addresses::account::Account;
use crate::mechanism::Stores;
use crate::model::catalog::pool::AddressesIdle;
use crate::model::words::enumerate;
use crate::model::{Address, Condition, ConditionType, MachineId, Moment, verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Most addresses get another node within this time.
const REPORTED_AFTER_MS: u64 = 5_000;

/// How often the text may change because nodes' reasons do. A change of the idle addresses shows at once.
const REWRITTEN_AFTER_MS: u64 = 60_000;

/// Why an address is idle.
#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    /// Used, on a machine that is not a matching node.
    NoMatch(MachineId),
    /// Used, on no machine.
    Unassigned,
    /// Used, and not in the account.
    Absent,
    /// Created, but beyond `desiredIPs`.
    Surplus(Option<MachineId>),
}

/// The facts behind the text, except the nodes' reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    spec_version: u64,
    idle: Vec<(Address, How)>,
    any_candidate: bool,
    any_waits: bool,
}

/// The idle addresses, when each became idle, and the last text.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// When each address is reported.
    due: BTreeMap<Address, Moment>,
    reported: Option<(Moment, Facts, String)>,
    /// Whether this process has looked yet.
    noted: bool,
}

impl Idle {
    /// Whether the condition names the address now.
    fn tells(&self, ip: Address) -> bool {
        self.reported.as_ref().is_some_and(|(_, facts, _)| facts.idle.iter().any(|(idle, _)| *idle == ip))
    }
}

impl Pool {
    /// Notes which addresses are idle, and returns when to look again.
    pub(crate) fn note_idle(&mut self, account: &Account, stores: Stores<'_>, now: Moment) -> Option<Moment> {
        let all: Vec<(Address, How)> = self.idle_addresses(account);
        // An address that the status already calls idle had been idle long enough when the status was written.
        let known = !self.idle.noted && self.on_server.conditions.iter().any(is_ours);
        self.idle.noted = true;
        let ips: BTreeSet<Address> = all.iter().map(|(ip, _)| *ip).collect();
        // An address whose assignment keeps failing is reported again as soon as a try is over.
        self.idle.due.retain(|ip, _| ips.contains(ip) || account.op(*ip).is_some());
        for ip in &ips {
            let lasts = known && self.on_server.calls_idle(*ip);
            let due = if lasts { now } else { now.plus_millis(REPORTED_AFTER_MS) };
            self.idle.due.entry(*ip).or_insert(due);
        }
        let is_due = |ip: &Address| self.idle.due.get(ip).is_some_and(|due| *due <= now);
        let later = self
            .idle
            .due
            .iter()
            .filter(|(ip, due)| ips.contains(*ip) && **due > now)
            .map(|(_, due)| *due)
            .min();
        let idle: Vec<(Address, How)> = all.into_iter().filter(|(ip, _)| is_due(ip)).collect();
        if idle.is_empty() {
            self.idle.reported = None;
            return later;
        }
        let facts = Facts {
            spec_version: self.spec_version,
            idle,
            any_candidate: !self.candidates.is_empty(),
            any_waits: self.candidates.any_waits(),
        };
        let current = self
            .idle
            .reported
            .as_ref()
            .filter(|(at, reported, _)| *reported == facts && now.millis_since(*at) < REWRITTEN_AFTER_MS);
        let reported_at = if let Some((at, ..)) = current {
            *at
        } else {
            let text = self.idle_text(&facts.idle, stores);
            self.idle.reported = Some((now, facts, text));
            now
        };
        [later, Some(reported_at.plus_millis(REWRITTEN_AFTER_MS))].into_iter().flatten().min()
    }

    /// The condition, if an address is idle. `known` says whether nodes and account are known.
    pub(super) fn idle_condition(&self, known: bool) -> Option<Condition> {
        if !known || self.spec.is_frozen() {
            return self.on_server.conditions.iter().find(|old| is_ours(old)).cloned();
        }
        let (_, facts, text) = self.idle.reported.as_ref()?;
        let surplus = |(_, how): &(Address, How)| matches!(how, How::Surplus(_));
        let all_surplus = facts.idle.iter().all(surplus);
        let reason = if all_surplus { AddressesIdle::Surplus } else { AddressesIdle::NotServing };
        Some(Condition::new(reason, text.clone()))
    }

    fn idle_addresses(&self, account: &Account) -> Vec<(Address, How)> {
        let used: BTreeSet<Address> = self.used().into_iter().collect();
        let created: BTreeSet<Address> = self.created().collect();
        let how = |ip: Address| {
            // An unanswered request may still be refused at once. Until the answer, the condition keeps naming an
            // address that it named, and does not add it otherwise.
            let moves = account.op(ip).is_some_and(|op| !op.is_unanswered() || !self.idle.tells(ip));
            if moves || self.report.claimed.contains_key(&ip) {
                return None;
            }
            match &self.report.placements.get(&ip)?.whereabouts {
                Whereabouts::Elsewhere { locked: true, .. } | Whereabouts::Unknown { .. } => None,
                Whereabouts::Here { machine, .. } | Whereabouts::Elsewhere { machine, .. }
                    if !used.contains(&ip) =>
                {
                    created.contains(&ip).then_some(How::Surplus(machine.clone()))
                }
                Whereabouts::Here { .. } => None,
                Whereabouts::Elsewhere { machine: Some(machine), .. } => Some(How::NoMatch(machine.clone())),
                Whereabouts::Elsewhere { machine: None, .. } => Some(How::Unassigned),
                Whereabouts::Absent { .. } => used.contains(&ip).then_some(How::Absent),
            }
        };
        self.effective().into_iter().filter_map(|ip| Some((ip, how(ip)?))).collect()
    }

    /// The reason for an address whose assignment failed and is retried later.
    fn retried(&self, idle: &[(Address, How)]) -> Option<String> {
        let failure = |ip: &Address| self.ips.get(ip)?.failure.as_ref();
        let (ip, failure) = idle.iter().find_map(|(ip, _)| Some((ip, failure(ip)?)))?;
        Some(format!("the last assignment of {ip} failed, and FLIPOP retries it: {}", failure.message))
    }

    fn idle_text(&self, idle: &[(Address, How)], (nodes, pods): Stores<'_>) -> String {
        let on: BTreeSet<&MachineId> = idle
            .iter()
            .filter_map(|(_, how)| match how {
                How::NoMatch(machine) | How::Surplus(Some(machine)) => Some(machine),
                How::Unassigned | How::Absent | How::Surplus(None) => None,
            })
            .collect();
        let named: BTreeMap<&MachineId, String> = nodes
            .iter()
            .filter_map(|node| {
                let machine = node.machine.as_ref().filter(|machine| on.contains(machine))?;
                let criteria = self.spec.criteria.as_ref()?;
                let text = match verdict(criteria, node, pods) {
                    Err(why) => format!("{}, which {why}", node.name),
                    Ok(()) => node.name.clone(),
                };
                Some((machine, text))
            })
            .collect();
        let place = |machine: &MachineId| {
            let unknown = || format!("{machine}, which is not a node that spec.match.nodeLabel selects");
            named.get(machine).cloned().unwrap_or_else(unknown)
        };
        let mut parts = Vec::new();
        let stand = idle.iter().filter_map(|(ip, how)| match how {
            How::NoMatch(machine) => Some(format!("{ip} is on {}", place(machine))),
            How::Unassigned | How::Absent | How::Surplus(_) => None,
        });
        let next = self.retried(idle).unwrap_or_else(|| self.why_no_other());
        parts.extend(joined(stand, &format!("; {next}")));
        let group = |wanted: fn(&How) -> bool| -> Vec<String> {
            idle.iter().filter(|(_, how)| wanted(how)).map(|(ip, _)| ip.to_string()).collect()
        };
        let unassigned = group(|how| *how == How::Unassigned);
        if !unassigned.is_empty() {
            let why = if self.candidates.any_waits() {
                self.retried(idle).unwrap_or_else(|| self.why_no_other())
            } else {
                "there are more addresses than matching nodes".to_owned()
            };
            parts.push(format!("{} unassigned and billed: {why}", they_are(&unassigned)));
        }
        let absent = group(|how| *how == How::Absent);
        if !absent.is_empty() {
            parts.push(format!("{} not in the account; correct spec.ips", they_are(&absent)));
        }
        let surplus = idle.iter().filter_map(|(ip, how)| match how {
            How::Surplus(Some(machine)) => Some(format!("{ip} (on {})", place(machine))),
            How::Surplus(None) => Some(format!("{ip} (unassigned and billed)")),
            How::NoMatch(_) | How::Unassigned | How::Absent => None,
        });
        let surplus: Vec<String> = surplus.collect();
        if !surplus.is_empty() {
            parts.push(format!("{} beyond spec.desiredIPs", they_are(&surplus)));
        }
        parts.join("; ")
    }
}

fn is_ours(condition: &Condition) -> bool {
    condition.is(ConditionType::AddressesIdle)
}

fn joined(items: impl Iterator<Item = String>, tail: &str) -> Option<String> {
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then(|| format!("{}{tail}", enumerate(items.into_iter())))
}

fn they_are(items: &[String]) -> String {
    let verb = if items.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", enumerate(items.iter().cloned()))
}
