//! The result of a decision: actions, Events, and when to decide again.
//!
//! Each layer has its own actions. The layer above wraps them in its own and keeps their order.

use crate::model::catalog::events::EventReason;
use crate::model::{Moment, ObjectKind, ObjectRef, Owner};
use std::fmt;

/// An Event on one of our objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// The object.
    pub object: ObjectRef,
    /// True for `Warning`, false for `Normal`.
    pub warning: bool,
    /// Its reason.
    pub reason: EventReason,
    /// Its subject, such as an address. Two Events with the same reason differ by it.
    pub subject: String,
    /// The text for users.
    pub message: String,
}

impl Notice {
    /// A notice about this object.
    pub fn on(
        owner: &Owner,
        warning: bool,
        reason: EventReason,
        subject: impl fmt::Display,
        message: String,
    ) -> Self {
        let (Owner { kind, object }, subject) = (owner.clone(), subject.to_string());
        Self { kind, object, warning, reason, subject, message }
    }
}

/// A status to write.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusWrite<S> {
    /// The object.
    pub object: ObjectRef,
    /// The version that the write replaces.
    pub resource_version: String,
    /// `metadata.generation` that the status describes.
    pub generation: i64,
    /// The whole status.
    pub status: S,
}

/// The result of a status write.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenStatus<S> {
    /// The object's new version.
    pub resource_version: String,
    /// The status that the server stored.
    pub status: S,
}

/// One part of the result of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<A> {
    /// Send this request. An outcome answers it.
    Do(A),
    /// Write this Event. Nothing waits for it.
    Tell(Notice),
}

/// The result of a decision.
#[derive(Debug)]
pub struct Effects<A> {
    all: Vec<Effect<A>>,
    wake: Option<Moment>,
    /// How often something was added.
    additions: u64,
}

impl<A> Default for Effects<A> {
    fn default() -> Self {
        Self { all: Vec::new(), wake: None, additions: 0 }
    }
}

impl<A> Effects<A> {
    /// Adds an action.
    pub fn act(&mut self, action: impl Into<A>) {
        self.all.push(Effect::Do(action.into()));
        self.additions += 1;
    }

    /// Adds Events.
    pub fn tell(&mut self, notices: impl IntoIterator<Item = Notice>) {
        let before = self.all.len();
        self.all.extend(notices.into_iter().map(Effect::Tell));
        self.additions += u64::from(self.all.len() > before);
    }

    /// Asks for the next decision at `at` or earlier. `None` changes nothing.
    pub fn later(&mut self, at: impl Into<Option<Moment>>) {
        if let Some(at) = at.into() {
            self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
            self.additions += 1;
        }
    }

    /// Adds the effects of a decision of a lower layer.
    pub fn lend<B: Into<A>>(&mut self, decide: impl FnOnce(&mut Effects<B>)) {
        let mut lent = Effects::default();
        decide(&mut lent);
        self.later(lent.wake);
        self.additions += lent.additions;
        self.all.extend(lent.all.into_iter().map(|effect| match effect {
            Effect::Do(action) => Effect::Do(action.into()),
            Effect::Tell(notice) => Effect::Tell(notice),
        }));
    }

    /// A number that grows with each action, Event and wake time.
    pub fn additions(&self) -> u64 {
        self.additions
    }

    /// When to decide again at the latest.
    pub fn wake(&self) -> Option<Moment> {
        self.wake
    }

    /// All actions and Events, in order.
    pub fn into_vec(self) -> Vec<Effect<A>> {
        self.all
    }
}
