//! A value with its recent past, for lists that lag behind writes.
//!
//! Invariant: with a lag of 0, nothing is copied or kept.

use std::collections::VecDeque;

/// Most past states kept. With more writes than this within one lag, the oldest reads are less outdated than asked for.
const PAST_STATES_MAX: usize = 256;

/// The current value and its earlier states.
#[derive(Debug, Clone, Default)]
pub(super) struct History<T> {
    current: T,
    /// Earlier values, each with the time at which it was replaced.
    past: VecDeque<(u64, T)>,
}

impl<T: Clone> History<T> {
    /// The current value.
    pub(super) fn now(&self) -> &T {
        &self.current
    }

    /// The value, for a change at `now_ms`. The old one is kept while lists lag by `lag_ms`.
    pub(super) fn change(&mut self, now_ms: u64, lag_ms: u64) -> &mut T {
        let outdated = |&(replaced_ms, _): &(u64, T)| replaced_ms.saturating_add(lag_ms) <= now_ms;
        while self.past.front().is_some_and(outdated) || self.past.len() >= PAST_STATES_MAX {
            self.past.pop_front();
        }
        if lag_ms > 0 {
            self.past.push_back((now_ms, self.current.clone()));
        }
        &mut self.current
    }

    /// The value as shown by a list that lags by `lag_ms`.
    pub(super) fn seen(&self, now_ms: u64, lag_ms: u64) -> &T {
        let past = self.past.iter().find(|&&(replaced_ms, _)| replaced_ms.saturating_add(lag_ms) > now_ms);
        past.filter(|_| lag_ms > 0).map_or(&self.current, |(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lagging_list_shows_what_was_there_before() {
        let mut value: History<u32> = History::default();
        *value.change(1_000, 500) = 1;
        *value.change(1_200, 500) = 2;
        assert_eq!(*value.now(), 2);
        assert_eq!(*value.seen(1_400, 500), 0);
        assert_eq!(*value.seen(1_500, 500), 1);
        assert_eq!(*value.seen(1_700, 500), 2);
        assert_eq!(*value.seen(1_400, 0), 2);
    }

    #[test]
    fn a_lag_longer_than_the_world_is_old_shows_its_beginning() {
        let mut value: History<u32> = History::default();
        *value.change(0, 60_000) = 1;
        assert_eq!(*value.seen(0, 60_000), 0);
        assert_eq!(*value.seen(1, 60_000), 0);
    }
}
