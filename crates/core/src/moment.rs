//! Time as it is handed in, and the retry schedules of the contract.

use crate::fault::FaultKind;

/// A point of monotonic time, in milliseconds since some fixed instant before the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// From milliseconds since the clock's origin.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the clock's origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `ms` milliseconds later.
    #[must_use]
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here; 0 when `earlier` is not earlier.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A random fraction of the interval from 0 to 1, in thousandths, handed in by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter(u16);

impl Jitter {
    /// No jitter at all.
    pub const NONE: Self = Self(0);

    /// From a random number.
    #[must_use]
    pub const fn from_random(random: u16) -> Self {
        Self(random % 1_000)
    }
}

/// How long to wait before the next try, by the number of failures so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// For what is likely to pass soon: in progress, transient, throttled without a time.
    Fast,
    /// For what someone has to mend: not found, in use, invalid, quota, permanent.
    Slow,
    /// One read per minute and token.
    Unauthorised,
}

impl Schedule {
    /// The schedule on which a kind of failure is retried.
    #[must_use]
    pub fn of(kind: FaultKind) -> Self {
        match kind {
            FaultKind::InProgress | FaultKind::Transient | FaultKind::Throttled => Self::Fast,
            FaultKind::NotFound
            | FaultKind::NodeInUse
            | FaultKind::Invalid
            | FaultKind::Quota
            | FaultKind::Permanent => Self::Slow,
            FaultKind::Unauthorised => Self::Unauthorised,
        }
    }

    /// Milliseconds to wait after failure number `failures` (1 for the first), up to a tenth longer by `jitter`.
    #[must_use]
    pub fn delay_ms(self, failures: u32, jitter: Jitter) -> u64 {
        let base = match self {
            Self::Fast => match failures {
                0..=2 => 1_000,
                3..=4 => 5_000,
                5..=7 => 10_000,
                8..=12 => 60_000,
                _ => 300_000,
            },
            Self::Slow => match failures {
                0..=1 => 60_000,
                2 => 300_000,
                _ => 600_000,
            },
            Self::Unauthorised => 60_000,
        };
        base + base / 10 * u64::from(jitter.0) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_schedule_is_the_contract_s() {
        let waits: Vec<u64> = (1..=14).map(|n| Schedule::Fast.delay_ms(n, Jitter::NONE) / 1_000).collect();
        assert_eq!(waits, [1, 1, 5, 5, 10, 10, 10, 60, 60, 60, 60, 60, 300, 300]);
    }

    #[test]
    fn the_slow_schedule_is_the_contract_s() {
        let waits: Vec<u64> = (1..=4).map(|n| Schedule::Slow.delay_ms(n, Jitter::NONE) / 1_000).collect();
        assert_eq!(waits, [60, 300, 600, 600]);
    }

    #[test]
    fn jitter_lengthens_a_wait_by_less_than_a_tenth() {
        let longest = Schedule::Slow.delay_ms(1, Jitter::from_random(999));
        assert!((60_000..66_000).contains(&longest), "{longest}");
    }
}
