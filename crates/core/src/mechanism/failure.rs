//! A failed request and when it may be repeated.

use crate::mechanism::retry::{Pace, Retry, Schedule};
use crate::model::fault::FaultKind;
use crate::model::moment::{Context, Moment};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
