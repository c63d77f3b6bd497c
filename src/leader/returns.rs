//! Word of the API server's return, which ends the backoff of every watch.
//!
//! Invariant: an answer counts only if the latest call of its sort had none. A server that answers reads while each
//! write fails is not coming back over and over: the watches would press it all the while.

use crate::kube::trouble::{Trouble, TroubleKind};
use crate::signal;

/// A sort of calls. One can fail by itself, as writes do where the store has lost its quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Read,
    Write,
}

/// Counts the returns, and knows what fails.
pub(super) struct Returns {
    count: signal::Sender<u64>,
    reads_fail: bool,
    writes_fail: bool,
}

impl Returns {
    /// Nothing was asked yet, so the first answer to a read is a return.
    pub(super) fn new() -> Self {
        Self { count: signal::Sender::new(0), reads_fail: true, writes_fail: false }
    }

    pub(super) fn subscribe(&self) -> signal::Receiver<u64> {
        self.count.subscribe()
    }

    /// Takes note of how a call ended. A refusal for what the lease is at that moment is an answer.
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
            // Of one outage there is one return, whichever sort shows it first.
            (self.reads_fail, self.writes_fail) = (false, false);
            self.count.send_modify(|count| *count = count.saturating_add(1));
        } else {
            *failed = fails;
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
}
