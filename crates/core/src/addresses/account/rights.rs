//! What the token may not do, as far as the provider has said so.
//!
//! Invariant: where it was refused, one request a minute and token finds out whether it still is, however many
//! addresses wait; the first that is accepted lets all others go at once.

use crate::mechanism::retry::Schedule;
use crate::model::moment::{Jitter, Moment};
use std::collections::BTreeMap;

/// What a token may be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Assign and unassign addresses.
    Move,
    /// Create addresses.
    Create,
}

/// The rights that are missing: when each is tried again, and what the provider said.
#[derive(Debug, Default)]
pub struct Rights(BTreeMap<Right, (Moment, String)>);

fn next_try(now: Moment) -> Moment {
    now.plus_millis(Schedule::Unauthorised.delay_ms(1, Jitter::NONE))
}

impl Rights {
    /// Whether the token was refused this, and nothing of the kind was accepted since.
    #[must_use]
    pub fn lacks(&self, right: Right) -> bool {
        self.0.contains_key(&right)
    }

    /// When it may be tried, if that is not yet.
    #[must_use]
    pub fn waits(&self, right: Right, now: Moment) -> Option<Moment> {
        self.0.get(&right).map(|(due, _)| *due).filter(|due| *due > now)
    }

    /// What the provider said when it refused this last.
    #[must_use]
    pub fn message(&self, right: Right) -> &str {
        self.0.get(&right).map_or("", |(_, message)| message)
    }

    /// The token was refused this, in these words.
    pub fn refused(&mut self, right: Right, message: &str, now: Moment) {
        self.0.insert(right, (next_try(now), message.to_owned()));
    }

    /// A request goes out. While the right is missing it is the one that finds out.
    pub fn sent(&mut self, right: Right, now: Moment) {
        if let Some((due, _)) = self.0.get_mut(&right) {
            *due = next_try(now);
        }
    }

    /// A request was accepted.
    pub fn granted(&mut self, right: Right) {
        self.0.remove(&right);
    }

    /// Another token: what the former one was refused is tried at once.
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
