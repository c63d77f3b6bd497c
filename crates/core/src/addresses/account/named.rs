//! The addresses that an account keeps beliefs about, which are those that pools name at present, and lists that
//! contradict themselves.
//!
//! Invariant: such a list shows where addresses are. It says nothing about addresses that it leaves out, and confirms
//! nothing.

use super::belief::{Belief, Place};
use super::op::Op;
use super::{Account, Changes};
use crate::model::{Address, MachineId, Moment, ReservedIp};
use std::collections::{BTreeMap, BTreeSet};

impl Account {
    /// Sets the addresses that pools name, and those among them that are forgotten once they are gone. `reported` has
    /// their places by the statuses.
    pub fn name(
        &mut self,
        named: &BTreeSet<Address>,
        remembered: BTreeSet<Address>,
        reported: &BTreeMap<Address, MachineId>,
        now: Moment,
    ) {
        self.remembered = remembered;
        let ops = &self.ops;
        let over = |ip: &Address, belief: &Belief| {
            !named.contains(ip) && !ops.contains_key(ip) && !belief.is_settled_against(now)
        };
        let dropped: Vec<Address> =
            self.beliefs.iter().filter(|(ip, belief)| over(ip, belief)).map(|(ip, _)| *ip).collect();
        for ip in dropped {
            self.touch();
            self.hand_down(ip);
        }
        for ip in named {
            if self.beliefs.contains_key(ip) {
                continue;
            }
            self.touch();
            let mut belief = Belief::default();
            if self.glimpsed.is_some() {
                // The content of such lists may be old by now.
                self.reads.single(*ip);
            } else if let Some((begun, list)) = &self.listed {
                belief.listed(list.ips.get(ip), *begun, now);
            }
            *self.beliefs.about(*ip) = belief;
        }
        for (ip, machine) in reported {
            if let Some(belief) = self.beliefs.get_mut(ip) {
                belief.note_reported(machine.clone());
            }
        }
    }

    /// Whether there is a belief about exactly this many addresses.
    pub(crate) fn believes_in(&self, addresses: usize) -> bool {
        self.beliefs.len() == addresses
    }

    /// Restarts the time of absence of all addresses, because none of those that pools name is visible. `going` are
    /// addresses that are given back: their absence counts, since an object would otherwise wait for them for ever.
    pub fn excuse_absences(&mut self, going: &BTreeSet<Address>, now: Moment) {
        let excused = self.beliefs.restless_mut().filter(|(ip, _)| !going.contains(*ip));
        excused.for_each(|(_, belief)| belief.excuse_absence(now));
    }

    /// Forgets an address that is gone for good.
    pub(super) fn forget_address(&mut self, ip: Address) {
        self.touch();
        self.beliefs.remove(&ip);
        self.hidden.remove(&ip);
        let complete = self.listed.as_mut().map(|(_, list)| &mut list.ips);
        for ips in complete.into_iter().chain(&mut self.glimpsed) {
            ips.remove(&ip);
        }
    }

    /// Ends the belief about an address that no pool names any more. Its place moves to the content of the lists, like
    /// the places of all other addresses.
    fn hand_down(&mut self, ip: Address) {
        let Some(belief) = self.beliefs.remove(&ip) else { return };
        let complete = self.listed.as_mut().map(|(_, list)| &mut list.ips);
        for ips in complete.into_iter().chain(&mut self.glimpsed) {
            match belief.place() {
                Place::Unknown => {}
                Place::Absent => {
                    ips.remove(&ip);
                }
                Place::Present { machine, region, locked } => {
                    let read =
                        ReservedIp { ip, region: region.clone(), machine: machine.clone(), locked: *locked };
                    ips.insert(ip, read);
                }
            }
        }
    }

    /// Whether any list was believed.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.is_some() || self.glimpsed.is_some()
    }

    /// The content of the lists, with the newest entry of each address.
    fn shown(&self) -> impl Iterator<Item = (&Address, &ReservedIp)> {
        let newer = |ip: &Address| self.glimpsed.as_ref().is_some_and(|ips| ips.contains_key(ip));
        let complete = self.listed.iter().flat_map(|(_, list)| &list.ips);
        complete.filter(move |(ip, _)| !newer(ip)).chain(self.glimpsed.iter().flatten())
    }

    /// All addresses that the account is known to have, and those that pools name.
    pub fn known_with(&self, named: &BTreeSet<Address>) -> BTreeSet<Address> {
        let listed = self.shown().map(|(ip, _)| ip);
        listed.chain(self.beliefs.keys()).chain(named).copied().collect()
    }

    /// All addresses that the account is known to have, with their places from the last list or a later confirmation.
    /// An address that is being moved is locked and counts as at its destination.
    pub fn seen(&self) -> BTreeMap<Address, ReservedIp> {
        let mut seen: BTreeMap<_, _> = self.shown().map(|(ip, read)| (*ip, read.clone())).collect();
        for (ip, belief) in self.beliefs.iter() {
            match belief.place() {
                Place::Unknown => {}
                Place::Absent => drop(seen.remove(ip)),
                Place::Present { .. } => drop(self.seen_at(*ip).and_then(|read| seen.insert(*ip, read))),
            }
        }
        seen
    }

    /// The same for one address whose place is known.
    pub(crate) fn seen_at(&self, ip: Address) -> Option<ReservedIp> {
        let Place::Present { machine, region, locked } = self.place(ip) else { return None };
        let op = self.ops.get(&ip);
        let machine = op.and_then(Op::target).or_else(|| machine.clone());
        Some(ReservedIp { ip, region: region.clone(), machine, locked: *locked || op.is_some() })
    }

    /// Whether lists showed addresses on machines, foreign ones included.
    pub(super) fn lists_showed_machines(&self) -> bool {
        let mut foreign =
            self.shown().map(|(_, read)| read).filter(|read| !self.beliefs.contains_key(&read.ip));
        let mut named = self.beliefs.values().filter(|belief| !belief.is_unlisted());
        named.any(|belief| belief.place().machine().is_some()) || foreign.any(|read| read.machine.is_some())
    }

    /// The machine of each address that is on one, including foreign addresses.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (MachineId, Address)> {
        let foreign = self.shown().map(|(_, read)| read).filter(|read| !self.beliefs.contains_key(&read.ip));
        let foreign = foreign.filter_map(|read| Some((read.machine.clone()?, read.ip)));
        let named =
            self.beliefs.iter().filter_map(|(ip, belief)| Some((belief.place().machine()?.clone(), *ip)));
        foreign.chain(named)
    }

    /// Whether the newest list contradicts itself. It shows where addresses are, but not which addresses exist.
    pub fn lists_contradict_themselves(&self) -> bool {
        self.glimpsed.is_some()
    }

    /// Drops the content of old lists.
    pub(super) fn forget_listed(&mut self) {
        self.beliefs.all_move();
        self.listed = None;
        self.glimpsed = None;
    }

    /// Takes the places of addresses from a list that may be incomplete. It settles no doubt.
    pub(super) fn glimpse(
        &mut self,
        begun: Moment,
        ips: BTreeMap<Address, ReservedIp>,
        now: Moment,
    ) -> Changes {
        let mut changes = Changes::default();
        let known: Vec<Address> = self.beliefs.keys().copied().collect();
        for ip in known {
            let entry = ips.get(&ip);
            if let Some(op) = self.ops.get_mut(&ip) {
                let ended = op.listed(entry, begun, now);
                self.finish(ip, ended, now, &mut changes);
            } else if entry.is_none() {
                self.reads.single(ip);
            } else if let Some(belief) = self.beliefs.get_mut(&ip).filter(|belief| !belief.is_doubted()) {
                belief.listed(entry, begun, now);
            }
        }
        self.beliefs.all_move();
        self.glimpsed.get_or_insert_default().extend(ips);
        changes
    }
}
