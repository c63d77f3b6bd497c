//! Whether an account is out: its provider cannot be reached, does not answer, or answers that it is broken.
//!
//! Two calls in a row that fail with the whole account begin an outage, if one of them is a read. A read of one entry
//! then tests the account every [`TEST_INTERVAL_MS`]. All other calls keep their schedules. The first read that
//! succeeds and began after the last failure ends the outage, and each call that failed with the account is due once.
//!
//! Invariant: only reads begin and end an outage. A request that fails while reads succeed keeps its schedule.

use crate::model::{CallFailure, FaultKind, Moment};

/// From the start of one test to the start of the next.
pub const TEST_INTERVAL_MS: u64 = 5_000;

/// A test that has no answer after this long has failed.
pub const TEST_DEADLINE_MS: u64 = 4_000;

/// The calls in a row that fail before the account is out. A single one may have met a passing fault.
const CALLS: u32 = 2;

/// Failures in a row, with no success in between.
#[derive(Debug, Clone, Copy)]
struct Failing {
    since: Moment,
    calls: u32,
    any_read: bool,
    /// A read that began before this proves nothing.
    last: Moment,
}

/// Whether the calls about one kind of thing in an account fail altogether.
#[derive(Debug, Default)]
pub struct Outage {
    failing: Option<Failing>,
    /// When the last outage ended.
    ended: Option<Moment>,
    testing: bool,
    /// No test begins before this.
    test_due: Moment,
}

impl Outage {
    /// Since when the account is out, if it is.
    pub fn since(&self) -> Option<Moment> {
        let out = |failing: &Failing| failing.calls >= CALLS && failing.any_read;
        self.failing.filter(out).map(|failing| failing.since)
    }

    /// Whether an outage ended after this moment.
    pub fn ended_since(&self, moment: Moment) -> bool {
        self.ended.is_some_and(|ended| moment < ended)
    }

    /// When the account is to be tested. `None` while it is not out, or a test is under way.
    pub fn test_due(&self) -> Option<Moment> {
        self.since().filter(|_| !self.testing).map(|_| self.test_due)
    }

    /// Notes that a test is sent.
    pub const fn testing(&mut self, now: Moment) {
        self.testing = true;
        self.test_due = now.plus_millis(TEST_INTERVAL_MS);
    }

    /// Notes that the test under way was answered.
    pub const fn tested(&mut self) {
        self.testing = false;
    }

    /// Takes in how a read ended that began at `begun`. True if that ends an outage.
    pub fn read(&mut self, begun: Moment, failure: Option<&CallFailure>, now: Moment) -> bool {
        if self.failed(true, begun, failure, now) || !shows_life(failure) {
            return false;
        }
        if self.since().is_none() {
            self.failing = None;
            return false;
        }
        let ends = self.failing.take_if(|failing| begun >= failing.last).is_some();
        if ends {
            self.ended = Some(now);
        }
        ends
    }

    /// Turns the failure of a read that began in an outage and ended after it into an unsent call. So the read is
    /// repeated at once.
    pub fn excuse(&self, begun: Option<Moment>, failure: Option<&mut CallFailure>) {
        if let Some(failure) = failure
            && matches!(failure, CallFailure::Fault(fault) if fault.whole)
            && begun.is_some_and(|begun| self.ended_since(begun))
        {
            *failure = CallFailure::NotSent;
        }
    }

    /// Takes in how a request ended that may change something. It was decided at `begun`.
    pub fn wrote(&mut self, begun: Moment, failure: Option<&CallFailure>, now: Moment) {
        if !self.failed(false, begun, failure, now) && shows_life(failure) && self.since().is_none() {
            self.failing = None;
        }
    }

    /// Whether the call failed with the whole account. A call that began before the end of an outage starts none.
    fn failed(&mut self, read: bool, begun: Moment, failure: Option<&CallFailure>, now: Moment) -> bool {
        let Some(CallFailure::Fault(fault)) = failure.filter(|_| !self.ended_since(begun)) else {
            return false;
        };
        if !fault.whole {
            return false;
        }
        let new = Failing { since: now, calls: 0, any_read: false, last: begun };
        let failing = self.failing.get_or_insert(new);
        failing.calls = failing.calls.saturating_add(1);
        failing.any_read |= read;
        failing.last = failing.last.max(begun);
        if let Some(wait_ms) = fault.retry_after_ms.filter(|_| read) {
            self.test_due = self.test_due.max(now.plus_millis(wait_ms));
        }
        true
    }
}

/// Whether the provider has dealt with the request. A refused token or a throttled one says nothing, and neither does
/// an answer that a proxy may have sent.
fn shows_life(failure: Option<&CallFailure>) -> bool {
    match failure {
        None => true,
        Some(CallFailure::NotSent) => false,
        Some(CallFailure::Fault(fault)) => match fault.kind {
            FaultKind::InProgress
            | FaultKind::NotFound
            | FaultKind::NodeInUse
            | FaultKind::Invalid
            | FaultKind::Quota => true,
            FaultKind::Transient | FaultKind::Throttled | FaultKind::Unauthorized | FaultKind::Permanent => {
                false
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fault;

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    fn failure(kind: FaultKind) -> CallFailure {
        let whole = kind == FaultKind::Transient;
        CallFailure::Fault(Fault { whole, ..Fault::new(kind, String::new()) })
    }

    fn out() -> CallFailure {
        failure(FaultKind::Transient)
    }

    /// An account whose write at 10 s and read at 11 s failed.
    fn outage() -> Outage {
        let mut outage = Outage::default();
        outage.wrote(T(10), Some(&out()), T(10));
        outage.read(T(11), Some(&out()), T(11));
        outage
    }

    #[test]
    fn two_failures_in_a_row_begin_an_outage_if_one_of_them_is_a_read() {
        assert_eq!(outage().since(), Some(T(10)));
        let mut writes = Outage::default();
        (1..9).for_each(|second| writes.wrote(T(second), Some(&out()), T(second)));
        assert_eq!(writes.since(), None);
        let mut single = Outage::default();
        single.read(T(1), Some(&out()), T(1));
        assert_eq!((single.since(), single.test_due()), (None, None));
        for (kind, out_after) in [(FaultKind::NotFound, None), (FaultKind::Throttled, Some(T(1)))] {
            let mut outage = Outage::default();
            outage.read(T(1), Some(&out()), T(1));
            outage.wrote(T(2), Some(&failure(kind)), T(2));
            outage.read(T(3), Some(&out()), T(3));
            assert_eq!(outage.since(), out_after, "{kind}");
        }
    }

    #[test]
    fn a_read_ends_an_outage_only_if_it_began_after_the_last_failure() {
        let mut outage = outage();
        outage.wrote(T(12), None, T(12));
        assert!(!outage.read(T(10), None, T(12)) && outage.since().is_some());
        assert!(!outage.read(T(13), Some(&failure(FaultKind::Unauthorized)), T(13)));
        assert!(outage.read(T(14), Some(&failure(FaultKind::NotFound)), T(15)));
        assert_eq!(outage.since(), None);
        assert!(outage.ended_since(T(14)) && !outage.ended_since(T(15)));
    }

    #[test]
    fn calls_from_before_the_end_of_an_outage_begin_none() {
        let mut outage = outage();
        assert!(outage.read(T(14), None, T(15)));
        outage.read(T(6), Some(&out()), T(16));
        outage.read(T(7), Some(&out()), T(17));
        assert_eq!(outage.since(), None);
        outage.read(T(15), Some(&out()), T(18));
        outage.read(T(16), Some(&out()), T(19));
        assert_eq!(outage.since(), Some(T(18)));
    }

    #[test]
    fn one_test_at_a_time_begins_every_five_seconds_and_none_before_the_provider_allows_it() {
        let mut outage = outage();
        assert!(outage.test_due() <= Some(T(11)) && outage.test_due().is_some());
        outage.testing(T(11));
        assert_eq!(outage.test_due(), None);
        outage.tested();
        let CallFailure::Fault(fault) = out() else { return };
        let asked = |ms| CallFailure::Fault(Fault { retry_after_ms: Some(ms), ..fault.clone() });
        outage.read(T(11), Some(&asked(1_000)), T(12));
        assert_eq!(outage.test_due(), Some(T(16)));
        outage.testing(T(16));
        outage.tested();
        outage.read(T(16), Some(&asked(60_000)), T(17));
        assert_eq!(outage.test_due(), Some(T(77)));
    }
}
