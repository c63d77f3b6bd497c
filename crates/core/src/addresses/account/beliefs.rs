//! The beliefs about the addresses that pools name, and indexes of them: a plan looks only at those that a read may be
//! due for, or that have changed.

use super::belief::Belief;
use crate::model::{Address, MachineId};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses that may be elsewhere by now, each with the machine that it was on.
pub(crate) type Moved = BTreeMap<Address, Option<MachineId>>;

/// The beliefs, by address.
#[derive(Debug, Default)]
pub(super) struct Beliefs {
    by_ip: BTreeMap<Address, Belief>,
    /// A read may be due for these. None is due for the others.
    restless: BTreeSet<Address>,
    /// Those that may have changed since they were last followed. `None`: anything may have, lists included.
    moved: Option<Moved>,
}

impl Beliefs {
    pub(super) fn get(&self, ip: &Address) -> Option<&Belief> {
        self.by_ip.get(ip)
    }

    pub(super) fn contains_key(&self, ip: &Address) -> bool {
        self.by_ip.contains_key(ip)
    }

    pub(super) fn len(&self) -> usize {
        self.by_ip.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Address, &Belief)> {
        self.by_ip.iter()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Address> {
        self.by_ip.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Belief> {
        self.by_ip.values()
    }

    /// Notes that the place or the operation of an address may change now.
    pub(super) fn moves(&mut self, ip: Address) {
        if let Some(moved) = &mut self.moved {
            let machine = self.by_ip.get(&ip).and_then(|belief| belief.place().machine());
            moved.entry(ip).or_insert_with(|| machine.cloned());
        }
    }

    /// Notes that the content of lists may change now.
    pub(super) fn all_move(&mut self) {
        self.moved = None;
    }

    /// The addresses that have moved since the last call, unless anything may have.
    pub(super) fn take_moved(&mut self) -> Option<Moved> {
        self.moved.replace(Moved::new())
    }

    pub(super) fn get_mut(&mut self, ip: &Address) -> Option<&mut Belief> {
        self.moves(*ip);
        let belief = self.by_ip.get_mut(ip)?;
        self.restless.insert(*ip);
        Some(belief)
    }

    /// The belief about an address, a new one if there is none.
    pub(super) fn about(&mut self, ip: Address) -> &mut Belief {
        self.moves(ip);
        self.restless.insert(ip);
        self.by_ip.entry(ip).or_insert_with(|| {
            self.moved = None;
            Belief::default()
        })
    }

    pub(super) fn remove(&mut self, ip: &Address) -> Option<Belief> {
        self.moved = None;
        self.by_ip.remove(ip)
    }

    /// Forgets the indexes.
    pub(super) fn forget_indexes(&mut self) {
        self.moved = None;
        self.restless = self.by_ip.keys().copied().collect();
    }

    /// Finds those that need no read.
    pub(super) fn settle(&mut self) {
        let by_ip = &self.by_ip;
        self.restless.retain(|ip| by_ip.get(ip).is_some_and(|belief| belief.read_due(true).is_some()));
    }

    /// Those for which a read may be due.
    pub(super) fn restless(&self) -> impl Iterator<Item = (&Address, &Belief)> {
        self.restless.iter().filter_map(|ip| Some((ip, self.by_ip.get(ip)?)))
    }

    /// The same, to change when a read is due. That moves no address.
    pub(super) fn restless_mut(&mut self) -> impl Iterator<Item = (&Address, &mut Belief)> {
        let restless = &self.restless;
        self.by_ip.iter_mut().filter(|(ip, _)| restless.contains(ip))
    }
}
