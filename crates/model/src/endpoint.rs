//! Where something answers in the network, as people write it: `host:port`.

use core::net::Ipv6Addr;

/// Letters of a host's name at most (RFC 1035, section 2.3.4).
const HOST_LENGTH_MAX: usize = 253;

/// The host and the port of `host:port`: a name, an IPv4 address, or an IPv6 address in brackets, and a
/// port above 0. `None` for anything else.
#[must_use]
pub fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    let bracketed = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let good = match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => (1..=HOST_LENGTH_MAX).contains(&host.len()) && host.chars().all(plain),
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    good.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_and_addresses() {
        for (text, host, port) in [
            ("n1.example:3260", "n1.example", 3260),
            ("192.0.2.7:1", "192.0.2.7", 1),
            ("[2001:db8::7]:65535", "[2001:db8::7]", 65535),
        ] {
            assert_eq!(host_and_port(text), Some((host, port)));
        }
        for text in [
            "",
            "host",
            ":1",
            "host:0",
            "host:65536",
            "host:",
            "[::1",
            "[x]:1",
            "::1:1",
            "a b:1",
            "a/b:1",
        ] {
            assert_eq!(host_and_port(text), None, "{text}");
        }
    }
}
