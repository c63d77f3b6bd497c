//! When a failed request is retried: the schedules, the count of failures that moves along them, and the failed request
//! itself.

use crate::mechanism::epoch::Epoch;
use crate::model::{CallFailure, Context, Fault, FaultKind, Jitter, Moment, WriteFailure};

/// A write to Kubernetes waits no longer than the longest step of the schedule, even if the API server asks for more.
const LONGEST_WAIT_MS: u64 = 300_000;

/// A refused token is tried again after this long, since a refusal lasts until somebody changes the token or its
/// rights.
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

/// A request that failed. `I` is the input that, once changed, makes it a new request, due at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure<I> {
    /// Kind of the last failure.
    pub kind: FaultKind,
    /// The message for users.
    pub message: String,
    /// The failures in a row, and when to try again.
    pub retry: Retry,
    input: I,
    spec_version: u64,
}

impl<I: PartialEq> Failure<I> {
    /// Notes one more failure in `slot`.
    pub fn note(
        slot: &mut Option<Self>,
        (kind, message): (FaultKind, &str),
        (input, spec_version): (I, u64),
        pace: Pace,
        at: Context,
    ) {
        // A failure on another schedule starts its own count. A fault that somebody must fix says nothing about one
        // that passes by itself.
        let alike = |failure: &Self| Schedule::of(failure.kind) == Schedule::of(kind);
        let before = slot
            .take()
            .filter(|failure| failure.concerns(&input, spec_version))
            .filter(|before| alike(before));
        let mut retry = before.map(|failure| failure.retry).unwrap_or_default();
        retry.failed(pace, at);
        *slot = Some(Self { kind, message: message.to_owned(), retry, input, spec_version });
    }

    /// Makes the request due now if it failed with the whole account, whose outage is over.
    pub fn release(slot: &mut Option<Self>, now: Moment) {
        if let Some(failure) = slot {
            failure.retry.release(now);
        }
    }

    /// Whether this is about the same request.
    pub fn concerns(&self, input: &I, spec_version: u64) -> bool {
        self.input == *input && self.spec_version == spec_version
    }

    /// When the same request may be sent again. `None` if it may be sent now.
    pub fn waits(&self, input: &I, spec_version: u64, now: Moment) -> Option<Moment> {
        (self.concerns(input, spec_version) && self.retry.due() > now).then_some(self.retry.due())
    }
}

/// The gate of one right. It is open until a request that needs the right is refused.
#[derive(Debug, Default)]
pub struct RefusedRight(Option<Refusal>);

/// A refusal of the token that no accepted request has disproved yet.
#[derive(Debug)]
struct Refusal {
    /// The epoch in which the refused request was decided.
    asked: Epoch,
    /// When a request may test it.
    due: Moment,
    /// The provider's words.
    message: String,
}

impl RefusedRight {
    /// Whether the token was refused nothing, or a request was accepted since.
    pub const fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// When the next request may be sent, if that is not yet.
    pub fn waits(&self, now: Moment) -> Option<Moment> {
        self.0.as_ref().map(|refusal| refusal.due).filter(|due| *due > now)
    }

    /// The provider's words at the last refusal.
    pub fn message(&self) -> &str {
        self.0.as_ref().map_or("", |refusal| refusal.message.as_str())
    }

    /// Notes that a request is sent. While the gate is shut, this request tests the refusal.
    pub fn sent(&mut self, now: Moment) {
        if let Some(refusal) = &mut self.0 {
            refusal.due = next_try(now);
        }
    }

    /// Takes in how a request ended that was decided in the epoch `asked`.
    pub fn answered(&mut self, asked: &Epoch, failure: Option<&CallFailure>, now: Moment) {
        match failure {
            None => {
                // A request of an earlier epoch may have had the former token.
                self.0.take_if(|refusal| !asked.precedes(&refusal.asked));
            }
            Some(CallFailure::Fault(fault)) if fault.kind == FaultKind::Unauthorized => {
                let (due, message) = (next_try(now), fault.message.clone());
                self.0 = Some(Refusal { asked: asked.clone(), due, message });
            }
            // Any other failure says nothing about the right.
            Some(CallFailure::Fault(_) | CallFailure::NotSent) => {}
        }
    }
}

fn next_try(now: Moment) -> Moment {
    now.plus_millis(REFUSED_INTERVAL_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fault;

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

    #[test]
    fn a_failure_of_another_schedule_is_the_first_one_of_it() {
        let at = |seconds: u64| Moment::from_millis(seconds * 1_000);
        let mut slot = None;
        let mut note = |kind, now| {
            let when = Context::exactly(at(now));
            Failure::note(&mut slot, (kind, "broken"), ((), 0), Pace::by(Schedule::of(kind)), when);
            slot.as_ref().map(|failure| failure.retry.due().millis_since(at(now)) / 1_000)
        };
        let waits = [1, 2, 3].map(|now| note(FaultKind::InProgress, now));
        assert_eq!(waits, [Some(1), Some(1), Some(5)]);
        assert_eq!([4, 5].map(|now| note(FaultKind::NodeInUse, now)), [Some(60), Some(300)]);
        assert_eq!(note(FaultKind::Transient, 6), Some(1));
    }

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    fn failed(kind: FaultKind) -> CallFailure {
        let message = "no".to_owned();
        CallFailure::Fault(Fault::new(kind, message))
    }

    #[test]
    fn what_was_refused_is_tried_once_a_minute_until_it_is_accepted() {
        let (mut gate, asked) = (RefusedRight::default(), Epoch::first("p".into()));
        assert_eq!((gate.is_open(), gate.waits(T(0)), gate.message()), (true, None, ""));
        gate.sent(T(0));
        assert!(gate.is_open(), "nothing was refused");
        gate.answered(&asked, Some(&failed(FaultKind::Unauthorized)), T(1));
        assert_eq!((gate.is_open(), gate.message()), (false, "no"));
        assert_eq!((gate.waits(T(60)), gate.waits(T(61))), (Some(T(61)), None));
        gate.sent(T(70));
        assert_eq!(gate.waits(T(71)), Some(T(130)), "one at a time");
        for failure in [failed(FaultKind::Transient), failed(FaultKind::NotFound), CallFailure::NotSent] {
            gate.answered(&asked, Some(&failure), T(72));
            assert_eq!(gate.waits(T(72)), Some(T(130)), "{failure:?}");
        }
        gate.answered(&asked, None, T(73));
        assert_eq!((gate.is_open(), gate.waits(T(73)), gate.message()), (true, None, ""));
    }

    #[test]
    fn what_was_accepted_in_an_earlier_epoch_opens_no_gate() {
        let epochs: Vec<Epoch> = std::iter::successors(Some(Epoch::first("p".into())), |before| {
            let mut next = before.clone();
            next.end();
            Some(next)
        })
        .take(3)
        .collect();
        for (accepted, opens) in epochs.iter().zip([false, true, true]) {
            let mut gate = RefusedRight::default();
            gate.answered(&epochs[1], Some(&failed(FaultKind::Unauthorized)), T(1));
            gate.answered(accepted, None, T(2));
            assert_eq!(gate.is_open(), opens, "{accepted:?}");
        }
    }
}
