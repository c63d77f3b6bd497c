//! Time and chance as they are handed in.

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

    /// So many thousandths of the interval.
    #[must_use]
    pub const fn thousandths(self) -> u16 {
        self.0
    }
}

/// When something happens, and the chance that spreads what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The time.
    pub now: Moment,
    /// Lengthens waits by up to a tenth.
    pub jitter: Jitter,
}

impl Context {
    /// At this time, with no chance in it.
    #[must_use]
    pub const fn exactly(now: Moment) -> Self {
        Self { now, jitter: Jitter::NONE }
    }
}
