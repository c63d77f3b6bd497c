//! The log of calls to the simulated providers.
//!
//! Invariant: an entry has the name of the token, never the token.

use std::collections::{BTreeMap, VecDeque};

use http::Method;

use super::wire::{Op, Provider};

/// Most entries kept: enough for every test, and a limit for simulations of many days. The counters continue.
const ENTRIES_MAX: usize = 200_000;

/// Longest logged request body, in bytes.
const BODY_MAX: usize = 64 * 1024;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Number of the call, from 0.
    pub seq: u64,
    /// When it arrived, in milliseconds since the world began.
    pub at_ms: u64,
    /// `at_ms` in microseconds, for measurements.
    pub at_us: u64,
    /// When its answer was sent or its connection cut. `None` while it is under way.
    pub ended_ms: Option<u64>,
    /// The provider that it was sent to.
    pub provider: Provider,
    /// The requested operation.
    pub op: Op,
    /// HTTP method.
    pub method: Method,
    /// Path, as sent.
    pub path: String,
    /// Query, as sent.
    pub query: String,
    /// Name of the token. Empty if the provider does not know the token.
    pub token: String,
    /// The status of the answer. `None` if no answer was sent (yet).
    pub status: Option<u16>,
    /// Whether the call was a change and took effect, whatever was answered.
    pub effect: bool,
    /// Name of the injected fault, if any.
    pub fault: Option<String>,
    /// The request's body.
    pub body: String,
}

/// The log.
#[derive(Debug, Default)]
pub(super) struct CallLog {
    next: u64,
    entries: VecDeque<Call>,
    counts: BTreeMap<(Provider, Op), u64>,
    effects: u64,
}

impl CallLog {
    /// Adds a call and returns its number.
    pub(super) fn enter(&mut self, mut call: Call) -> u64 {
        call.seq = self.next;
        self.next = self.next.saturating_add(1);
        if call.body.len() > BODY_MAX {
            call.body = format!("({} bytes)", call.body.len());
        }
        let count = self.counts.entry((call.provider, call.op)).or_default();
        *count = count.saturating_add(1);
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.pop_front();
        }
        let seq = call.seq;
        self.entries.push_back(call);
        seq
    }

    fn entry(&mut self, seq: u64) -> Option<&mut Call> {
        let first = self.entries.front()?.seq;
        let index = usize::try_from(seq.checked_sub(first)?).ok()?;
        self.entries.get_mut(index)
    }

    /// Records that the call took effect.
    pub(super) fn took_effect(&mut self, seq: u64) {
        self.effects = self.effects.saturating_add(1);
        if let Some(call) = self.entry(seq) {
            call.effect = true;
        }
    }

    /// Records how a call ended.
    pub(super) fn close(&mut self, seq: u64, now_ms: u64, status: Option<u16>) {
        if let Some(call) = self.entry(seq) {
            call.ended_ms = Some(now_ms);
            call.status = status;
        }
    }

    /// The entries from number `from` on.
    pub(super) fn since(&self, from: u64) -> Vec<Call> {
        self.entries.iter().filter(|call| call.seq >= from).cloned().collect()
    }

    /// Number of the next call.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of calls of this kind.
    pub(super) fn count(&self, provider: Provider, op: Op) -> u64 {
        self.counts.get(&(provider, op)).copied().unwrap_or(0)
    }

    /// The number of changes that took effect.
    pub(super) fn effects(&self) -> u64 {
        self.effects
    }
}
