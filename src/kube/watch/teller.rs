//! The messages to the listener of a watch.

use super::dedupe::{Print, Repeats};
use flipop_core::model::facts::Observed;
use std::sync::Arc;

/// Keys of a watch, by their place in its list, ascending.
pub type Keys = Arc<[usize]>;

/// A message of a watch of nodes or pods.
#[derive(Debug)]
pub struct News<T> {
    /// The version of the API server that the watch has reached with it. `None` if versions are no numbers.
    pub version: Option<u64>,
    /// The change.
    pub told: Told<T>,
}

/// A change that a watch of nodes or pods shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Told<T> {
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
        let repeats = self.0.as_mut().is_some_and(|told| told.repeats(&step));
        (!repeats).then_some(News { version, told: Told::Whole(step) })
    }

    fn bookmark(&mut self, version: Option<u64>) -> Option<News<T>> {
        Some(News { version, told: Told::Nothing })
    }
}
