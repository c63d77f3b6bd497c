//! The judge sees everything: the Lease on the server, and each write when it arrives.
//!
//! Three rules. A write arrives during its sender's term: after the server has recorded the sender as holder, and
//! before it records a release or another holder. A write is sent while at least 3 s of its permit are left, counted
//! from when the server recorded the last renewal. A decision made before a gap in the permits is not sent after it.

use flipop_apiserver::{ApiServer, Changes, Key};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::Instant;

/// The latest moment at which a write may leave, counted from the last renewal that the server recorded. The renewal
/// was sent earlier, and no replica's clock is slower than this one.
const LATEST_MS: i128 = 7_000;

pub(crate) const LEASES: (&str, &str) = ("coordination.k8s.io/v1", "Lease");

/// The Lease's place.
pub(crate) fn lease_key() -> Key {
    Key::new("flipop", flipop::leader::LEASE_NAME)
}

struct State {
    changes: Changes,
    storage: flipop_apiserver::Storage,
    /// Holders, in the order of their terms.
    terms: Vec<String>,
    /// Whether the last of them released the lease.
    released: bool,
    /// When the lease was last written, by the server's clock.
    renewed_at: jiff::Timestamp,
    writes: u64,
    /// The broken rules.
    wrong: Vec<String>,
    transcript: Vec<String>,
}

/// The judge. Clones share it.
#[derive(Clone)]
pub(crate) struct Judge {
    state: Arc<Mutex<State>>,
    server: ApiServer,
    start: Instant,
}

/// The totals of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) writes: u64,
    pub(crate) terms: u64,
}

impl Judge {
    pub(crate) fn new(server: &ApiServer) -> Self {
        let state = State {
            changes: server.subscribe(),
            storage: server.storage_of(LEASES.0, LEASES.1).unwrap(),
            terms: Vec::new(),
            released: false,
            renewed_at: jiff::Timestamp::UNIX_EPOCH,
            writes: 0,
            wrong: Vec::new(),
            transcript: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), server: server.clone(), start: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn at(&self) -> String {
        format!("{:>9.3} s", self.start.elapsed().as_secs_f64())
    }

    pub(crate) fn note(&self, text: &str) {
        let line = format!("{} {text}", self.at());
        let mut state = self.state();
        state.look(&self.at());
        state.transcript.push(line);
    }

    /// A write of `sender` has arrived.
    pub(crate) fn arrived(&self, sender: &str, what: &str) {
        let at = self.at();
        let mut state = self.state();
        state.look(&at);
        state.writes += 1;
        state.transcript.push(format!("{at} {what} of {sender} arrives"));
        let holder = state.terms.last().map_or("nobody", String::as_str).to_owned();
        if holder != sender || state.released {
            let term = if state.released {
                format!("after {holder} released")
            } else {
                format!("in {holder}'s term")
            };
            state.wrong.push(format!("{at} {what} of {sender} arrives {term}"));
        }
    }

    /// A write leaves its sender. It was decided in one epoch of permits and sent in another.
    pub(crate) fn sent(&self, sender: &str, decided: u64, now: u64) {
        let (at, time) = (self.at(), self.server.now());
        let mut state = self.state();
        state.look(&at);
        let age_ms = time.duration_since(state.renewed_at).as_millis();
        if age_ms > LATEST_MS {
            state.wrong.push(format!("{at} {sender} sends {age_ms} ms after the last renewal"));
        }
        if decided != now {
            state
                .wrong
                .push(format!("{at} {sender} sends in epoch {now} what it decided in epoch {decided}"));
        }
    }

    pub(crate) fn fault(&self, text: String) {
        self.state().wrong.push(text);
    }

    pub(crate) fn writes(&self) -> u64 {
        self.state().writes
    }

    /// The holder of the present term, unless it released the lease.
    pub(crate) fn holder(&self) -> Option<String> {
        let mut state = self.state();
        state.look(&self.at());
        state.terms.last().filter(|_| !state.released).cloned()
    }

    /// The broken rules, the transcript, and the totals.
    pub(crate) fn verdict(&self) -> (Vec<String>, Vec<String>, Sums) {
        let state = self.state();
        let sums = Sums { writes: state.writes, terms: u64::try_from(state.terms.len()).unwrap() };
        (state.wrong.clone(), state.transcript.clone(), sums)
    }
}

impl State {
    /// Notes the changes of the Lease. A deletion changes nothing: its last holder still may write.
    fn look(&mut self, at: &str) {
        for change in self.changes.drain() {
            if change.storage != self.storage {
                continue;
            }
            let Some(lease) = change.after.as_deref() else {
                self.transcript.push(format!("{at} the lease is deleted"));
                continue;
            };
            let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
            self.renewed_at = change.time;
            if holder.is_empty() {
                self.released = true;
                self.transcript.push(format!("{at} the lease is released"));
            } else if self.released || self.terms.last().is_none_or(|last| last != holder) {
                self.released = false;
                self.terms.push(holder.to_owned());
                self.transcript.push(format!("{at} {holder} has the lease"));
            }
        }
    }
}
