//! When a failed request is retried: the schedules, and the count of failures that moves along them.

use crate::model::fault::{Fault, FaultKind, WriteFailure};
use crate::model::moment::{Context, Jitter, Moment};

/// A write to Kubernetes waits no longer than the longest step of the schedule, even if the API server asks for more.
const LONGEST_WAIT_MS: u64 = 300_000;

/// A refused token is tried again after this long, since a refusal lasts until somebody changes the token or its rights.
pub const REFUSED_INTERVAL_MS: u64 = 60_000;

/// How long to wait before the next try, by the number of failures so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// For failures that are likely to pass soon: in progress, transient, throttled without a time.
    Fast,
    /// For failures that somebody has to fix: not found, in use, invalid, quota, permanent.
    Slow,
    /// For refused tokens: one read per minute and token.
    Unauthorized,
}

impl Schedule {
    /// The schedule on which a kind of failure is retried.
    pub fn of(kind: FaultKind) -> Self {
        match kind {
            FaultKind::InProgress | FaultKind::Transient | FaultKind::Throttled => Self::Fast,
            FaultKind::NotFound
            | FaultKind::NodeInUse
            | FaultKind::Invalid
            | FaultKind::Quota
            | FaultKind::Permanent => Self::Slow,
            FaultKind::Unauthorized => Self::Unauthorized,
        }
    }

    /// Milliseconds to wait after failure number `failures` (1 for the first), up to a tenth longer by `jitter`.
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
            Self::Unauthorized => REFUSED_INTERVAL_MS,
        };
        base + base / 10 * u64::from(jitter.thousandths()) / 1_000
    }
}

/// How long a failure delays the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    schedule: Schedule,
    /// The wait that the other side asked for. The next try is not earlier.
    asked_ms: u64,
    /// The longest wait, unless the other side asked for more.
    longest_ms: u64,
    /// The whole account failed, and not this call alone.
    whole: bool,
}

impl Pace {
    /// Follows this schedule.
    pub const fn by(schedule: Schedule) -> Self {
        Self { schedule, asked_ms: 0, longest_ms: u64::MAX, whole: false }
    }

    /// Follows the schedule of the fault's kind, but waits at least as long as the provider asked.
    pub fn of(fault: &Fault) -> Self {
        let asked_ms = fault.retry_after_ms.unwrap_or(0);
        Self { asked_ms, whole: fault.whole, ..Self::by(Schedule::of(fault.kind)) }
    }

    /// For a write to Kubernetes: follows its schedule, but waits at least as long as the API server asked.
    pub fn of_write(failure: &WriteFailure) -> Self {
        match failure {
            WriteFailure::Forbidden(_) | WriteFailure::Invalid(_) => Self::by(Schedule::Slow),
            WriteFailure::Throttled { wait_ms, .. } => {
                Self { asked_ms: (*wait_ms).min(LONGEST_WAIT_MS), ..Self::by(Schedule::Fast) }
            }
            WriteFailure::NotSent
            | WriteFailure::Conflict
            | WriteFailure::Gone
            | WriteFailure::Transient(_) => Self::by(Schedule::Fast),
        }
    }

    /// The same, but no step of the schedule takes longer than `longest_ms`.
    pub const fn within(self, longest_ms: u64) -> Self {
        Self { longest_ms, ..self }
    }

    /// The same after a request that failed with its whole account, if it did, and for whose repetition the other side
    /// asked to wait.
    pub const fn after(self, whole: bool, asked_ms: u64) -> Self {
        Self { asked_ms, whole, ..self }
    }

    /// The wait after failure number `failures`.
    fn wait_ms(self, failures: u32, jitter: Jitter) -> u64 {
        self.schedule.delay_ms(failures, jitter).min(self.longest_ms).max(self.asked_ms)
    }
}

/// Failed tries in a row, and when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retry {
    tries: u32,
    due: Moment,
    /// The other side asked for no try before this.
    asked: Moment,
    /// The last try failed with the whole account.
    whole: bool,
    /// An outage ended since the last success, and the count began again then.
    released: bool,
}

impl Retry {
    /// A retry that is due at this moment, without any failed try.
    pub const fn at(due: Moment) -> Self {
        Self { tries: 0, due, asked: Moment::from_millis(0), whole: false, released: false }
    }

    /// When it is due.
    pub const fn due(&self) -> Moment {
        self.due
    }

    /// Failed tries in a row.
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether the last try failed.
    pub const fn is_failing(&self) -> bool {
        self.tries > 0
    }

    /// Counts a failed try.
    pub fn failed(&mut self, pace: Pace, at: Context) {
        self.again(at.now, |tries| pace.wait_ms(tries, at.jitter));
        self.asked = at.now.plus_millis(pace.asked_ms);
        self.whole = pace.whole;
    }

    /// Counts a failed try. `wait_ms` maps the number of failed tries to a wait.
    pub fn again(&mut self, now: Moment, wait_ms: impl FnOnce(u32) -> u64) {
        self.tries = self.tries.saturating_add(1);
        self.due = now.plus_millis(wait_ms(self.tries));
        self.whole = false;
    }

    /// Resets the count after a success. The due time stays as it is.
    pub const fn succeeded(&mut self) {
        self.tries = 0;
        self.whole = false;
        self.released = false;
    }

    /// Makes the next try due now if the last one failed with the whole account, whose outage is over. The count starts
    /// again at the first such end only. So a call that fails while tests of the account succeed still backs off.
    pub fn release(&mut self, now: Moment) {
        if std::mem::take(&mut self.whole) {
            self.hasten(now.max(self.asked));
            if !std::mem::replace(&mut self.released, true) {
                self.tries = 0;
            }
        }
    }

    /// Moves the due time to `due`, and keeps the position in the schedule.
    pub const fn put_off_to(&mut self, due: Moment) {
        self.due = due;
    }

    /// Postpones the next try to `earliest`, if it is due before that.
    pub fn not_before(&mut self, earliest: Moment) {
        self.due = self.due.max(earliest);
    }

    /// Makes the next try due at `latest`, if it is due after that.
    pub fn hasten(&mut self, latest: Moment) {
        self.due = self.due.min(latest);
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
