//! Puts items that failed recently behind the others.

use crate::model::moment::Moment;

/// The place in the queue of an item that failed recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The sequence number of the failure.
    count: u64,
    until: Moment,
}

impl Behind {
    /// Longer than the longest retry wait, so an item that keeps failing stays behind.
    const LASTS_MS: u64 = 900_000;

    /// The place of an item that failed at `now`, as the `count`th event.
    pub fn since(count: u64, now: Moment) -> Self {
        Self { count, until: now.plus_millis(Self::LASTS_MS) }
    }

    /// Its rank: 0 without a recent failure, otherwise higher the later it failed.
    pub fn place(behind: Option<Self>, now: Moment) -> u64 {
        behind.filter(|behind| behind.until > now).map_or(0, |behind| behind.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::retry::Schedule;
    use crate::model::moment::Jitter;

    #[test]
    fn what_fails_at_every_retry_stays_behind() {
        let longest = Schedule::Slow.delay_ms(u32::MAX, Jitter::from_random(999));
        let behind = Some(Behind::since(7, Moment::default()));
        let place = |ms| Behind::place(behind, Moment::from_millis(ms));
        assert_eq!(
            (place(longest), place(Behind::LASTS_MS), Behind::place(None, Moment::default())),
            (7, 0, 0)
        );
    }
}
