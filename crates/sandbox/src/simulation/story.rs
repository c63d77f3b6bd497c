//! The transcript of a run: each line with its virtual time, and a fingerprint of all of them.
//!
//! Invariant: no line holds anything of the machine (its clock, its addresses, names of Events): the same plan gives
//! the same bytes.

use super::dice::Fingerprint;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The transcript; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Story(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    wanted: bool,
    text: String,
    fingerprint: Fingerprint,
    lines: u64,
}

impl Story {
    /// With the text itself, or with its fingerprint alone.
    pub(super) fn new(wanted: bool) -> Self {
        Self(Arc::new(Mutex::new(Told { wanted, ..Told::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. `who` is a replica or a part of the world.
    pub(super) fn tell(&self, now_ms: u64, who: &str, text: &str) {
        let mut told = self.lock();
        let mut line = String::with_capacity(text.len() + 24);
        // Writing to a string cannot fail.
        let _infallible = writeln!(line, "{:>6}.{:03} {who:<6} {text}", now_ms / 1_000, now_ms % 1_000);
        told.fingerprint.add(line.as_bytes());
        told.lines += 1;
        if told.wanted {
            told.text.push_str(&line);
        }
    }

    /// The fingerprint of all lines so far.
    pub(super) fn fingerprint(&self) -> u64 {
        self.lock().fingerprint.value()
    }

    /// The text, if it was wanted.
    pub(super) fn text(&self) -> String {
        self.lock().text.clone()
    }
}
