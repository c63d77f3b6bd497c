//! The messages of a watch to its listener, without events that change no fact.
//!
//! A pod is written many times for reasons that decide nothing here: its restarts, its annotations, its other
//! conditions. Such an event ends in its watch, so the loop that decides is not woken for it.
//!
//! Invariant: a step is left out only if the caller already has exactly these facts from this watch. Two prints are the
//! same for different facts with a chance of one in 2⁶⁴.

use flipop_core::model::Observed;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

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

/// Keys of a watch, by their place in its list, ascending.
pub type Keys = Arc<[usize]>;

/// A message of a watch of nodes or pods.
#[derive(Debug)]
pub struct News<T> {
    /// The version of the API server that the watch has reached with it. `None` if versions are no numbers.
    pub version: Option<u64>,
    /// The change.
    pub reported: Reported<T>,
}

/// A change that a watch of nodes or pods shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Reported<T> {
    /// A step of a watch that serves a single key.
    Whole(Observed<T>),
    /// The complete list of a watch that serves several keys, with the keys that select each object.
    List(Vec<(T, Keys)>),
    /// One object changed in such a watch.
    Change {
        /// The object as it is, or was last.
        facts: T,
        /// The keys that select it.
        present: Keys,
        /// The keys that selected it until now.
        left: Keys,
    },
    /// Nothing, up to this version.
    Nothing,
}

/// Makes messages of what a watch reads.
pub(crate) trait Teller<T> {
    type Message: Send;

    /// Whether an object of a list counts.
    fn keeps(_object: &T) -> bool {
        true
    }

    /// The message about a step. `None` if the listener has this already.
    fn tell(&mut self, version: Option<u64>, step: Observed<T>) -> Option<Self::Message>;

    /// The message that nothing has happened up to a version, if the listener wants to know.
    fn bookmark(&mut self, _version: Option<u64>) -> Option<Self::Message> {
        None
    }
}

/// Tells the steps and nothing else.
pub(super) struct Steps;

impl<T: Send> Teller<T> for Steps {
    type Message = Observed<T>;

    fn tell(&mut self, _version: Option<u64>, step: Observed<T>) -> Option<Observed<T>> {
        Some(step)
    }
}

/// Tells steps with their versions, for a single key.
pub(super) struct Versioned<T>(Option<Repeats<T>>);

impl<T> Versioned<T> {
    pub(super) const fn every_step() -> Self {
        Self(None)
    }

    /// Leaves out events that change no fact.
    pub(super) const fn changes(print: fn(&T) -> Print) -> Self {
        Self(Some(Repeats::new(print)))
    }
}

impl<T: Send> Teller<T> for Versioned<T> {
    type Message = News<T>;

    fn tell(&mut self, version: Option<u64>, step: Observed<T>) -> Option<News<T>> {
        let repeats = self.0.as_mut().is_some_and(|reported| reported.repeats(&step));
        (!repeats).then_some(News { version, reported: Reported::Whole(step) })
    }

    fn bookmark(&mut self, version: Option<u64>) -> Option<News<T>> {
        Some(News { version, reported: Reported::Nothing })
    }
}
