//! IPv4 networks.

use std::fmt;
use std::net::Ipv4Addr;

/// An IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: Ipv4Addr,
    length: u8,
}

impl Network {
    /// The network of an address and a prefix length.
    #[must_use]
    pub const fn new(address: Ipv4Addr, length: u8) -> Self {
        Self { address, length }
    }

    /// Parses `10.244.1.0/24`. An address alone is a network of one. `None` if it is not an IPv4 network, or has bits
    /// set beyond its length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').unwrap_or((text, "32"));
        let network = Self { address: address.parse().ok()?, length: length.parse().ok()? };
        (network.length <= 32 && network.address.to_bits() & !network.mask() == 0).then_some(network)
    }

    /// Its address.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// How many leading bits are fixed.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// Its mask.
    #[must_use]
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length.min(32))).unwrap_or(0)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_and_a_length_without_bits_beyond_it() {
        for good in ["10.244.1.0/24", "0.0.0.0/0", "203.0.113.7/32"] {
            assert_eq!(Network::parse(good).unwrap().to_string(), good);
        }
        assert_eq!(Network::parse("203.0.113.7").unwrap().length(), 32);
        for bad in ["10.244.1.1/24", "10.0.0.0/33", "fd00::/64", "", "/8", "1.2.3/8", "1.2.3.4/"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
        assert_eq!(Network::parse("10.128.0.0/9").unwrap().mask(), 0xff80_0000);
    }
}
