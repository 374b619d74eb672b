//! How large a unit is, and in which blocks hosts count.
//!
//! Invariants:
//! - a unit is a whole number of 4 KiB blocks, at least one, at most [`CAPACITY_BYTES_MAX`];
//! - a range that was checked lies in the unit: its byte offsets never overflow.

use holdfast_model::BLOCK_SIZE;

use crate::{AdditionalSense, Sense};

/// The largest unit. Its byte offsets leave plenty of room in 64 bits.
pub const CAPACITY_BYTES_MAX: u64 = 64 << 40;

/// Bytes in a logical block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockLength {
    /// 512 bytes, eight of them to a physical block (512e).
    #[default]
    Emulated512,
    /// 4 KiB, each a physical block (4Kn).
    Native4096,
}

impl BlockLength {
    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Emulated512 => 512,
            Self::Native4096 => BLOCK_SIZE as u64,
        }
    }

    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT (SBC-3, READ CAPACITY (16)).
    #[must_use]
    pub const fn physical_exponent(self) -> u8 {
        (BLOCK_SIZE as u64 / self.bytes()).trailing_zeros() as u8
    }
}

/// Bytes of a unit, from `offset`. Never empty where it is given to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte's place.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

impl ByteRange {
    /// Whether it has bytes on both sides of a multiple of `step`.
    #[must_use]
    pub const fn crosses(self, step: u64) -> bool {
        assert!(step > 0, "a border comes every so many bytes");
        self.offset % step + self.length > step
    }
}

/// Logical blocks of a unit, from `first`; possibly none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpan {
    /// The first block's address.
    pub first: u64,
    /// How many blocks.
    pub count: u64,
}

/// How large a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    bytes: u64,
    block_length: BlockLength,
}

impl Geometry {
    /// A unit of `bytes`, counted in blocks of `block_length`.
    ///
    /// Panics unless `bytes` is a positive multiple of 4 KiB and at most [`CAPACITY_BYTES_MAX`].
    #[must_use]
    pub const fn new(bytes: u64, block_length: BlockLength) -> Self {
        assert!(bytes > 0, "a unit has blocks");
        assert!(
            bytes.is_multiple_of(BLOCK_SIZE as u64),
            "a unit is of whole physical blocks"
        );
        assert!(bytes <= CAPACITY_BYTES_MAX, "no unit is that large");
        Self {
            bytes,
            block_length,
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Its size in logical blocks.
    #[must_use]
    pub const fn blocks(self) -> u64 {
        self.bytes / self.block_length.bytes()
    }

    /// Its logical block length.
    #[must_use]
    pub const fn block_length(self) -> BlockLength {
        self.block_length
    }

    /// The `count` blocks from `first`.
    ///
    /// # Errors
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE with the first address that does not exist (SBC-3, Sense
    /// data), also if no blocks are asked for at such an address.
    pub fn span(self, first: u64, count: u64) -> Result<BlockSpan, Sense> {
        let blocks = self.blocks();
        if first < blocks && count <= blocks - first {
            return Ok(BlockSpan { first, count });
        }
        Err(
            Sense::illegal_request(AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE)
                .with_information(first.max(blocks)),
        )
    }

    /// Where the blocks of `span` are.
    #[must_use]
    pub const fn byte_range(self, span: BlockSpan) -> ByteRange {
        ByteRange {
            offset: span.first * self.block_length.bytes(),
            length: span.count * self.block_length.bytes(),
        }
    }

    /// The address of the block that holds byte `offset`.
    #[must_use]
    pub const fn block_at(self, offset: u64) -> u64 {
        offset / self.block_length.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_with_the_unit() {
        let geometry = Geometry::new(1 << 20, BlockLength::Emulated512);
        assert_eq!(geometry.blocks(), 2048);
        assert!(geometry.span(0, 2048).is_ok());
        assert!(geometry.span(2047, 1).is_ok());
        for (first, count, invalid) in [
            (0, 2049, 2048),
            (2047, 2, 2048),
            (2048, 0, 2048),
            (2049, 1, 2049),
            (u64::MAX, u64::MAX, u64::MAX),
            (1, u64::MAX, 2048),
        ] {
            let sense = geometry.span(first, count).unwrap_err();
            assert_eq!(sense.information, Some(invalid), "{first}+{count}");
        }
    }

    #[test]
    fn physical_blocks_are_of_4_kib() {
        assert_eq!(BlockLength::Emulated512.physical_exponent(), 3);
        assert_eq!(BlockLength::Native4096.physical_exponent(), 0);
    }
}
