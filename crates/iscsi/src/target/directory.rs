//! What a target has to offer: names, units, and where they are served.
//!
//! Its owner makes it from the cluster's metadata and gives it anew whenever that changes.
//!
//! Invariants:
//! - a target is listed under its own name, with its units in rising order.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use crate::{IscsiName, PortalGroupTag};

/// All targets of the cluster, as this node tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDirectory {
    /// Targets by name.
    pub targets: BTreeMap<IscsiName, TargetEntry>,
}

/// One target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetEntry {
    /// TargetAlias: a name for people, at most 255 bytes; longer ones are not sent.
    pub alias: Option<String>,
    /// Numbers of its units.
    pub units: BTreeSet<u16>,
    /// Every portal of every node that serves it.
    pub portals: Vec<Portal>,
}

/// A place where a target can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// As initiators reach it.
    pub address: PortalAddress,
    /// The node's portal group.
    pub group: PortalGroupTag,
}

/// `host:port` as TargetAddress wants it (RFC 7143 13.8): a DNS name, an IPv4 address, or an IPv6
/// address in brackets, and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalAddress(String);

/// A text is not `host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a portal's address is host:port, with an IPv6 host in brackets")]
pub struct PortalAddressError;

impl PortalAddress {
    /// The address that `text` spells.
    ///
    /// # Errors
    /// [`PortalAddressError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, PortalAddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(PortalAddressError)?;
        let port: u16 = port.parse().map_err(|_| PortalAddressError)?;
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(PortalAddressError)?,
            None if host.contains(':') => return Err(PortalAddressError),
            None => host,
        };
        let permitted =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'%');
        if port == 0 || name.is_empty() || name.len() > 253 || !name.bytes().all(permitted) {
            return Err(PortalAddressError);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for PortalAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn addresses() {
        for good in ["10.0.0.1:3260", "[fd00::1]:3260", "node-1.example:860"] {
            assert_eq!(PortalAddress::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "10.0.0.1",
            ":3260",
            "fd00::1:3260",
            "[fd00::1:3260",
            "a b:1",
            "a:0",
            "a:65536",
            "a,b:1",
        ] {
            assert_eq!(PortalAddress::parse(bad), Err(PortalAddressError), "{bad}");
        }
    }
}
