//! Detects that the API server came back, which ends the backoff of every watch, and logs failing tries: one warning
//! when they persist, one message when they are over.
//!
//! Invariant: an answer counts only if the latest call of the same sort went unanswered. Otherwise a server that
//! answers reads and fails every write would seem to come back again and again, and the watches would flood it.

use crate::kube::trouble::{Trouble, TroubleKind};
use crate::latest;

/// A sort of call. One sort can fail alone: writes fail if the store loses its quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Read,
    Write,
}

/// Counts the returns and tracks which sort of call fails.
pub(super) struct Returns {
    count: latest::Sender<u64>,
    reads_fail: bool,
    writes_fail: bool,
}

impl Returns {
    /// Nothing was asked yet, so the first answered read counts as a return.
    pub(super) fn new() -> Self {
        Self { count: latest::Sender::new(0), reads_fail: true, writes_fail: false }
    }

    pub(super) fn subscribe(&self) -> latest::Receiver<u64> {
        self.count.subscribe()
    }

    /// Records how a call ended. A refusal because of the state of the lease counts as an answer.
    pub(super) fn note<T>(&mut self, sort: Sort, answer: &Result<T, Trouble>) {
        let fails = match answer {
            Ok(_) => false,
            Err(trouble) => !matches!(trouble.kind, TroubleKind::NotFound | TroubleKind::Conflict),
        };
        let failed = match sort {
            Sort::Read => &mut self.reads_fail,
            Sort::Write => &mut self.writes_fail,
        };
        if !fails && *failed {
            // One outage has one return, whichever sort of call shows it first.
            (self.reads_fail, self.writes_fail) = (false, false);
            self.count.send_modify(|count| *count = count.saturating_add(1));
        } else {
            *failed = fails;
        }
    }
}

/// Failed tries in a row before a warning. Fewer are normal: servers restart.
const TRIES_TO_WARN: u32 = 3;

/// Failed tries in a row. A try that reads the lease but cannot write it has failed.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    tries: u32,
    warned: Option<TroubleKind>,
}

impl FailureLog {
    /// Counts one more failed try. Returns whether to warn, at most once per series.
    pub(super) fn failed(&mut self, trouble: &Trouble) -> bool {
        self.tries = self.tries.saturating_add(1);
        // These last until someone fixes them.
        let lasts = matches!(trouble.kind, TroubleKind::Forbidden | TroubleKind::Unauthorized);
        let warns = (lasts || self.tries >= TRIES_TO_WARN) && self.warned.is_none();
        if warns {
            self.warned(trouble);
        }
        warns
    }

    /// The caller has logged a warning of its own.
    pub(super) fn warned(&mut self, trouble: &Trouble) {
        self.warned = Some(trouble.kind);
    }

    /// A try succeeded.
    pub(super) fn ended(&mut self) {
        self.tries = 0;
        if let Some(kind) = self.warned.take() {
            tracing::info!(trouble = kind.label(), "the lease can be used again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_one_return_and_reads_between_writes_that_fail_are_none() {
        let (read, write) = (Sort::Read, Sort::Write);
        let (good, bad) = (None, Some(TroubleKind::ServerError));
        let (conflict, refused) = (Some(TroubleKind::Conflict), Some(TroubleKind::Forbidden));
        let half = [(write, bad), (read, good), (write, bad), (read, good), (write, refused), (read, good)];
        let mut returns = Returns::new();
        for (calls, expected) in [
            (&[(read, bad), (read, good), (write, good), (write, good)][..], 1),
            (&half, 1),
            (&[(write, conflict), (write, good)], 2),
            (&[(write, bad), (read, bad), (read, bad), (read, good), (write, good)], 3),
            (&[(write, bad), (read, bad), (read, good)], 4),
            (&half, 4),
            (&[(read, bad), (write, good), (read, good)], 5),
        ] {
            for (sort, trouble) in calls {
                let answer = trouble.map_or(Ok(()), |kind| Err(Trouble::new(kind, "no")));
                returns.note(*sort, &answer);
            }
            assert_eq!(returns.count.latest(), expected, "{calls:?}");
        }
    }

    #[test]
    fn what_goes_on_is_warned_of_once_and_what_lasts_at_once() {
        let (server, role) = (TroubleKind::ServerError, TroubleKind::Forbidden);
        let mut failure_log = FailureLog::default();
        let mut reported = |kinds: &[TroubleKind]| -> Vec<bool> {
            let reported = kinds.iter().map(|kind| failure_log.failed(&Trouble::new(*kind, "no"))).collect();
            failure_log.ended();
            reported
        };
        assert_eq!(reported(&[server; 5]), [false, false, true, false, false]);
        assert_eq!(reported(&[server; 2]), [false, false]);
        assert_eq!(reported(&[role, role]), [true, false]);
    }
}
