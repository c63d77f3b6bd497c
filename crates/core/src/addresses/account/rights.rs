//! The rights that the provider refuses to the token.
//!
//! Invariant: one request a minute for each token tests a refused right, whatever the number of waiting addresses. The
//! first accepted request lets all others go at once.

use crate::mechanism::retry::Schedule;
use crate::model::moment::{Jitter, Moment};
use std::collections::BTreeMap;

/// A right that a token may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Assign and unassign addresses.
    Move,
    /// Create addresses.
    Create,
    /// Delete addresses.
    Delete,
}

/// The missing rights: when each is retried, and the provider's words.
#[derive(Debug, Default)]
pub struct Rights(BTreeMap<Right, (Moment, String)>);

fn next_try(now: Moment) -> Moment {
    now.plus_millis(Schedule::Unauthorised.delay_ms(1, Jitter::NONE))
}

impl Rights {
    /// Whether the token was refused this, and no such request was accepted since.
    #[must_use]
    pub fn lacks(&self, right: Right) -> bool {
        self.0.contains_key(&right)
    }

    /// When it may be retried, if that is not yet.
    #[must_use]
    pub fn waits(&self, right: Right, now: Moment) -> Option<Moment> {
        self.0.get(&right).map(|(due, _)| *due).filter(|due| *due > now)
    }

    /// The provider's words at the last refusal.
    #[must_use]
    pub fn message(&self, right: Right) -> &str {
        self.0.get(&right).map_or("", |(_, message)| message)
    }

    /// Notes that the provider refused this to the token, in these words.
    pub fn refused(&mut self, right: Right, message: &str, now: Moment) {
        self.0.insert(right, (next_try(now), message.to_owned()));
    }

    /// Notes that a request is sent. While the right is missing, this request tests it.
    pub fn sent(&mut self, right: Right, now: Moment) {
        if let Some((due, _)) = self.0.get_mut(&right) {
            *due = next_try(now);
        }
    }

    /// Notes that a request was accepted.
    pub fn granted(&mut self, right: Right) {
        self.0.remove(&right);
    }

    /// Forgets all refusals after a change of the token. The new token's rights are tested at once.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    #[test]
    fn what_was_refused_is_tried_once_a_minute_until_it_is_accepted() {
        let mut rights = Rights::default();
        assert_eq!((rights.lacks(Right::Move), rights.waits(Right::Move, T(0))), (false, None));
        rights.sent(Right::Move, T(0));
        assert!(!rights.lacks(Right::Move), "nothing was refused");
        rights.refused(Right::Move, "no", T(1));
        assert_eq!((rights.message(Right::Move), rights.message(Right::Create)), ("no", ""));
        assert_eq!((rights.waits(Right::Move, T(60)), rights.waits(Right::Move, T(61))), (Some(T(61)), None));
        assert!(!rights.lacks(Right::Create));
        rights.sent(Right::Move, T(70));
        assert_eq!(rights.waits(Right::Move, T(71)), Some(T(130)), "one at a time");
        rights.granted(Right::Create);
        assert!(rights.lacks(Right::Move));
        rights.granted(Right::Move);
        assert!(!rights.lacks(Right::Move));
        rights.refused(Right::Create, "no", T(80));
        rights.forget();
        assert!(!rights.lacks(Right::Create));
    }
}
