//! The gate before those requests of an account that need one right of its token.
//!
//! Invariant: once the provider refuses such a request to the token, one request a minute passes and tests the refusal,
//! whatever the number that wait. The first accepted request opens the gate for all others, unless it was decided in an
//! epoch before that of the refused one. A new token gets a new gate, so its rights are tested at once.

use crate::mechanism::epoch::Epoch;
use crate::mechanism::retry::REFUSED_INTERVAL_MS;
use crate::model::fault::{CallFailure, FaultKind};
use crate::model::moment::Moment;

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
    use crate::model::fault::Fault;

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
