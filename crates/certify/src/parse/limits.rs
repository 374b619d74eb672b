//! Block Limits, Block Device Characteristics and Logical Block Provisioning (SBC-3 6.5).

use super::{Malformed, byte, double, pages, word};

/// Block Limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockLimits {
    /// MAXIMUM COMPARE AND WRITE LENGTH, in blocks.
    pub(crate) compare_max: u8,
    /// MAXIMUM TRANSFER LENGTH; zero if none is told.
    pub(crate) transfer_max: u32,
    /// OPTIMAL TRANSFER LENGTH.
    pub(crate) transfer_optimal: u32,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub(crate) transfer_granularity: u16,
    /// MAXIMUM UNMAP LBA COUNT.
    pub(crate) unmap_max: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
    pub(crate) unmap_descriptors_max: u32,
    /// OPTIMAL UNMAP GRANULARITY.
    pub(crate) unmap_granularity: u32,
}

impl BlockLimits {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        const CUT: &str = "a Block Limits page that ends before its limits";
        let page = pages::content(data, 0xB0)?;
        // SBC-2's page ends before UNMAP.
        let later = |at| double(page, at, CUT).unwrap_or_default();
        Ok(Self {
            compare_max: byte(page, 1, CUT)?,
            transfer_granularity: word(page, 2, CUT)?,
            transfer_max: double(page, 4, CUT)?,
            transfer_optimal: double(page, 8, CUT)?,
            unmap_max: later(16),
            unmap_descriptors_max: later(20),
            unmap_granularity: later(24),
        })
    }
}

/// Logical Block Provisioning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Provisioning {
    /// THRESHOLD EXPONENT; zero: there are no thresholds.
    pub(crate) threshold_exponent: u8,
    /// LBPU.
    pub(crate) unmaps: bool,
    /// LBPWS.
    pub(crate) write_same_unmaps: bool,
    /// LBPRZ.
    pub(crate) reads_zeros: bool,
    /// PROVISIONING TYPE: 1 is resource provisioned, 2 thin.
    pub(crate) kind: u8,
}

impl Provisioning {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        const CUT: &str = "a Logical Block Provisioning page of less than three bytes";
        let page = pages::content(data, 0xB2)?;
        let flags = byte(page, 1, CUT)?;
        Ok(Self {
            threshold_exponent: byte(page, 0, CUT)?,
            unmaps: flags & 0x80 != 0,
            write_same_unmaps: flags & 0x40 != 0,
            reads_zeros: flags & 0x04 != 0,
            kind: byte(page, 2, CUT)? & 0x07,
        })
    }
}

/// MEDIUM ROTATION RATE: 1 does not rotate.
pub(crate) fn rotation(data: &[u8]) -> Result<u16, Malformed> {
    const CUT: &str = "a Block Device Characteristics page without a rotation rate";
    word(pages::content(data, 0xB1)?, 0, CUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_where_the_standard_has_them() {
        let mut page = vec![0; 64];
        page[1..4].copy_from_slice(&[0xB0, 0, 60]);
        page[5] = 8;
        page[7] = 4;
        page[10] = 0x20;
        page[23] = 9;
        page[27] = 3;
        page[31] = 64;
        let expected = BlockLimits {
            compare_max: 8,
            transfer_granularity: 4,
            transfer_max: 0x2000,
            transfer_optimal: 0,
            unmap_max: 9,
            unmap_descriptors_max: 3,
            unmap_granularity: 64,
        };
        assert_eq!(BlockLimits::parse(&page), Ok(expected));
        page[3] = 12;
        let short = BlockLimits::parse(&page[..16]).unwrap();
        assert_eq!((short.unmap_max, short.transfer_max), (0, 0x2000));
        let thin = Provisioning::parse(&[0, 0xB2, 0, 4, 11, 0xC4, 2, 0]).unwrap();
        assert_eq!((thin.threshold_exponent, thin.kind), (11, 2));
        assert!(thin.unmaps && thin.write_same_unmaps && thin.reads_zeros);
        assert_eq!(rotation(&[0, 0xB1, 0, 2, 0, 1]), Ok(1));
    }
}
