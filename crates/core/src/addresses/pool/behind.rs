//! What failed lately waits behind the others.

use crate::model::moment::Moment;

/// What failed lately goes behind what did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// When it failed, as a count.
    count: u64,
    until: Moment,
}

impl Behind {
    /// Longer than the longest wait for a retry, so that what goes on failing stays behind.
    const LASTS_MS: u64 = 900_000;

    /// Of what failed at `now`, as the `count`th event.
    #[must_use]
    pub fn since(count: u64, now: Moment) -> Self {
        Self { count, until: now.plus_millis(Self::LASTS_MS) }
    }

    /// Its place among others: 0 for what did not fail lately, else the later the further behind.
    #[must_use]
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
