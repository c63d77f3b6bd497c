//! IP networks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// All public addresses of IPv6.
pub const PUBLIC6: Network =
    Network { address: IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0)), length: 3 };

/// An IPv4 or IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

impl Network {
    /// The network of an address and a prefix length.
    pub const fn new(address: IpAddr, length: u8) -> Self {
        Self { address, length }
    }

    /// Parses `10.244.1.0/24` or `2001:db8::/32`. An address alone is a network of one. `None` if it is no network, or
    /// has bits set beyond its length.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(longest), |length| length.parse().ok())?;
        let network = Self { address, length };
        (length <= longest && bits(address) & !network.prefix() == 0).then_some(network)
    }

    /// Whether it is an IPv6 network.
    pub fn is_ipv6(self) -> bool {
        self.address.is_ipv6()
    }

    /// Its address, in network byte order.
    pub fn octets(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    /// How many leading bits are fixed.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The mask of an IPv4 network.
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length.min(32))).unwrap_or(0)
    }

    /// Whether it holds this address.
    pub fn contains(self, ip: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == ip.is_ipv4();
        same_family && (bits(self.address) ^ bits(ip)) & self.prefix() == 0
    }

    /// Whether it contains all addresses of another network.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The fixed bits, leftmost first in 128.
    fn prefix(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.length.min(128))).unwrap_or(0)
    }
}

/// The bits of an address, leftmost first in 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
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
        for good in ["10.244.1.0/24", "0.0.0.0/0", "203.0.113.7/32", "fd00::/64", "::/0", "2001:db8::1/128"] {
            assert_eq!(Network::parse(good).unwrap().to_string(), good);
        }
        assert_eq!(Network::parse("203.0.113.7").unwrap().length(), 32);
        assert_eq!(Network::parse("2001:db8::7").unwrap().length(), 128);
        for bad in ["10.244.1.1/24", "10.0.0.0/33", "fd00::1/64", "::/129", "", "/8", "1.2.3/8", "1.2.3.4/"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
        assert_eq!(Network::parse("10.128.0.0/9").unwrap().mask(), 0xff80_0000);
    }

    #[test]
    fn a_network_holds_the_addresses_of_its_family_with_its_bits() {
        for (network, held, other) in [
            ("10.244.1.0/24", "10.244.1.9", "10.244.2.9"),
            ("2001:db8::/32", "2001:db8:1::9", "2001:db9::9"),
            ("0.0.0.0/0", "203.0.113.7", "::"),
        ] {
            let network = Network::parse(network).unwrap();
            assert!(network.contains(held.parse().unwrap()) && !network.contains(other.parse().unwrap()));
        }
    }
}
