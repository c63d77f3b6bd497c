//! The only source of time. All other code is handed a [`Clock`].
//!
//! [`Clock::system`] counts `CLOCK_BOOTTIME`, which includes time spent stopped or suspended: a leader that was frozen
//! must see that its permit is over. [`Clock::simulated`] follows tokio's clock, which tests pause.

use flipop_core::model::moment::Moment;
use std::sync::Arc;
use std::time::Duration;

/// A source of time.
trait Source: Send + Sync {
    fn now(&self) -> Moment;
    fn timestamp(&self) -> jiff::Timestamp;
}

/// A monotonic clock and a wall clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Source>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl Clock {
    /// The machine's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(System))
    }

    /// Tokio's clock as the monotonic clock. The wall clock starts at `epoch` and runs with it.
    #[must_use]
    pub fn simulated(epoch: jiff::Timestamp) -> Self {
        Self::drifting(epoch, TRUE_RATE)
    }

    /// Like [`Clock::simulated`], on a machine whose clock runs at `rate` thousandths of tokio's speed.
    #[must_use]
    pub fn drifting(epoch: jiff::Timestamp, rate: u64) -> Self {
        Self(Arc::new(Simulated { start: tokio::time::Instant::now(), epoch, rate }))
    }

    /// Monotonic time. It also runs while the machine sleeps.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// Wall-clock time, for people and for the API server's records. No decision uses it.
    #[must_use]
    pub fn timestamp(&self) -> jiff::Timestamp {
        self.0.timestamp()
    }

    /// The wall-clock time at zero of the monotonic clock, in milliseconds since the Unix epoch. For texts that name a
    /// future time.
    #[must_use]
    pub fn epoch_ms(&self) -> u64 {
        let wall = u64::try_from(self.timestamp().as_millisecond()).unwrap_or_default();
        wall.saturating_sub(self.now().as_millis())
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
