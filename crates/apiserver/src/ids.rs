//! Identifiers that depend only on the seed: UIDs and the suffixes of generated names.

/// A small deterministic generator (`SplitMix64`). The same seed gives the same identifiers in every run.
#[derive(Debug, Clone)]
pub(crate) struct Ids(u64);

/// The API server's alphabet for generated names: no vowels, and no characters that look alike.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }

    /// Five characters to append to `generateName`.
    pub(crate) fn name_tail(&mut self) -> String {
        let count = u64::try_from(NAME_ALPHABET.len()).unwrap_or(1);
        (0..5)
            .filter_map(|_| {
                let index = usize::try_from(self.next() % count).ok()?;
                NAME_ALPHABET.get(index).copied().map(char::from)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_identifiers_and_another_seed_gives_others() {
        let (mut a, mut b, mut c) = (Ids::new(7), Ids::new(7), Ids::new(8));
        let first = a.uid();
        assert_eq!(first, b.uid());
        assert_ne!(first, c.uid());
        assert_ne!(first, a.uid());
        assert_eq!(a.name_tail().len(), 5);
    }
}
