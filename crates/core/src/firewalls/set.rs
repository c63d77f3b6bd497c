//! The firewalls of one pool: the knowledge of each, and how calls and looks change it.
//!
//! Invariants: a look that began before our last change of a firewall ended does not count for that firewall. A look
//! of the next 30 s counts only if it shows the change. A firewall that is missing from a list is gone only if a read
//! by its id does not find it. A firewall whose creation may have succeeded is created again only after two lists,
//! begun 30 s apart, do not name it.

use super::action::Change;
use super::cover::{Cover, Covers};
use super::exact;
use super::facts::Firewall;
use super::looks::Trouble;
use super::status::{Entry, number_of};
use crate::mechanism::retry::{Pace, Retry};
use crate::model::fault::{CallFailure, Fault, FaultKind};
use crate::model::machine::MachineId;
use crate::model::moment::{Context, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// Lists may lag behind a creation or a change of ours for this long.
const LAG_MS: u64 = 30_000;

/// The least time until a second look may confirm that a machine has lost its last other firewall, or that all members
/// of one of ours have left.
pub(super) const AGREE_MS: u64 = 5_000;

/// The firewalls of one pool.
#[derive(Debug, Default)]
pub struct Set {
    /// The firewalls that the status is to remember.
    pub entries: Vec<Entry>,
    /// Each firewall by name, as the last look that counts for it showed it.
    pub(super) shown: BTreeMap<String, Firewall>,
    /// Firewalls with a call under way.
    pub(super) busy: BTreeSet<String>,
    /// When the last call about each ended.
    settled: BTreeMap<String, Moment>,
    /// The last change of each firewall that was sent and did not fail, until a look shows it.
    unshown: BTreeMap<String, Change>,
    /// Machines that a call adds, until a look shows the result.
    pub(super) adding: BTreeMap<String, BTreeSet<MachineId>>,
    /// Firewalls that certainly do not exist yet.
    pub(super) unsent: BTreeSet<String>,
    /// Firewalls that may exist, but were missing from a list that began at this moment.
    absent: BTreeMap<String, Moment>,
    /// Firewalls that are missing from a list. The value says whether a read by id is under way.
    pub(super) lost: BTreeMap<String, bool>,
    /// Firewalls that a list, begun at this moment, showed without any of their members.
    doubted: BTreeMap<String, Moment>,
    /// Names that more than one firewall has.
    ambiguous: BTreeSet<String>,
    /// Members that only our firewalls govern, by a list that began at this moment.
    pub(super) uncovered: BTreeMap<MachineId, Moment>,
    /// Members for which a second look has confirmed that.
    pub(super) isolated: BTreeSet<MachineId>,
    /// When each member ceased to be wanted.
    pub(super) unwanted: BTreeMap<MachineId, Moment>,
    /// When each wanted machine whose ports are not open was first seen as such. Only a later look judges its cover.
    pub(super) unopened: BTreeMap<MachineId, Moment>,
    /// When each machine that may still enter a firewall of ours began to wait for its ports.
    pub(super) lacking: BTreeMap<MachineId, Moment>,
    /// Nodes whose machines no other firewall governs.
    pub(super) bare: BTreeSet<String>,
    /// Firewalls of others that deny what the pool opens, each with the nodes where it does.
    pub(super) denied: BTreeMap<String, BTreeSet<String>>,
    /// Isolated members about which an Event was sent.
    pub(super) told: BTreeSet<MachineId>,
    pub(super) retry: Retry,
    trouble: Option<Trouble>,
}

impl Set {
    /// The firewalls that a status remembers. An entry without an id may have been made.
    pub fn recalled(entries: Vec<Entry>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// Why the last change failed.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Why the state of its firewalls is unknown, in a few words.
    pub fn doubt(&self) -> Option<String> {
        let named = |what: &str, name: &String| format!("{name} {what}");
        let lost = self.lost.keys().map(|name| named("is not on the list of firewalls", name));
        let doubted = self.doubted.keys().map(|name| named("is shown without its members", name));
        let ambiguous = self.ambiguous.iter().map(|name| named("is the name of several firewalls", name));
        lost.chain(doubted).chain(ambiguous).next()
    }

    /// Takes in the result of a look. `machines` is the cover of all machines, if it was a whole look.
    pub fn saw(&mut self, begun: Moment, firewalls: &[Firewall], machines: Option<&Covers<'_>>) {
        for entry in &mut self.entries {
            let name = entry.name.clone();
            if self.busy.contains(&name) || self.settled.get(&name).is_some_and(|settled| begun < *settled) {
                continue;
            }
            let named: Vec<&Firewall> = firewalls.iter().filter(|found| found.name == name).collect();
            if entry.id.is_empty() {
                match named.as_slice() {
                    [found] => entry.id.clone_from(&found.id),
                    [] => {
                        self.ambiguous.remove(&name);
                        let first = *self.absent.entry(name.clone()).or_insert(begun);
                        if begun >= first.plus_millis(LAG_MS) {
                            self.absent.remove(&name);
                            self.unsent.insert(name);
                        }
                        continue;
                    }
                    _ => {
                        self.ambiguous.insert(name);
                        continue;
                    }
                }
                self.absent.remove(&name);
                self.unsent.remove(&name);
                self.ambiguous.remove(&name);
            }
            let Some(found) = firewalls.iter().find(|found| found.id == entry.id) else {
                let lags = self.settled.get(&name).is_some_and(|at| begun < at.plus_millis(LAG_MS));
                if !lags {
                    self.lost.entry(name).or_insert(false);
                }
                continue;
            };
            self.lost.remove(&name);
            // Without this, a late list would cause a repetition of our change.
            let lags = self.settled.get(&name).is_some_and(|at| begun < at.plus_millis(LAG_MS));
            if lags && self.unshown.get(&name).is_some_and(|change| !exact::shows(change, found)) {
                continue;
            }
            let removed = match self.unshown.remove(&name) {
                Some(Change::RemoveMembers(machines)) => machines,
                Some(_) | None => Vec::new(),
            };
            // A member whose machine no longer exists did not leave by itself.
            let exists =
                |machine: &&MachineId| machines.is_none_or(|all| all.machines.contains_key(*machine));
            let before = self.shown.get(&name).map(|before| &before.machines);
            let had = before.into_iter().flatten().filter(exists);
            let had: Vec<&MachineId> = had.filter(|machine| !removed.contains(*machine)).collect();
            if !had.is_empty() && had.iter().all(|machine| !found.machines.contains(*machine)) {
                let first = *self.doubted.entry(name.clone()).or_insert(begun);
                if begun < first.plus_millis(AGREE_MS) {
                    continue;
                }
            }
            self.doubted.remove(&name);
            self.adding.remove(&name);
            self.shown.insert(name, found.clone());
        }
        if let Some(covers) = machines {
            self.watch_cover(begun, covers);
        }
    }

    /// Notes the members that have lost the last firewall that no pool owns.
    fn watch_cover(&mut self, begun: Moment, covers: &Covers<'_>) {
        let members: BTreeSet<MachineId> =
            self.shown.values().flat_map(|shown| shown.machines.iter().cloned()).collect();
        self.uncovered.retain(|machine, _| members.contains(machine));
        for machine in &members {
            match covers.of(machine) {
                Cover::OnlyOurs => {
                    let first = *self.uncovered.entry(machine.clone()).or_insert(begun);
                    if begun >= first.plus_millis(AGREE_MS) {
                        self.isolated.insert(machine.clone());
                    }
                }
                Cover::Foreign | Cover::Open => {
                    self.uncovered.remove(machine);
                    self.isolated.remove(machine);
                }
                Cover::Unknown => {}
            }
        }
        self.isolated.retain(|machine| members.contains(machine));
        self.told.retain(|machine| self.isolated.contains(machine));
    }

    /// When a second look can confirm the first.
    pub fn agrees_at(&self) -> Option<Moment> {
        let uncovered = self.uncovered.iter().filter(|(machine, _)| !self.isolated.contains(*machine));
        let since = uncovered.map(|(_, since)| since).chain(self.doubted.values());
        since.map(|since| since.plus_millis(AGREE_MS)).min()
    }

    /// When to list the firewalls, to find out whether one was made.
    pub fn resolves_at(&self, now: Moment) -> Option<Moment> {
        let open = self.entries.iter().filter(|entry| entry.id.is_empty());
        let open =
            open.filter(|entry| !self.unsent.contains(&entry.name) && !self.busy.contains(&entry.name));
        open.map(|entry| self.absent.get(&entry.name).map_or(now, |first| first.plus_millis(LAG_MS))).min()
    }

    /// Whether a part of a change has not arrived yet, by the last look.
    pub fn is_unfinished(&self) -> bool {
        let pending = self.shown.values().any(|shown| {
            shown
                .pending
                .keys()
                .any(|machine| self.lacking.contains_key(machine) || shown.machines.contains(machine))
        });
        pending || self.entries.iter().any(|entry| self.awaits_look(&entry.name))
    }

    fn awaits_look(&self, name: &str) -> bool {
        self.adding.contains_key(name) && !self.busy.contains(name)
    }

    /// The firewall of an entry, if no call about it is under way and the last look counts for it.
    pub(super) fn idle(&self, entry: &Entry) -> Option<&Firewall> {
        let free = !self.busy.contains(&entry.name) && !self.lost.contains_key(&entry.name);
        let settled = !self.adding.contains_key(&entry.name);
        self.shown.get(&entry.name).filter(|shown| free && settled && shown.id == entry.id)
    }

    /// Every machine that is in one of its firewalls, or is being added.
    pub(super) fn members(&self) -> BTreeSet<MachineId> {
        let shown = self.shown.values().flat_map(|shown| &shown.machines);
        shown.chain(self.adding.values().flatten()).cloned().collect()
    }

    /// The numbers of its firewalls.
    pub(super) fn numbers(&self) -> BTreeSet<u64> {
        self.entries.iter().filter_map(|entry| number_of(&entry.name)).collect()
    }

    /// Notes that a creation was sent.
    pub(super) fn note_creation(&mut self, name: &str, machines: &BTreeSet<MachineId>) {
        self.busy.insert(name.to_owned());
        self.unsent.remove(name);
        self.adding.insert(name.to_owned(), machines.clone());
    }

    /// Notes that a change was sent.
    pub(super) fn note_change(&mut self, name: &str, change: &Change) {
        self.busy.insert(name.to_owned());
        self.unshown.insert(name.to_owned(), change.clone());
        if let Change::AddMembers(machines) = change {
            self.adding.insert(name.to_owned(), machines.iter().cloned().collect());
        }
    }

    /// Takes in the answer to a creation.
    pub fn created(&mut self, name: &str, result: Result<String, CallFailure>, at: Context) {
        self.busy.remove(name);
        match result {
            Ok(id) => {
                self.settled.insert(name.to_owned(), at.now);
                if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) {
                    entry.id = id;
                }
                self.succeeded();
            }
            Err(CallFailure::NotSent) => {
                self.adding.remove(name);
                self.unsent.insert(name.to_owned());
                self.retry.not_before(at.now.plus_millis(1_000));
            }
            Err(CallFailure::Fault(fault)) => {
                self.adding.remove(name);
                self.settled.insert(name.to_owned(), at.now);
                if !fault.outcome_unknown && fault.kind != FaultKind::InProgress {
                    self.unsent.insert(name.to_owned());
                }
                self.failed(fault, at);
            }
        }
    }

    /// Takes in the answer to a change.
    pub fn changed(&mut self, name: &str, deleted: bool, result: Result<(), CallFailure>, at: Context) {
        self.busy.remove(name);
        match result {
            Ok(()) => {
                self.settled.insert(name.to_owned(), at.now);
                if deleted {
                    self.forget(name);
                } else {
                    // The next change has to wait for a new look.
                    self.adding.entry(name.to_owned()).or_default();
                }
                self.succeeded();
            }
            Err(CallFailure::NotSent) => {
                self.adding.remove(name);
                self.unshown.remove(name);
                self.retry.not_before(at.now.plus_millis(1_000));
            }
            Err(CallFailure::Fault(fault)) => {
                // The next look shows whether it took effect anyway.
                self.unshown.remove(name);
                self.settled.insert(name.to_owned(), at.now);
                self.adding.insert(name.to_owned(), BTreeSet::new());
                self.failed(fault, at);
            }
        }
    }

    /// Takes in whether a firewall exists that is missing from a list.
    pub fn found(&mut self, id: &str, result: Result<bool, CallFailure>, at: Context) {
        let Some(name) = self.entries.iter().find(|entry| entry.id == id).map(|entry| entry.name.clone())
        else {
            return;
        };
        match result {
            Ok(false) => self.forget(&name),
            Ok(true) | Err(CallFailure::NotSent) => {
                self.lost.insert(name, false);
                self.retry.not_before(at.now.plus_millis(10_000));
            }
            Err(CallFailure::Fault(fault)) => {
                self.lost.insert(name, false);
                self.failed(fault, at);
            }
        }
    }

    fn forget(&mut self, name: &str) {
        self.entries.retain(|entry| entry.name != name);
        self.shown.remove(name);
        self.adding.remove(name);
        self.unsent.remove(name);
        self.absent.remove(name);
        self.lost.remove(name);
        self.doubted.remove(name);
        self.settled.remove(name);
        self.unshown.remove(name);
    }

    /// Forgets an intent that was never sent.
    pub(super) fn drop_intent(&mut self, name: &str) {
        self.forget(name);
    }

    /// Notes that the last change succeeded.
    pub(super) fn succeeded(&mut self) {
        self.retry.succeeded();
        self.trouble = None;
    }

    fn failed(&mut self, fault: Fault, at: Context) {
        self.retry.failed(Pace::of(&fault), at);
        self.trouble = Some(Trouble { kind: fault.kind, message: fault.message });
    }

    /// Takes in a change of the token. A refused change is retried at once.
    pub fn forgive(&mut self) {
        self.retry = Retry::default();
        self.trouble = None;
    }
}
