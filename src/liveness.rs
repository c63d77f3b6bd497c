//! Detects loops of the process that stopped turning.
//!
//! Each loop registers once and beats on every iteration. [`Liveness::stalled`] names the loops whose last beat is too
//! old. It does not know what a loop does: a loop that runs and fails is alive.

use crate::clock::Clock;
use flipop_core::model::Moment;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The register of loops. Clones share it.
#[derive(Debug, Clone)]
pub struct Liveness {
    clock: Clock,
    loops: Arc<Mutex<Vec<Entry>>>,
}

#[derive(Debug, Clone)]
struct Entry {
    name: &'static str,
    max_age_ms: u64,
    beat_at: Arc<AtomicU64>,
}

/// The handle of one loop.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    clock: Clock,
    beat_at: Arc<AtomicU64>,
}

impl Liveness {
    /// An empty register.
    pub fn new(clock: Clock) -> Self {
        Self { clock, loops: Arc::default() }
    }

    /// Adds a loop that must beat at least every `max_age_ms`, starting now.
    pub fn register(&self, name: &'static str, max_age_ms: u64) -> Heartbeat {
        let beat_at = Arc::new(AtomicU64::new(self.clock.now().as_millis()));
        let entry = Entry { name, max_age_ms, beat_at: Arc::clone(&beat_at) };
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Heartbeat { clock: self.clock.clone(), beat_at }
    }

    /// A sentence for each stalled loop.
    pub fn stalled(&self) -> Vec<String> {
        let now = self.clock.now();
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let ages = loops.iter().map(|entry| {
            let beat_at = Moment::from_millis(entry.beat_at.load(Ordering::Relaxed));
            (entry, now.millis_since(beat_at))
        });
        ages.filter(|(entry, age)| *age > entry.max_age_ms)
            .map(|(entry, age)| format!("the {} loop has not run for {age} ms", entry.name))
            .collect()
    }
}

impl Heartbeat {
    /// Records that the loop turned.
    pub fn beat(&self) {
        self.beat_at.store(self.clock.now().as_millis(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_beat_in_time_is_named_until_it_beats_again() {
        let liveness = Liveness::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
        let slow = liveness.register("lease", 1_000);
        let quick = liveness.register("reconcile", 5_000);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        quick.beat();
        assert_eq!(liveness.stalled(), ["the lease loop has not run for 1500 ms"]);
        slow.beat();
        assert_eq!(liveness.stalled(), Vec::<String>::new());
    }
}
