//! FNV-1a: a hash that is the same on every machine and with every compiler.

use std::fmt::{self, Display};

/// The hash of everything added so far.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // A length keeps "ab", "c" and "a", "bc" apart.
        let length = bytes.len().to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Display for Fnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
