//! Standard INQUIRY data (SPC-4 6.4.2).

use super::{Malformed, byte};
use crate::words::printable;

/// What a target says of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standard {
    /// PERIPHERAL QUALIFIER: zero is "connected".
    pub(crate) qualifier: u8,
    /// PERIPHERAL DEVICE TYPE: zero is a disk.
    pub(crate) kind: u8,
    /// VERSION: 05h is SPC-3, 06h SPC-4.
    pub(crate) version: u8,
    /// TPGS.
    pub(crate) port_groups: u8,
    /// CMDQUE.
    pub(crate) queues: bool,
    pub(crate) vendor: String,
    pub(crate) product: String,
    pub(crate) revision: String,
}

impl Standard {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        const CUT: &str = "standard INQUIRY data that ends before byte 36";
        let text = |from: usize, to: usize| {
            let field = data.get(from..to).ok_or(Malformed(CUT))?;
            Ok(printable(field.trim_ascii_end()))
        };
        let peripheral = byte(data, 0, CUT)?;
        Ok(Self {
            qualifier: peripheral >> 5,
            kind: peripheral & 0x1F,
            version: byte(data, 2, CUT)?,
            port_groups: byte(data, 5, CUT)? >> 4 & 0x3,
            queues: byte(data, 7, CUT)? & 0x02 != 0,
            vendor: text(8, 16)?,
            product: text(16, 32)?,
            revision: text(32, 36)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_says_of_itself() {
        let mut data = vec![0; 36];
        data[2] = 6;
        data[5] = 0x10;
        data[7] = 0x02;
        data[8..32].copy_from_slice(b"HOLDFASTVIRTUAL DISK    ");
        data[32..36].copy_from_slice(b"\x1b001");
        let parsed = Standard::parse(&data).unwrap();
        assert_eq!((parsed.version, parsed.port_groups), (6, 1));
        assert_eq!(parsed.product, "VIRTUAL DISK");
        assert_eq!(parsed.revision, "\\x1b001");
        assert!(parsed.queues);
        assert!(Standard::parse(&data[..35]).is_err());
    }
}
