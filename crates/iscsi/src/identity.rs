//! Who talks to whom: iSCSI names, session identifiers, portal group tags, the I_T nexus.
//!
//! Invariants:
//! - an [`IscsiName`] has the form and the length that RFC 7143 4.2.7 demands, in lower case.

use alloc::string::String;
use core::fmt;

use thiserror::Error;

/// Longest iSCSI name in bytes (RFC 7143 4.2.7.1).
pub const NAME_LENGTH_MAX: usize = 223;

/// An iSCSI node's name: `iqn.`, `eui.` or `naa.` (RFC 7143 4.2.7), kept in lower case.
///
/// ASCII names only: internationalised names would need the tables of RFC 3722, and no host makes
/// them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IscsiName(String);

/// Why a text is no iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// It is empty or longer than [`NAME_LENGTH_MAX`].
    #[error("an iSCSI name has 1 to 223 bytes")]
    Length,
    /// It does not begin with a known type, or lacks what must follow.
    #[error("an iSCSI name begins with iqn., eui. or naa. and goes on as its type says")]
    Type,
    /// It has a character that names do not have.
    #[error("an iSCSI name has letters, digits, dashes, dots and colons only")]
    Character,
}

impl IscsiName {
    /// The name that `text` spells.
    ///
    /// Underscores, though not in the RFC's set, are let through: hosts in the field use them.
    ///
    /// # Errors
    /// [`NameError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > NAME_LENGTH_MAX {
            return Err(NameError::Length);
        }
        let permitted =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_');
        if !text.bytes().all(permitted) {
            return Err(NameError::Character);
        }
        let name = text.to_ascii_lowercase();
        let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let well_formed = match name.split_at_checked(4) {
            Some(("iqn.", rest)) => !rest.is_empty(),
            Some(("eui.", rest)) => rest.len() == 16 && is_hex(rest),
            Some(("naa.", rest)) => matches!(rest.len(), 16 | 32) && is_hex(rest),
            _ => false,
        };
        if well_formed {
            Ok(Self(name))
        } else {
            Err(NameError::Type)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IscsiName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The initiator's part of a session identifier (RFC 7143 11.12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isid(pub [u8; 6]);

/// The target's part of a session identifier (RFC 7143 11.12.6); zero asks for a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tsih(pub u16);

impl Tsih {
    /// Asks for a new session.
    pub const NEW: Self = Self(0);
}

/// A connection's number within its session (RFC 7143 11.12.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionIdentifier(pub u16);

/// A portal group of a target (RFC 7143 13.9): here, the portals of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortalGroupTag(pub u16);

/// An I_T nexus (RFC 7143 4.4.1): an initiator port, which is a name and an ISID, and a target
/// port, which is a name and a portal group tag. At most one session lives on a nexus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nexus {
    /// The initiator's name.
    pub initiator: IscsiName,
    /// Which of the initiator's ports.
    pub isid: Isid,
    /// The target's name.
    pub target: IscsiName,
    /// Which of the target's ports.
    pub group: PortalGroupTag,
}

impl fmt::Display for Nexus {
    /// The names of the two ports as SPC knows them (RFC 7143 4.4.3).
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{},i,0x", self.initiator)?;
        for byte in self.isid.0 {
            write!(formatter, "{byte:02x}")?;
        }
        write!(formatter, " {},t,0x{:04x}", self.target, self.group.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names() {
        for good in [
            "iqn.2026-11.example.holdfast:demo",
            "iqn.1991-05.com.microsoft:host_1",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(IscsiName::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(
            IscsiName::parse("IQN.2001-04.COM.Example:X")
                .unwrap()
                .as_str(),
            "iqn.2001-04.com.example:x"
        );
        assert_eq!(IscsiName::parse(""), Err(NameError::Length));
        assert_eq!(IscsiName::parse(&"i".repeat(224)), Err(NameError::Length));
        assert_eq!(IscsiName::parse("iqn.2001 x"), Err(NameError::Character));
        assert_eq!(IscsiName::parse("iqn.ü"), Err(NameError::Character));
        for bad in ["iqn.", "disk", "eui.0123", "naa.0123456789abcdeg", "iqn"] {
            assert_eq!(IscsiName::parse(bad), Err(NameError::Type));
        }
    }

    #[test]
    fn a_nexus_prints_as_its_port_names() {
        let nexus = Nexus {
            initiator: IscsiName::parse("iqn.a:b").unwrap(),
            isid: Isid([0x80, 0, 0, 0, 0, 0x1F]),
            target: IscsiName::parse("iqn.c:d").unwrap(),
            group: PortalGroupTag(2),
        };
        assert_eq!(
            nexus.to_string(),
            "iqn.a:b,i,0x80000000001f iqn.c:d,t,0x0002"
        );
    }
}
