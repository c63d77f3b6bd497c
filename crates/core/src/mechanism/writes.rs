//! Writes of an object's status and of a pool's `spec.ips`, and when the next one may be sent.

use crate::mechanism::retry::{Pace, Retry};
use crate::model::fault::WriteFailure;
use crate::model::moment::{Context, Moment};

/// Writes of one object under way, and their retries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Writes<S> {
    status_in_flight: Option<Box<S>>,
    /// The last write met a conflict. The next one fails too until the watch shows the newer version.
    awaiting_version: bool,
    /// The watch showed the object while the last write was under way.
    observed_in_flight: bool,
    status: Retry,
    ips_in_flight: bool,
    ips: Retry,
    /// Why the last write of `spec.ips` was refused, for a condition. A refused status write cannot be reported this
    /// way.
    pub ips_denied: Option<String>,
}

impl<S> Writes<S> {
    /// The watch showed the object.
    pub fn observed_again(&mut self) {
        self.observed_in_flight = true;
        if std::mem::take(&mut self.awaiting_version) {
            self.status.put_off_to(Moment::default());
        }
    }

    /// Whether a status may be written now.
    ///
    /// # Errors
    /// When to look again, if only time is missing.
    pub fn status_ready(&self, now: Moment) -> Result<(), Option<Moment>> {
        match &self.status_in_flight {
            Some(_) => Err(None),
            None if self.status.due() > now => Err(Some(self.status.due())),
            None => Ok(()),
        }
    }

    /// Whether a write awaits its answer.
    pub fn are_under_way(&self) -> bool {
        self.status_in_flight.is_some() || self.ips_in_flight
    }

    /// Whether the last answered status write failed.
    pub fn is_status_failing(&self) -> bool {
        self.status.is_failing()
    }

    /// Notes that a status write is sent.
    pub fn status_sent(&mut self, status: S) {
        self.observed_in_flight = false;
        self.status_in_flight = Some(Box::new(status));
    }

    /// Takes in the answer to a status write. Returns the status that was written.
    pub fn status_done(
        &mut self,
        failure: Option<&WriteFailure>,
        at @ Context { now, .. }: Context,
    ) -> Option<S> {
        let written = self.status_in_flight.take();
        match failure {
            None => self.status.succeeded(),
            Some(WriteFailure::NotSent) => {}
            Some(failure) => {
                let conflict = matches!(failure, WriteFailure::Conflict);
                if conflict && self.observed_in_flight {
                    // The watch was faster than the answer. The next write is already based on the newer version.
                    self.status.put_off_to(now);
                    return written.map(|status| *status);
                }
                self.awaiting_version = conflict;
                self.status.failed(Pace::of_write(failure), at);
            }
        }
        written.map(|status| *status)
    }

    /// Whether `spec.ips` may be written now.
    ///
    /// # Errors
    /// When to look again, if only time is missing.
    pub fn ips_ready(&self, now: Moment) -> Result<(), Option<Moment>> {
        match self.ips_in_flight {
            true => Err(None),
            false if self.ips.due() > now => Err(Some(self.ips.due())),
            false => Ok(()),
        }
    }

    /// Notes that a write of `spec.ips` is sent.
    pub fn ips_sent(&mut self) {
        self.ips_in_flight = true;
    }

    /// Takes in the answer to a write of `spec.ips`.
    pub fn ips_done(&mut self, failure: Option<&WriteFailure>, at: Context) {
        self.ips_in_flight = false;
        match failure {
            None => {
                self.ips.succeeded();
                self.ips_denied = None;
            }
            Some(WriteFailure::NotSent) => {}
            Some(failure) => {
                self.ips.failed(Pace::of_write(failure), at);
                if let WriteFailure::Forbidden(message) | WriteFailure::Invalid(message) = failure {
                    self.ips_denied = Some(message.clone());
                }
            }
        }
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
