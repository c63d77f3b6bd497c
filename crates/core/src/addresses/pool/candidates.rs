//! The nodes that match a pool: which have an address, and why each of the others waits for one.
//!
//! Owns the reasons, and indexes of the nodes: a plan visits only the nodes that something happened to, unless an
//! address is free that the others cannot take. Does not decide which node gets an address.
//!
//! Invariant: a candidate has an address, waits for a free one, waits for something else, or is undecided. Exactly the
//! index of its state names it.

use super::report::Wait;
use crate::model::{Address, MachineId, Moment, NodeFacts, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node as it was when the pool last looked at it. Its machine may be of another provider than the pool's.
    pub node: Arc<NodeFacts>,
    /// The address of this pool that it has, if it has one.
    holds: Option<Address>,
    /// It waits for a free address.
    queued: bool,
    turn: Turn,
    /// Until then it may be the replacement of another node on its machine, whose object is about to go.
    settles: Moment,
}

/// When a node was made, in seconds since 1970, and its name. The oldest is the least.
type Age = (i64, Arc<str>);

fn age(node: &NodeFacts, name: &Arc<str>) -> Age {
    (node.created_at_s.unwrap_or(i64::MAX), Arc::clone(name))
}

/// A candidate with its name.
pub(super) type Named<'a> = (&'a Arc<str>, &'a Candidate);

/// The place among those that wait for a free address. The values are counts of the pool's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// It lost the address that it had. Such nodes come first, in the order in which they lost it.
    Lost(u64),
    /// It had none, and became a candidate then.
    Came(u64),
}

impl Candidate {
    /// The address of this pool that it has, if it has one.
    pub const fn holds(&self) -> Option<Address> {
        self.holds
    }

    /// Whether it waits for a free address.
    pub(super) const fn is_queued(&self) -> bool {
        self.queued
    }

    /// Its place among those that wait for a free address.
    pub(super) const fn turn(&self) -> Turn {
        self.turn
    }
}

/// The nodes that match.
#[derive(Debug, Default)]
pub struct Candidates {
    by_name: BTreeMap<Arc<str>, Candidate>,
    /// By machine and age. Two nodes are on one machine for a moment, while one replaces the other; or for as long as
    /// one of them lies.
    on: BTreeSet<(MachineId, Age)>,
    changed: BTreeSet<MachineId>,
    /// Those that are not alone on their machine.
    sharing: BTreeSet<Arc<str>>,
    holders: BTreeSet<Arc<str>>,
    /// Those that wait for a free address, in the order in which they get one.
    queue: BTreeMap<Turn, Arc<str>>,
    /// Those that wait for something else.
    waiting: BTreeMap<Arc<str>, Wait>,
    /// The state of each of these is unknown until a plan looks at it.
    undecided: BTreeSet<Arc<str>>,
    /// The next plan looks at every candidate without an address.
    all_due: bool,
    /// The names for `status.assignableNodes`, unless something changed since.
    listed: Option<Arc<[String]>>,
}

impl Candidates {
    /// Whether no node matches.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many nodes match.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether this node matches.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// A candidate by the name of its node.
    pub fn get(&self, name: &str) -> Option<&Candidate> {
        self.by_name.get(name)
    }

    /// A candidate with its name, as the indexes know it.
    pub(super) fn named(&self, name: &str) -> Option<(&Arc<str>, &Candidate)> {
        self.by_name.get_key_value(name)
    }

    /// All candidates, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Candidate)> {
        self.by_name.iter()
    }

    /// The candidates on a machine, the oldest node first.
    pub(crate) fn on(&self, machine: &MachineId) -> impl Iterator<Item = &Arc<str>> {
        let machine = machine.clone();
        let from = self.on.range((machine.clone(), (i64::MIN, Arc::from("")))..);
        from.take_while(move |(on, _)| *on == machine).map(|(_, (_, name))| name)
    }

    /// The machines to which a candidate has come, or from which one has gone, since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<MachineId> {
        std::mem::take(&mut self.changed)
    }

    /// The candidates that are not alone on their machine, each with the moment from which it gives way to an older
    /// one.
    pub(super) fn sharing(&self) -> impl Iterator<Item = (&Arc<str>, Moment)> {
        self.sharing.iter().filter_map(|name| Some((name, self.by_name.get(name)?.settles)))
    }

    /// The older node on the candidate's machine that counts in its place.
    pub(super) fn elder(&self, name: &str, now: Moment) -> Option<&Arc<str>> {
        let candidate = self.sharing.get(name).and_then(|name| self.by_name.get(name))?;
        if !candidate.node.ready.is_ready() || candidate.settles > now {
            return None;
        }
        let mut older = self.on(candidate.node.machine.as_ref()?).take_while(|other| &***other != name);
        older.find(|other| self.by_name.get(*other).is_some_and(|other| other.node.ready.is_ready()))
    }

    /// The candidates on any of these machines.
    pub(super) fn on_any<T>(&self, machines: &BTreeMap<MachineId, T>) -> Vec<Arc<str>> {
        if machines.len() < self.on.len() {
            machines.keys().flat_map(|machine| self.on(machine)).cloned().collect()
        } else {
            let here = self.on.iter().filter(|(machine, _)| machines.contains_key(machine));
            here.map(|(_, (_, name))| name).cloned().collect()
        }
    }

    /// The candidates that have an address, by name.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Arc<str>> {
        self.holders.iter()
    }

    /// The candidates that wait for a free address, in the order in which they get one.
    pub(super) fn queue(&self) -> impl Iterator<Item = Named<'_>> {
        self.queue.values().filter_map(|name| Some((name, self.by_name.get(name)?)))
    }

    /// The candidates that wait for something other than a free address, by name.
    pub fn waits(&self) -> impl Iterator<Item = (&Arc<str>, &Wait)> {
        self.waiting.iter()
    }

    /// Whether each candidate has an address or waits for a free one, alone on its machine.
    pub(super) fn are_settled(&self) -> bool {
        self.waiting.is_empty() && self.undecided.is_empty() && self.sharing.is_empty() && !self.all_due
    }

    /// Whether any candidate waits for a free address.
    pub(super) fn any_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether any candidate waits for anything.
    pub(super) fn any_waits(&self) -> bool {
        self.any_queued() || !self.waiting.is_empty()
    }

    /// The names for `status.assignableNodes`: the candidates without an address, except those that are errors.
    pub fn assignable(&self) -> Arc<[String]> {
        match &self.listed {
            Some(listed) => Arc::clone(listed),
            None => self.list(),
        }
    }

    /// Makes that list, if something has changed since the last one.
    pub(super) fn keep_assignable(&mut self) {
        if self.listed.is_none() {
            self.listed = Some(self.list());
        }
    }

    fn list(&self) -> Arc<[String]> {
        let listed = self.by_name.iter().filter(|(name, candidate)| self.lists(name, candidate));
        listed.map(|(name, _)| name.to_string()).collect()
    }

    fn lists(&self, name: &str, candidate: &Candidate) -> bool {
        candidate.queued || self.waiting.get(name).is_some_and(|wait| !wait.is_error())
    }

    /// The candidates without an address whose state may change although nothing happened to them.
    pub(super) fn take_unsettled(&mut self) -> BTreeSet<Arc<str>> {
        if std::mem::take(&mut self.all_due) {
            let without = self.by_name.iter().filter(|(_, candidate)| candidate.holds.is_none());
            return without.map(|(name, _)| Arc::clone(name)).collect();
        }
        self.undecided.iter().chain(self.waiting.keys()).cloned().collect()
    }

    /// Has the next plan look at every candidate without an address.
    pub(super) const fn look_at_all(&mut self) {
        self.all_due = true;
    }

    /// Adds a node, as the pool's `count`th event. Until `settles` it may be a replacement.
    pub(super) fn insert(&mut self, node: &Arc<NodeFacts>, count: u64, settles: Moment) {
        let name: Arc<str> = node.name.as_str().into();
        if let Some(machine) = &node.machine {
            self.changed.insert(machine.clone());
            self.on.insert((machine.clone(), age(node, &name)));
            self.note_sharing(machine);
        }
        self.undecided.insert(Arc::clone(&name));
        let turn = Turn::Came(count);
        let candidate = Candidate { node: Arc::clone(node), holds: None, queued: false, turn, settles };
        let before = self.by_name.insert(name, candidate);
        debug_assert!(before.is_none(), "a node replaces another only after its removal");
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, name: &str) -> Option<Candidate> {
        let (name, candidate) = self.by_name.remove_entry(name)?;
        // Most often a node with an address goes, and thousands of others wait as before.
        if self.lists(&name, &candidate) {
            self.listed = None;
        }
        self.leave(&name, candidate.queued.then_some(candidate.turn));
        if let Some(machine) = &candidate.node.machine {
            self.changed.insert(machine.clone());
            self.on.remove(&(machine.clone(), age(&candidate.node, &name)));
            self.sharing.remove(&name);
            self.note_sharing(machine);
        }
        Some(candidate)
    }

    /// Notes which candidates on a machine are not alone there.
    fn note_sharing(&mut self, machine: &MachineId) {
        let here: Vec<Arc<str>> = self.on(machine).cloned().collect();
        match &*here {
            [alone] => drop(self.sharing.take(alone)),
            several => self.sharing.extend(several.iter().cloned()),
        }
    }

    /// Takes in the present state of a node that was added. Returns true if its region is another one.
    pub(super) fn note(&mut self, node: &Arc<NodeFacts>) -> bool {
        let Some(candidate) = self.by_name.get_mut(&*node.name) else { return false };
        debug_assert_eq!(candidate.node.machine, node.machine, "a provider ID names one machine");
        debug_assert_eq!(candidate.node.created_at_s, node.created_at_s, "a UID is given once");
        let changed = candidate.node.region != node.region;
        candidate.node = Arc::clone(node);
        changed
    }

    /// Notes the address of a candidate.
    pub(super) fn hold(&mut self, name: &Arc<str>, ip: Address) {
        let before = self.get(name).is_some_and(|candidate| self.lists(name, candidate));
        let Some(candidate) = self.by_name.get_mut(name) else { return };
        if candidate.holds.replace(ip).is_some() {
            return;
        }
        let queued = std::mem::take(&mut candidate.queued).then_some(candidate.turn);
        if before {
            self.listed = None;
        }
        self.leave(name, queued);
        self.holders.insert(Arc::clone(name));
    }

    /// Notes that a candidate has lost its address, as the pool's `count`th event.
    pub(super) fn lose(&mut self, name: &Arc<str>, count: u64) {
        let Some(candidate) = self.by_name.get_mut(name) else { return };
        candidate.holds = None;
        candidate.turn = Turn::Lost(count);
        self.holders.remove(name);
        self.undecided.insert(Arc::clone(name));
    }

    /// Notes why a candidate without an address waits. Without a reason it stays undecided.
    pub(super) fn note_wait(&mut self, name: &Arc<str>, wait: Option<Wait>) {
        let before = self.get(name).is_some_and(|candidate| self.lists(name, candidate));
        let Some(candidate) = self.by_name.get_mut(name).filter(|candidate| candidate.holds.is_none()) else {
            return;
        };
        let listed = |wait: &Wait| !wait.is_error();
        if before != wait.as_ref().is_some_and(listed) {
            self.listed = None;
        }
        let turn = candidate.turn;
        let queued = std::mem::replace(&mut candidate.queued, wait == Some(Wait::NoFreeIp));
        self.leave(name, queued.then_some(turn));
        match wait {
            Some(Wait::NoFreeIp) => {
                self.queue.insert(turn, Arc::clone(name));
            }
            Some(wait) => {
                self.waiting.insert(Arc::clone(name), wait);
            }
            None => {
                self.undecided.insert(Arc::clone(name));
            }
        }
    }

    /// Takes a candidate out of the index of its state.
    fn leave(&mut self, name: &Arc<str>, queued: Option<Turn>) {
        if let Some(turn) = queued {
            self.queue.remove(&turn);
        }
        self.waiting.remove(name);
        self.holders.remove(name);
        self.undecided.remove(name);
    }
}

/// An address that can be given out.
#[derive(Debug, Clone)]
pub(super) struct Free {
    pub(super) ip: Address,
    pub(super) region: String,
    pub(super) from: Option<MachineId>,
}

/// A candidate that can take one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiver<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) candidate: &'a Candidate,
    pub(super) machine: &'a MachineId,
    /// An address that the pool disabled or gave up, and that has to be taken off first.
    pub(super) evict: Option<Address>,
}

impl<'a> Receiver<'a> {
    /// The candidate as a receiver, if it is on a machine. `evicted` are the addresses to take off first.
    pub(super) fn new((name, candidate): Named<'a>, evicted: &BTreeMap<Uid, Address>) -> Option<Self> {
        let evict = evicted.get(&candidate.node.uid).copied();
        Some(Self { name, candidate, machine: candidate.node.machine.as_ref()?, evict })
    }
}

impl Receiver<'_> {
    /// The address that leaves its place when this receiver gets `free`, and the node that it moves to, if it moves.
    pub(super) fn leaves(&self, free: &Free) -> (Address, Option<&Uid>) {
        self.evict.map_or((free.ip, Some(&self.candidate.node.uid)), |holder| (holder, None))
    }

    /// Whether the node is in the region of the address, as far as both regions are known.
    pub(super) fn suits(&self, free: &Free) -> bool {
        let region = self.candidate.node.region.as_deref();
        region.is_none_or(|region| region == free.region || free.region.is_empty())
    }
}

#[cfg(test)]
#[path = "candidates_tests.rs"]
mod tests;
