//! Names of initiator ports: TransportIDs for iSCSI (SPC-4 7.6.4.6).
//!
//! Invariants:
//! - a name that was read is one that an iSCSI node may have, in lower case as names are compared
//!   (RFC 7143 4.2.7).

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::record::{AccessNexus, Isid};

use crate::Sense;

/// FORMAT CODE 01b and PROTOCOL IDENTIFIER 5h: a port, not all of a node (00b).
const PORT: u8 = 0x45;
const NODE: u8 = 0x05;
/// What stands between the name and the ISID.
const SEPARATOR: &str = ",i,0x";
const ISID_DIGITS: usize = 12;
const HEADER_LENGTH: usize = 4;
/// ADDITIONAL LENGTH is at least 20, and a multiple of four.
const ADDITIONAL_LENGTH_MIN: usize = 20;
/// Longest iSCSI name (RFC 7143 4.2.7.1).
const NAME_LENGTH_MAX: usize = 223;

/// Which initiator ports are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransportId {
    /// All that are known of a node.
    Node { initiator: String },
    /// One.
    Port { initiator: String, isid: Isid },
}

/// Bytes of the name of a nexus's initiator port.
pub(super) fn encoded_length(nexus: &AccessNexus) -> usize {
    // A zero byte ends it.
    let length = nexus.initiator.len() + SEPARATOR.len() + ISID_DIGITS + 1;
    HEADER_LENGTH + length.next_multiple_of(4).max(ADDITIONAL_LENGTH_MIN)
}

/// The name of a nexus's initiator port.
pub(super) fn encode(nexus: &AccessNexus) -> Vec<u8> {
    let length = encoded_length(nexus);
    let additional = (length - HEADER_LENGTH) as u16;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend([PORT, 0x00]);
    bytes.extend(additional.to_be_bytes());
    bytes.extend(nexus.initiator.as_bytes());
    bytes.extend(SEPARATOR.as_bytes());
    for byte in nexus.isid.0 {
        bytes.extend(alloc::format!("{byte:02x}").as_bytes());
    }
    bytes.resize(length, 0);
    bytes
}

/// Reads the name that `bytes`, which are at `at` of a parameter list, begin with; returns what
/// follows it.
///
/// # Errors
/// INVALID FIELD IN PARAMETER LIST if it is no name of an iSCSI initiator.
pub(super) fn parse(bytes: &[u8], at: u16) -> Result<(TransportId, &[u8]), Sense> {
    let malformed = Sense::invalid_parameter(at, None);
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_LENGTH>()
        .ok_or(malformed)?;
    let additional = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let bad_length = Sense::invalid_parameter(at + 2, None);
    if additional < ADDITIONAL_LENGTH_MIN || !additional.is_multiple_of(4) {
        return Err(bad_length);
    }
    let (text, rest) = rest.split_at_checked(additional).ok_or(bad_length)?;
    let bad_name = Sense::invalid_parameter(at + HEADER_LENGTH as u16, None);
    let end = text.iter().position(|byte| *byte == 0).ok_or(bad_name)?;
    let text = core::str::from_utf8(&text[..end]).map_err(|_| bad_name)?;
    let id = match header[0] {
        NODE => TransportId::Node {
            initiator: name(text).ok_or(bad_name)?,
        },
        PORT => {
            let (initiator, isid) = text.split_once(SEPARATOR).ok_or(bad_name)?;
            TransportId::Port {
                initiator: name(initiator).ok_or(bad_name)?,
                isid: parse_isid(isid).ok_or(bad_name)?,
            }
        }
        _ => return Err(malformed),
    };
    Ok((id, rest))
}

fn name(text: &str) -> Option<String> {
    let permitted =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_');
    let is_name = (1..=NAME_LENGTH_MAX).contains(&text.len()) && text.bytes().all(permitted);
    is_name.then(|| text.to_ascii_lowercase())
}

fn parse_isid(digits: &str) -> Option<Isid> {
    if digits.len() != ISID_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let [_, _, isid @ ..] = u64::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some(Isid(isid))
}
