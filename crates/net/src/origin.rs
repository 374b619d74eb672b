//! Where a connection comes from, for whatever is counted by that.
//!
//! It refuses to tell two machines of one network of IPv6 apart: each of them takes as many addresses as it likes.

use std::net::{IpAddr, Ipv6Addr};

/// A machine, as far as connections tell machines apart: an address of IPv4, or a network of IPv6, of whose addresses every
/// machine takes as many as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Origin(IpAddr);

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
