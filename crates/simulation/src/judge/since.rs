//! Whether something is true, and since when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A fact with the time of its last change.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Since {
    now: bool,
    changed_ms: u64,
    /// It was true before it was false for the last time.
    again: bool,
}

impl Since {
    pub(super) fn set(&mut self, value: bool, now_ms: u64) {
        if self.now != value {
            *self = Self { now: value, changed_ms: now_ms, again: self.again || !value };
        }
    }

    /// Whether it was true at some time since `from_ms`.
    pub(super) fn held(self, from_ms: u64) -> bool {
        self.now || (self.changed_ms >= from_ms && self.changed_ms > 0)
    }

    /// Whether it is true, and has been since before `from_ms`.
    pub(super) fn is_old(self, from_ms: u64) -> bool {
        self.now && self.changed_ms < from_ms
    }

    /// Whether it is true, and has been since `from_ms` or before.
    pub(super) fn lasts(self, from_ms: u64) -> bool {
        self.now && self.changed_ms <= from_ms
    }

    /// Whether it was false at some time since `from_ms`. A fact that only began since then has not lapsed.
    pub(super) fn lapsed(self, from_ms: u64) -> bool {
        !self.now || (self.again && self.changed_ms >= from_ms)
    }
}

/// Notes which keys are present now.
pub(super) fn note<K: Ord>(known: &mut BTreeMap<K, Since>, mut now: BTreeSet<K>, now_ms: u64) {
    for (key, since) in known.iter_mut() {
        since.set(now.remove(key), now_ms);
    }
    for key in now {
        known.entry(key).or_default().set(true, now_ms);
    }
}

/// Former states, each with the time of its end. The oldest comes first.
#[derive(Debug)]
pub(super) struct Former<T>(VecDeque<(u64, T)>);

/// Nobody relies on a state that ended this long ago.
const FORMER_MS: u64 = 3_600_000;

impl<T> Default for Former<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Former<T> {
    pub(super) fn keep(&mut self, was: Option<T>, now_ms: u64) {
        self.0.extend(was.map(|was| (now_ms, was)));
        while self.0.front().is_some_and(|(until_ms, _)| until_ms.saturating_add(FORMER_MS) < now_ms) {
            self.0.pop_front();
        }
    }

    pub(super) fn since(&self, from_ms: u64) -> impl Iterator<Item = &T> {
        self.0.iter().rev().take_while(move |(until_ms, _)| *until_ms >= from_ms).map(|(_, was)| was)
    }
}
