//! Time and randomness. The shell supplies both.

/// A point of monotonic time, in milliseconds since some fixed instant before the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// From milliseconds since the clock's origin.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the clock's origin.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `ms` milliseconds later.
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here; 0 when `earlier` is not earlier.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A random fraction from 0 to 1, in thousandths. The shell draws it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter(u16);

impl Jitter {
    /// No jitter.
    pub const NONE: Self = Self(0);

    /// From a random number.
    pub const fn from_random(random: u16) -> Self {
        Self(random % 1_000)
    }

    /// The fraction in thousandths.
    pub const fn thousandths(self) -> u16 {
        self.0
    }
}

/// The time of an occurrence, and the jitter for the waits that follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The time.
    pub now: Moment,
    /// Lengthens waits by up to a tenth.
    pub jitter: Jitter,
}

impl Context {
    /// This time, without jitter.
    pub const fn exactly(now: Moment) -> Self {
        Self { now, jitter: Jitter::NONE }
    }
}
