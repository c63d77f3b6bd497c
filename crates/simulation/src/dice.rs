//! Numbers that depend only on a seed and a position, so one decision less does not change all later ones.

use std::collections::BTreeMap;

/// Mixes one number as `SplitMix64` does.
fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `limit` for the question `salt` about item `number` in the run of `seed`; 0 if `limit` is 0.
pub(super) fn roll(seed: u64, number: u64, salt: u64, limit: u64) -> u64 {
    mixed(mixed(mixed(seed) ^ number) ^ salt).checked_rem(limit).unwrap_or_default()
}

/// Numbers for the dice, counted for each kind of item. So an item more or less changes the numbers of no other kind.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<String, u64>);

impl Kinds {
    /// The number of the next item of this kind. No other item has it.
    pub(super) fn next(&mut self, kind: &str) -> u64 {
        let count = self.0.entry(kind.to_owned()).or_default();
        *count += 1;
        Fingerprint::of(format!("{kind} {count}").as_bytes())
    }
}

/// A running fingerprint of text (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn of(bytes: &[u8]) -> u64 {
        let mut fingerprint = Self::default();
        fingerprint.add(bytes);
        fingerprint.value()
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}

/// A sequence of numbers.
pub(super) struct Draw {
    pub(super) seed: u64,
    salt: u64,
    drawn: u64,
}

impl Draw {
    /// The sequence of a seed for the question `salt`.
    pub(super) fn new(seed: u64, salt: u64) -> Self {
        Self { seed, salt, drawn: 0 }
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        roll(self.seed, self.drawn, self.salt, limit)
    }

    /// A number from `from` to `to`, inclusive.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// True in this many of a hundred cases.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these choices; `None` if there are none.
    pub(super) fn of<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        let index = self.below(u64::try_from(choices.len()).unwrap_or_default());
        usize::try_from(index).ok().and_then(|index| choices.get(index)).cloned()
    }
}
