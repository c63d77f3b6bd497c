//! The firewalls of one pool: the knowledge of each, and how calls and looks change it.
//!
//! Invariants: a look that began before our last change of a firewall ended does not count for that firewall. A look
//! of the next 30 s counts only if it shows the change. A firewall that is missing from a list is gone only if a read
//! by its id does not find it. A firewall whose creation may have succeeded is created again only after two lists,
//! begun 30 s apart, do not name it.

use super::action::Change;
use super::cover::{Cover, Covers};
use super::facts::Firewall;
use super::read_trust::Trouble;
use super::spec::{Entry, number_of};
use crate::mechanism::{LAG_MS, Pace, Retry, counts, two_looks};
use crate::model::{AccountId, CallFailure, Context, Fault, FaultKind, MachineId, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// The least time until a second look may confirm that a machine has lost its last other firewall, or that all members
/// of one of ours have left.
pub(super) const AGREE_MS: u64 = 5_000;

/// The firewalls of one pool.
#[derive(Debug, Default)]
pub struct Set {
    /// The firewalls that the status is to remember.
    pub(super) firewalls: Vec<Ours>,
    /// The machines in them.
    pub(super) members: BTreeMap<MachineId, Member>,
    /// The wanted machines whose ports are not open.
    pub(super) unopened: BTreeMap<MachineId, Unopened>,
    /// Nodes whose machines no other firewall governs.
    pub(super) bare: BTreeSet<String>,
    /// Firewalls of others that deny what the pool opens, each with the nodes where it does.
    pub(super) denied: BTreeMap<String, BTreeSet<String>>,
    pub(super) retry: Retry,
    trouble: Option<Trouble>,
}

/// A firewall of the pool.
#[derive(Debug, Default)]
pub(super) struct Ours {
    pub(super) entry: Entry,
    pub(super) existence: Existence,
    /// More than one firewall has its name.
    ambiguous: bool,
    /// As the last look that counts for it showed it.
    pub(super) shown: Option<Firewall>,
    /// When the first list began that showed it without any of its members.
    emptied: Option<Moment>,
    /// A call is under way.
    pub(super) busy: bool,
    /// When the last call about it ended.
    settled: Option<Moment>,
    /// The last change that was sent and did not fail, until a look shows it.
    unshown: Option<Change>,
    /// Machines that a call adds, until a look shows the result.
    pub(super) adding: Option<BTreeSet<MachineId>>,
}

/// The existence of a firewall, as calls and lists show it. The first two have no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Existence {
    /// It certainly does not exist yet.
    #[default]
    Unsent,
    /// It may exist. Holds the start of the first list after its creation that left it out.
    Possible(Option<Moment>),
    /// It was made or seen.
    Certain,
    /// A list left it out. The value says whether a read by its id is under way.
    Lost(bool),
}

/// A machine in a firewall of the pool.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// When the first list began that showed only our firewalls on it.
    uncovered: Option<Moment>,
    /// A second look has confirmed that.
    pub(super) isolated: bool,
    /// An Event has reported it.
    pub(super) reported: bool,
    /// When it ceased to be wanted.
    pub(super) unwanted: Option<Moment>,
}

/// A wanted machine whose ports are not open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unopened {
    /// When it was first seen as such. Only a later look judges its cover.
    pub(super) since: Moment,
    /// When it began to wait for its ports, if it may still enter a firewall of ours.
    pub(super) lacking: Option<Moment>,
}

impl Ours {
    /// Why its state is unknown, and the rank of that reason.
    fn doubt(&self) -> Option<(u8, &'static str)> {
        match self.existence {
            Existence::Lost(_) => Some((0, "is not on the list of firewalls")),
            Existence::Certain => self.emptied.map(|_| (1, "is shown without its members")),
            Existence::Unsent | Existence::Possible(_) => {
                self.ambiguous.then_some((2, "is the name of several firewalls"))
            }
        }
    }

    /// Whether a creation may be sent.
    pub(super) fn may_be_made(&self) -> bool {
        self.existence == Existence::Unsent && !self.busy
    }

    /// The firewall, if no call about it is under way and the last look counts for it.
    pub(super) fn idle(&self) -> Option<&Firewall> {
        let free = !self.busy && self.existence == Existence::Certain;
        self.shown.as_ref().filter(|shown| free && self.adding.is_none() && shown.id == self.entry.id)
    }

    /// The machines that the last look showed in it.
    fn machines(&self) -> impl Iterator<Item = &MachineId> {
        self.shown.iter().flat_map(|shown| &shown.machines)
    }

    /// Takes in the result of a look.
    fn saw(&mut self, begun: Moment, firewalls: &[Firewall], machines: Option<&Covers<'_>>) {
        if self.busy || self.settled.is_some_and(|settled| begun < settled) {
            return;
        }
        if self.entry.id.is_empty() {
            let mut named = firewalls.iter().filter(|found| found.name == self.entry.name);
            let found = named.next();
            self.ambiguous = named.next().is_some();
            let Some(found) = found.filter(|_| !self.ambiguous) else {
                if let Existence::Possible(first) = &mut self.existence
                    && !self.ambiguous
                    && two_looks(first, begun, LAG_MS)
                {
                    self.existence = Existence::Unsent;
                }
                return;
            };
            self.entry.id.clone_from(&found.id);
        }
        let lags = !counts(begun, self.settled);
        let Some(found) = firewalls.iter().find(|found| found.id == self.entry.id) else {
            if !lags && self.existence == Existence::Certain {
                self.existence = Existence::Lost(false);
            }
            return;
        };
        self.existence = Existence::Certain;
        // Without this, a late list would cause a repetition of our change.
        if lags && self.unshown.as_ref().is_some_and(|change| !change.is_shown_by(found)) {
            return;
        }
        let removed = match self.unshown.take() {
            Some(Change::RemoveMembers(machines)) => machines,
            Some(_) | None => Vec::new(),
        };
        // A member whose machine no longer exists did not leave by itself.
        let exists = |machine: &MachineId| machines.is_none_or(|all| all.machines.contains_key(machine));
        let had = self.machines().filter(|machine| exists(machine) && !removed.contains(*machine));
        let had: Vec<&MachineId> = had.collect();
        let emptied = !had.is_empty() && had.iter().all(|machine| !found.machines.contains(*machine));
        if emptied && !two_looks(&mut self.emptied, begun, AGREE_MS) {
            return;
        }
        self.emptied = None;
        self.adding = None;
        self.shown = Some(found.clone());
    }

    /// Notes that a creation was sent.
    pub(super) fn note_creation(&mut self, machines: &BTreeSet<MachineId>) {
        self.busy = true;
        self.existence = Existence::Possible(None);
        self.adding = Some(machines.clone());
    }

    /// Notes that a change was sent.
    pub(super) fn note_change(&mut self, change: &Change) {
        self.busy = true;
        self.unshown = Some(change.clone());
        if let Change::AddMembers(machines) = change {
            self.adding = Some(machines.iter().cloned().collect());
        }
    }
}

impl Set {
    /// The firewalls that a status remembers. An entry without an id may have been made.
    pub fn recalled(entries: Vec<Entry>) -> Self {
        let recalled = entries.into_iter().map(|entry| {
            let existence = if entry.id.is_empty() { Existence::Possible(None) } else { Existence::Certain };
            Ours { entry, existence, ..Ours::default() }
        });
        Self { firewalls: recalled.collect(), ..Self::default() }
    }

    /// The firewalls that the status is to remember.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.firewalls.iter().map(|ours| &ours.entry)
    }

    /// Why the last change failed.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Why the state of its firewalls is unknown, in a few words.
    pub fn doubt(&self) -> Option<String> {
        let doubts = self.firewalls.iter().filter_map(|ours| Some((ours.doubt()?, &ours.entry.name)));
        doubts.min().map(|((_, doubt), name)| format!("{name} {doubt}"))
    }

    /// Takes in the result of a look. `machines` is the cover of all machines, if it was a whole look.
    pub fn saw(&mut self, begun: Moment, firewalls: &[Firewall], machines: Option<&Covers<'_>>) {
        for ours in &mut self.firewalls {
            ours.saw(begun, firewalls, machines);
        }
        self.follow_members();
        if let Some(covers) = machines {
            self.watch_cover(begun, covers);
        }
    }

    /// Follows which machines the last looks showed in its firewalls.
    fn follow_members(&mut self) {
        let shown: BTreeSet<&MachineId> = self.firewalls.iter().flat_map(Ours::machines).collect();
        self.members.retain(|machine, _| shown.contains(machine));
        for machine in shown {
            self.members.entry(machine.clone()).or_default();
        }
    }

    /// Notes the members that have lost the last firewall that no pool owns.
    fn watch_cover(&mut self, begun: Moment, covers: &Covers<'_>) {
        for (machine, member) in &mut self.members {
            match covers.of(machine) {
                Cover::OnlyOurs => {
                    member.isolated |= two_looks(&mut member.uncovered, begun, AGREE_MS);
                }
                Cover::Foreign | Cover::Open => {
                    *member = Member { unwanted: member.unwanted, ..Member::default() };
                }
                Cover::Unknown => {}
            }
        }
    }

    /// When a second look can confirm the first.
    pub fn agrees_at(&self) -> Option<Moment> {
        let uncovered = self.members.values().filter(|of| !of.isolated).filter_map(|of| of.uncovered);
        let emptied = self.firewalls.iter().filter_map(|ours| ours.emptied);
        uncovered.chain(emptied).map(|since| since.plus_millis(AGREE_MS)).min()
    }

    /// When to list the firewalls, to find out whether one was made.
    pub fn resolves_at(&self, now: Moment) -> Option<Moment> {
        let open = self.firewalls.iter().filter(|ours| !ours.busy).filter_map(|ours| match ours.existence {
            Existence::Possible(first) => Some(first.map_or(now, |first| first.plus_millis(LAG_MS))),
            Existence::Unsent | Existence::Certain | Existence::Lost(_) => None,
        });
        open.min()
    }

    /// Whether a part of a change has not arrived yet, by the last look.
    pub fn is_unfinished(&self) -> bool {
        let concerns = |shown: &Firewall, machine: &MachineId| {
            shown.machines.contains(machine)
                || self.unopened.get(machine).is_some_and(|of| of.lacking.is_some())
        };
        self.firewalls.iter().any(|ours| {
            let mut shown = ours.shown.iter();
            shown.any(|shown| shown.pending.keys().any(|machine| concerns(shown, machine)))
                || ours.adding.is_some() && !ours.busy
        })
    }

    /// Machines that wait for their ports, and since when.
    pub(super) fn lacking(&self) -> impl Iterator<Item = (&MachineId, Moment)> {
        self.unopened.iter().filter_map(|(machine, of)| Some((machine, of.lacking?)))
    }

    /// Notes that an Event tells of an isolated member. Returns whether it is the first to do so.
    pub(super) fn is_news(&mut self, machine: &MachineId) -> bool {
        self.members.get_mut(machine).is_some_and(|of| !std::mem::replace(&mut of.reported, true))
    }

    /// Its firewalls about which no call is under way, as the last look showed them.
    pub(super) fn idle(&self) -> impl Iterator<Item = (&Entry, &Firewall)> {
        self.firewalls.iter().filter_map(|ours| Some((&ours.entry, ours.idle()?)))
    }

    /// Every machine that is in one of its firewalls, or is being added.
    pub(super) fn members(&self) -> BTreeSet<MachineId> {
        let adding = self.firewalls.iter().filter_map(|ours| ours.adding.as_ref());
        adding.flatten().chain(self.members.keys()).cloned().collect()
    }

    /// The numbers of its firewalls.
    pub(super) fn numbers(&self) -> BTreeSet<u64> {
        self.entries().filter_map(|entry| number_of(&entry.name)).collect()
    }

    /// Adds a firewall that is to be made.
    pub(super) fn announce(&mut self, name: String, account_id: AccountId) {
        let entry = Entry { id: String::new(), name, account_id };
        self.firewalls.push(Ours { entry, ..Ours::default() });
    }

    /// The firewall of this name.
    pub(super) fn named(&mut self, name: &str) -> Option<&mut Ours> {
        self.firewalls.iter_mut().find(|ours| ours.entry.name == name)
    }

    /// Takes in the answer to a creation.
    pub fn created(&mut self, name: &str, result: Result<String, CallFailure>, at: Context) {
        let Some(ours) = self.named(name) else { return };
        ours.busy = false;
        match result {
            Ok(id) => {
                ours.settled = Some(at.now);
                ours.entry.id = id;
                ours.existence = Existence::Certain;
                self.succeeded();
            }
            Err(CallFailure::NotSent) => {
                ours.adding = None;
                ours.existence = Existence::Unsent;
                self.retry.not_before(at.now.plus_millis(1_000));
            }
            Err(CallFailure::Fault(fault)) => {
                ours.adding = None;
                ours.settled = Some(at.now);
                if !fault.outcome_unknown && fault.kind != FaultKind::InProgress {
                    ours.existence = Existence::Unsent;
                }
                self.failed(fault, at);
            }
        }
    }

    /// Takes in the answer to a change.
    pub fn changed(&mut self, name: &str, deleted: bool, result: Result<(), CallFailure>, at: Context) {
        let Some(ours) = self.named(name) else { return };
        ours.busy = false;
        match result {
            Ok(()) => {
                ours.settled = Some(at.now);
                if deleted {
                    self.forget(|entry| entry.name == name);
                } else {
                    // The next change has to wait for a new look.
                    ours.adding.get_or_insert_default();
                }
                self.succeeded();
            }
            Err(CallFailure::NotSent) => {
                (ours.adding, ours.unshown) = (None, None);
                self.retry.not_before(at.now.plus_millis(1_000));
            }
            Err(CallFailure::Fault(fault)) => {
                // The next look shows whether it took effect anyway.
                (ours.adding, ours.unshown) = (Some(BTreeSet::new()), None);
                ours.settled = Some(at.now);
                self.failed(fault, at);
            }
        }
    }

    /// Takes in whether a firewall exists that is missing from a list.
    pub fn found(&mut self, id: &str, result: Result<bool, CallFailure>, at: Context) {
        let Some(ours) = self.firewalls.iter_mut().find(|ours| ours.entry.id == id) else { return };
        ours.existence = Existence::Lost(false);
        match result {
            Ok(false) => self.forget(|entry| entry.id == id),
            Ok(true) | Err(CallFailure::NotSent) => self.retry.not_before(at.now.plus_millis(10_000)),
            Err(CallFailure::Fault(fault)) => self.failed(fault, at),
        }
    }

    fn forget(&mut self, is_gone: impl Fn(&Entry) -> bool) {
        self.firewalls.retain(|ours| !is_gone(&ours.entry));
        self.follow_members();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_from_before_a_creation_does_not_show_that_nothing_was_made() {
        let (name, at) = ("flipop-01234567-1", |seconds: u64| Moment::from_millis(seconds * 1_000));
        let mut set = Set::default();
        set.announce(name.to_owned(), AccountId::default());
        set.saw(at(0), &[], None);
        set.named(name).unwrap().note_creation(&BTreeSet::new());
        let (kind, message) = (FaultKind::Transient, "no answer".to_owned());
        let lost = Fault { outcome_unknown: true, ..Fault::new(kind, message) };
        set.created(name, Err(CallFailure::Fault(lost)), Context::exactly(at(40)));
        for (begun, may) in [(at(41), false), (at(70), false), (at(71), true)] {
            set.saw(begun, &[], None);
            assert_eq!(set.named(name).unwrap().may_be_made(), may, "{begun:?}");
        }
    }
}
