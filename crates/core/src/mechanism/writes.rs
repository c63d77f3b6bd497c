//! Writes of an object's status and of a pool's `spec.ips`, and when the next one may be sent.

use crate::mechanism::retry::{Pace, Retry};
use crate::model::{Context, Moment, WriteFailure};

/// Whether a version of an object is older than the known one. Watch events and answers to our own writes arrive by
/// different ways, and may overtake each other.
pub fn is_older(version: &str, known: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    number(version).zip(number(known)).is_some_and(|(version, known)| version < known)
}

/// One call to the API server: whether it is under way, and when it may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    under_way: bool,
    retry: Retry,
    /// Why it was refused last, if it was, until it succeeds.
    pub refusal: Option<String>,
}

impl Call {
    /// Whether it is under way.
    pub const fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Whether it may be sent now.
    ///
    /// # Errors
    /// When to look again, if only time is missing.
    pub fn ready(&self, now: Moment) -> Result<(), Option<Moment>> {
        match self.under_way {
            true => Err(None),
            false if self.retry.due() > now => Err(Some(self.retry.due())),
            false => Ok(()),
        }
    }

    /// Notes that it is sent.
    pub const fn sent(&mut self) {
        self.under_way = true;
    }

    /// Takes in its answer.
    pub fn answered(&mut self, failure: Option<&WriteFailure>, at: Context) {
        self.under_way = false;
        match failure {
            None => *self = Self::default(),
            Some(WriteFailure::NotSent) => {}
            Some(failure) => {
                self.retry.failed(Pace::of_write(failure), at);
                if let Some(message) = failure.refusal() {
                    self.refusal = Some(message.to_owned());
                }
            }
        }
    }
}

/// Writes of one object under way, and their retries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Writes<S> {
    /// The status that is being written.
    sent: Option<Box<S>>,
    /// The last write met a conflict. The next one fails too until the watch shows the newer version.
    awaiting_version: bool,
    /// The watch showed the object while the last write was under way.
    observed_in_flight: bool,
    status: Call,
    /// The write of `spec.ips`. A refusal of it becomes a condition, which a refused status write cannot.
    pub ips: Call,
}

impl<S> Writes<S> {
    /// The watch showed the object.
    pub fn observed_again(&mut self) {
        self.observed_in_flight = true;
        if std::mem::take(&mut self.awaiting_version) {
            self.status.retry.put_off_to(Moment::default());
        }
    }

    /// Whether a status may be written now.
    ///
    /// # Errors
    /// When to look again, if only time is missing.
    pub fn status_ready(&self, now: Moment) -> Result<(), Option<Moment>> {
        self.status.ready(now)
    }

    /// Whether the last answered status write failed.
    pub fn is_status_failing(&self) -> bool {
        self.status.retry.is_failing()
    }

    /// Notes that a status write is sent.
    pub fn status_sent(&mut self, status: S) {
        self.observed_in_flight = false;
        self.status.sent();
        self.sent = Some(Box::new(status));
    }

    /// Takes in the answer to a status write. Returns the status that was written.
    pub fn status_done(&mut self, failure: Option<&WriteFailure>, at: Context) -> Option<S> {
        let conflict = matches!(failure, Some(WriteFailure::Conflict));
        if conflict && self.observed_in_flight {
            // The watch was faster than the answer. The next write is already based on the newer version.
            self.status.under_way = false;
            self.status.retry.put_off_to(at.now);
        } else {
            self.awaiting_version = conflict;
            self.status.answered(failure, at);
        }
        self.sent.take().map(|status| *status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_whose_cause_was_seen_already_is_written_again_at_once() {
        let now = Moment::from_millis(5_000);
        for (seen_before_the_answer, ready) in [(true, Ok(())), (false, Err(Some(now.plus_millis(1_000))))] {
            let mut writes = Writes::default();
            writes.status_sent("a status");
            if seen_before_the_answer {
                writes.observed_again();
            }
            writes.status_done(Some(&WriteFailure::Conflict), Context::exactly(now));
            assert_eq!(writes.status_ready(now), ready);
        }
        let mut writes = Writes::default();
        writes.status_sent("a status");
        writes.status_done(Some(&WriteFailure::Conflict), Context::exactly(now));
        writes.observed_again();
        assert_eq!(writes.status_ready(now), Ok(()), "and at once when the watch shows it");
    }
}
