//! READ CAPACITY (SBC-3 5.15, 5.16).

use super::{Malformed, array, byte, double, quad};

/// What READ CAPACITY (16) says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Logical blocks.
    pub(crate) blocks: u64,
    /// Bytes in each.
    pub(crate) block_length: u32,
    /// Logical blocks in a physical one.
    pub(crate) blocks_per_physical: u32,
    /// LOWEST ALIGNED LOGICAL BLOCK ADDRESS.
    pub(crate) lowest_aligned: u16,
    /// LBPME.
    pub(crate) is_thin: bool,
    /// LBPRZ.
    pub(crate) reads_zeros: bool,
}

impl Capacity {
    pub(crate) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        const CUT: &str = "READ CAPACITY (16) data of less than 16 bytes";
        let last = quad(data, 0, CUT)?;
        let block_length = double(data, 8, CUT)?;
        let exponent = byte(data, 13, CUT)? & 0x0F;
        let [high, low] = array(data, 14, CUT)?;
        let blocks = last
            .checked_add(1)
            .ok_or(Malformed("a unit of 2^64 blocks"))?;
        if !matches!(block_length, 512 | 4096) {
            return Err(Malformed("logical blocks of neither 512 nor 4096 bytes"));
        }
        if blocks.checked_mul(u64::from(block_length)).is_none() {
            return Err(Malformed("a unit of 2^64 bytes or more"));
        }
        Ok(Self {
            blocks,
            block_length,
            blocks_per_physical: 1 << exponent,
            lowest_aligned: u16::from_be_bytes([high & 0x3F, low]),
            is_thin: high & 0x80 != 0,
            reads_zeros: high & 0x40 != 0,
        })
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.blocks * self.block_length as u64
    }
}

/// What READ CAPACITY (10) says: the last block, all ones if it has no room, and the bytes in each.
pub(crate) fn parse_10(data: &[u8]) -> Result<(u32, u32), Malformed> {
    const CUT: &str = "READ CAPACITY (10) data of less than eight bytes";
    Ok((double(data, 0, CUT)?, double(data, 4, CUT)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_or_refused() {
        let mut data = vec![0; 32];
        data[6..8].copy_from_slice(&[0x1F, 0xFF]);
        data[10] = 2;
        data[13] = 3;
        data[14] = 0xC0;
        let parsed = Capacity::parse(&data).unwrap();
        assert_eq!((parsed.blocks, parsed.bytes()), (0x2000, 0x2000 * 512));
        assert_eq!(parsed.blocks_per_physical, 8);
        assert!(parsed.is_thin && parsed.reads_zeros);
        assert!(Capacity::parse(&data[..15]).is_err());
        assert!(Capacity::parse(&[0xFF; 32]).is_err());
        data[10] = 3;
        assert!(Capacity::parse(&data).is_err(), "blocks of 768 bytes");
    }
}
