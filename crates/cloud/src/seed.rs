//! The only source of invented values (IDs, addresses). The generator's whole state is the seed, so the same seed and
//! calls give the same world.

/// A splitmix64 generator.
#[derive(Debug, Clone, Default)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`. 0 if `limit` is 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.bits().checked_rem(limit).unwrap_or(0)
    }

    /// 32 hexadecimal digits.
    pub(super) fn hex32(&mut self) -> String {
        format!("{:016x}{:016x}", self.bits(), self.bits())
    }

    /// A version-4 UUID.
    pub(super) fn uuid(&mut self) -> String {
        let bits = (u128::from(self.bits()) << 64) | u128::from(self.bits());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let (mut a, mut b, mut c) = (Seed::new(7), Seed::new(7), Seed::new(8));
        let (first, second, other) = (a.uuid(), b.uuid(), c.uuid());
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(a.below(0), 0);
    }
}
