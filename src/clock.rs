//! The only source of time. All other code is handed a [`Clock`].
//!
//! [`Clock::system`] counts `CLOCK_BOOTTIME`, which includes time spent stopped or suspended: a leader that was frozen
//! must see that its permit is over. [`Clock::simulated`] follows tokio's clock, which tests pause.

use flipop_core::model::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The wall clock counts as set when it differs by more than this from what the monotonic clock says. The two are read
/// one after the other, and each reading drops a part of a millisecond.
const SET_MS: u64 = 10;

/// A source of time.
trait Source: Send + Sync {
    fn now(&self) -> Moment;
    fn timestamp(&self) -> jiff::Timestamp;
}

/// A monotonic clock and a wall clock.
#[derive(Clone)]
pub struct Clock {
    source: Arc<dyn Source>,
    /// The answer of [`Clock::epoch_ms`], 0 before the first.
    epoch_ms: Arc<AtomicU64>,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl Clock {
    /// The machine's clocks.
    pub fn system() -> Self {
        Self::of(System)
    }

    /// Tokio's clock as the monotonic clock. The wall clock starts at `epoch` and runs with it.
    pub fn simulated(epoch: jiff::Timestamp) -> Self {
        Self::drifting(epoch, TRUE_RATE)
    }

    /// Like [`Clock::simulated`], on a machine whose clock runs at `rate` thousandths of tokio's speed.
    pub fn drifting(epoch: jiff::Timestamp, rate: u64) -> Self {
        Self::of(Simulated { start: tokio::time::Instant::now(), epoch, rate })
    }

    fn of(source: impl Source + 'static) -> Self {
        Self { source: Arc::new(source), epoch_ms: Arc::default() }
    }

    /// Monotonic time. It also runs while the machine sleeps.
    pub fn now(&self) -> Moment {
        self.source.now()
    }

    /// Wall-clock time, for people and for the API server's records. No decision uses it.
    pub fn timestamp(&self) -> jiff::Timestamp {
        self.source.timestamp()
    }

    /// The wall-clock time at zero of the monotonic clock, in milliseconds since the Unix epoch. For texts that name
    /// the time of a moment. It stays the same until the wall clock is set, so one moment has one text.
    pub fn epoch_ms(&self) -> u64 {
        let wall = u64::try_from(self.timestamp().as_millisecond()).unwrap_or_default();
        let read = wall.saturating_sub(self.now().as_millis());
        let known = self.epoch_ms.load(Ordering::Relaxed);
        if known.abs_diff(read) <= SET_MS {
            return known;
        }
        self.epoch_ms.store(read, Ordering::Relaxed);
        read
    }

    /// The wall-clock time of a moment, by the present wall clock.
    pub fn time_of(&self, moment: Moment) -> jiff::Timestamp {
        let ms = self.epoch_ms().saturating_add(moment.as_millis());
        jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap_or(i64::MAX))
            .unwrap_or(jiff::Timestamp::MAX)
    }

    /// Waits until `moment`. Checks at least once a second, because tokio's timers do not count time asleep.
    pub async fn sleep_until(&self, moment: Moment) {
        loop {
            let left = moment.millis_since(self.now());
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left.min(1_000))).await;
        }
    }
}

struct System;

impl Source for System {
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Moment::from_millis(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock's home")]
    fn timestamp(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

/// The rate of a simulated clock that keeps tokio's pace.
const TRUE_RATE: u64 = 1_000;

struct Simulated {
    start: tokio::time::Instant,
    epoch: jiff::Timestamp,
    rate: u64,
}

impl Simulated {
    fn elapsed_ms(&self) -> u64 {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        millis.saturating_mul(self.rate) / TRUE_RATE
    }
}

impl Source for Simulated {
    fn now(&self) -> Moment {
        Moment::from_millis(self.elapsed_ms())
    }

    fn timestamp(&self) -> jiff::Timestamp {
        let elapsed = jiff::SignedDuration::from_millis(i64::try_from(self.elapsed_ms()).unwrap_or(i64::MAX));
        self.epoch.checked_add(elapsed).unwrap_or(jiff::Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks that show what they are set to: the monotonic one and the wall clock, in milliseconds.
    struct Shown(Arc<(AtomicU64, AtomicU64)>);

    impl Source for Shown {
        fn now(&self) -> Moment {
            Moment::from_millis(self.0.0.load(Ordering::Relaxed))
        }

        fn timestamp(&self) -> jiff::Timestamp {
            let ms = i64::try_from(self.0.1.load(Ordering::Relaxed)).unwrap();
            jiff::Timestamp::from_millisecond(ms).unwrap()
        }
    }

    #[test]
    fn a_moment_has_one_time_until_the_wall_clock_is_set() {
        let shown = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let clock = Clock::of(Shown(Arc::clone(&shown)));
        let read = |now, wall| {
            shown.0.store(now, Ordering::Relaxed);
            shown.1.store(wall, Ordering::Relaxed);
            clock.time_of(Moment::from_millis(2_000)).as_millisecond()
        };
        assert_eq!(read(5_000, 1_000_000_005_000), 1_000_000_002_000);
        // The next millisecond began on one of the clocks only.
        assert_eq!(read(6_000, 1_000_000_006_001), 1_000_000_002_000);
        assert_eq!(read(7_001, 1_000_000_007_000), 1_000_000_002_000);
        assert_eq!(read(8_000, 1_000_000_010_000), 1_000_000_004_000, "the wall clock was set");
    }
}
