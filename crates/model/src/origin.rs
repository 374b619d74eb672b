//! Where a connection comes from, for whatever is counted by that; and whether it leaves the machine at all.
//!
//! It refuses to tell two machines of one network of IPv6 apart: each of them takes as many addresses as it likes.

use alloc::collections::BTreeMap;
use core::cmp::Reverse;
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

/// Who gives way where there is no room for all: the one that has waited longest of the origin that has most, and of two that have
/// as many, of the one that has waited longer. Those that wait are told in the order in which they came; none where nobody waits.
pub fn longest_of_most<N: Copy + Ord>(waiting: impl IntoIterator<Item = (N, Origin)>) -> Option<N> {
    let mut origins: BTreeMap<Origin, (usize, N)> = BTreeMap::new();
    for (number, origin) in waiting {
        origins.entry(origin).or_insert((0, number)).0 += 1;
    }
    let most = origins.into_values();
    let most = most.max_by_key(|(count, longest)| (*count, Reverse(*longest)));
    most.map(|(_, longest)| longest)
}

/// Whether what is sent there does not leave the machine, by the address or the name that means it (RFC 6761, section 6.3). An
/// address of IPv6 stands without brackets.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
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

    #[test]
    fn of_the_origin_that_has_most_the_one_goes_that_has_waited_longest() {
        let of = |last: u8| Origin::from(IpAddr::from([192, 0, 2, last]));
        let goes = |origins: &[u8]| longest_of_most((0..).zip(origins.iter().map(|it| of(*it))));
        assert_eq!(goes(&[]), None);
        assert_eq!(goes(&[1, 2, 3, 2, 1, 2]), Some(1));
        assert_eq!(goes(&[3, 1, 2, 2, 1]), Some(1), "the first of two");
        assert_eq!(goes(&[2, 1]), Some(0));
    }

    #[test]
    fn this_machine_is_known_by_loopback_addresses_in_any_form_and_by_its_name() {
        for here in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "localhost",
            "LocalHost",
        ] {
            assert!(is_this_machine(here), "{here}");
        }
        for elsewhere in [
            "192.0.2.1",
            "::",
            "localhost.example",
            "127.0.0.1.example",
            "",
        ] {
            assert!(!is_this_machine(elsewhere), "{elsewhere}");
        }
    }
}
