//! The only source of randomness. All other code is handed a [`Random`], so that a simulation can seed it.
//!
//! For jitter and spreading only, never for secrets.

use flipop_core::model::Jitter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The increment of `SplitMix64`, an odd number close to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A shared source of random numbers (`SplitMix64`). Clones draw from the same sequence.
#[derive(Debug, Clone)]
pub struct Random(Arc<AtomicU64>);

impl Random {
    /// A sequence that differs from process to process.
    pub fn system() -> Self {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        Self::seeded(high ^ low)
    }

    /// The sequence of `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `limit` - 1. If `limit` is 0, the result is 0.
    pub fn below(&self, limit: u64) -> u64 {
        self.next_u64().checked_rem(limit).unwrap_or_default()
    }

    /// A fraction for the retry schedules of the core.
    pub fn jitter(&self) -> Jitter {
        Jitter::from_random(u16::try_from(self.below(1_000)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_clones_share_them() {
        let one = Random::seeded(7);
        let other = Random::seeded(7);
        let clone = other.clone();
        let expected: Vec<u64> = (0..4).map(|_| one.next_u64()).collect();
        assert_eq!(expected, [other.next_u64(), clone.next_u64(), other.next_u64(), clone.next_u64()]);
    }

    #[test]
    fn bounded_numbers_stay_in_bounds() {
        let random = Random::seeded(1);
        assert!((0..1_000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
    }
}
