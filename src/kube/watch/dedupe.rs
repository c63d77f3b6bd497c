//! Events that tell nothing new.
//!
//! A pod is written many times for reasons that decide nothing here: its restarts, its annotations, its other
//! conditions. Such an event ends in its watch, so the loop that decides is not woken for it.
//!
//! Invariant: a step is left out only if the caller already has exactly these facts from this watch. Two prints are the
//! same for different facts with a chance of one in 2⁶⁴.

use flipop_core::model::facts::Observed;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Stands for the facts about one object, in 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Print {
    pub(super) object: u64,
    pub(super) facts: u64,
}

impl Print {
    /// `object` tells apart the objects of a watch.
    pub(crate) fn new(object: &impl Hash, facts: &impl Hash) -> Self {
        Self { object: hash(object), facts: hash(facts) }
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The facts that a watch has told.
pub(super) struct Repeats<T> {
    print: fn(&T) -> Print,
    facts: BTreeMap<u64, u64>,
}

impl<T> Repeats<T> {
    pub(super) const fn new(print: fn(&T) -> Print) -> Self {
        Self { print, facts: BTreeMap::new() }
    }

    /// Whether the caller has this already. From now on it counts as told.
    pub(super) fn repeats(&mut self, step: &Observed<T>) -> bool {
        match step {
            Observed::Reset(all) => {
                let prints = all.iter().map(self.print);
                self.facts = prints.map(|Print { object, facts }| (object, facts)).collect();
                false
            }
            Observed::Apply(one) => {
                let Print { object, facts } = (self.print)(one);
                self.facts.insert(object, facts) == Some(facts)
            }
            Observed::Delete(one) => {
                self.facts.remove(&(self.print)(one).object);
                false
            }
        }
    }
}
