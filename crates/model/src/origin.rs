//! Where a connection comes from, for whatever is counted by that.
//!
//! It refuses to tell two machines of one network of IPv6 apart: each of them takes as many addresses as it likes.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// A machine, as far as connections tell machines apart: an address of IPv4, or a network of IPv6, a /64 (RFC 6177), of whose
/// addresses every machine takes as many as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            address => Self(address),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_and_an_address_of_ipv4_is_one_in_either_form() {
        let of = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:0:1::1").to_string(), "2001:db8:0:1::");
    }
}
