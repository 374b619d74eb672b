//! Sense data as an initiator reads it (SPC-4 4.5): the fixed and the descriptor format.
//!
//! It refuses to trust it: what cannot be read is no sense data.

use std::fmt;

/// The parts of sense data that decisions are made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenseData {
    /// SENSE KEY.
    pub key: u8,
    /// ADDITIONAL SENSE CODE.
    pub code: u8,
    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub qualifier: u8,
    /// INFORMATION, if it is valid: for a medium error, the address of the logical block.
    pub information: Option<u64>,
}

impl SenseData {
    /// Reads sense data; `None` if it is none, or too short to say anything.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        // RESPONSE CODE; deferred errors (71h, 73h) are read alike.
        match bytes.first()? & 0x7F {
            0x70 | 0x71 => {
                let &[first, _, flags, a, b, c, d, ..] = bytes else {
                    return None;
                };
                // VALID.
                let information =
                    (first & 0x80 != 0).then(|| u64::from(u32::from_be_bytes([a, b, c, d])));
                Some(Self {
                    key: flags & 0x0F,
                    code: bytes.get(12).copied().unwrap_or_default(),
                    qualifier: bytes.get(13).copied().unwrap_or_default(),
                    information,
                })
            }
            0x72 | 0x73 => {
                let &[_, key, code, qualifier, ..] = bytes else {
                    return None;
                };
                Some(Self {
                    key: key & 0x0F,
                    code,
                    qualifier,
                    information: information_of(bytes.get(8..).unwrap_or_default()),
                })
            }
            _ => None,
        }
    }

    /// ADDITIONAL SENSE CODE and its qualifier in one number.
    #[must_use]
    pub const fn additional(&self) -> u16 {
        u16::from_be_bytes([self.code, self.qualifier])
    }
}

impl fmt::Display for SenseData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            code,
            qualifier,
            information,
        } = self;
        write!(formatter, "sense {key:x}/{code:02x}/{qualifier:02x}")?;
        match information {
            Some(information) => write!(formatter, " at {information}"),
            None => Ok(()),
        }
    }
}

/// The Information descriptor (SPC-4 4.5) among descriptors.
fn information_of(mut descriptors: &[u8]) -> Option<u64> {
    while let [kind, length, rest @ ..] = descriptors {
        let body = rest.get(..usize::from(*length))?;
        if *kind == 0 {
            let valid = body.first()? & 0x80 != 0;
            let information = body.get(2..10)?.try_into().ok()?;
            return valid.then(|| u64::from_be_bytes(information));
        }
        descriptors = &rest[body.len()..];
    }
    None
}

#[cfg(test)]
mod tests {
    use holdfast_scsi::{AdditionalSense, Sense, SenseKey};

    use super::*;

    #[test]
    fn what_the_target_writes_is_read_back() {
        let sense = Sense::new(
            SenseKey::MediumError,
            AdditionalSense::UNRECOVERED_READ_ERROR,
        )
        .with_information(0x1234);
        let expected = SenseData {
            key: 3,
            code: 0x11,
            qualifier: 0,
            information: Some(0x1234),
        };
        assert_eq!(SenseData::parse(&sense.encode_fixed()), Some(expected));
        assert_eq!(SenseData::parse(&sense.encode_descriptor()), Some(expected));
        assert_eq!(expected.to_string(), "sense 3/11/00 at 4660");
    }

    #[test]
    fn what_is_cut_says_less_or_nothing() {
        let sense = Sense::new(SenseKey::NotReady, AdditionalSense(0x0401));
        for bytes in [sense.encode_fixed().to_vec(), sense.encode_descriptor()] {
            for length in 0..bytes.len() {
                // Anything but a panic.
                let _ = SenseData::parse(&bytes[..length]);
            }
        }
        assert_eq!(SenseData::parse(&[]), None);
        assert_eq!(SenseData::parse(&[0x70, 0]), None);
        assert_eq!(SenseData::parse(&[0x00; 18]), None);
    }
}
