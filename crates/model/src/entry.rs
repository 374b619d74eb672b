//! An entry of a slice's log: what the primary numbers, the journals keep and the wire carries.
//!
//! Invariants:
//! - an entry holds whole blocks, each with its checksum;
//! - a block of zeros is a block that is not there: writing zeros and unmapping mean the same.

use core::fmt;

use holdfast_stdx::{Bytes, SmallVec, crc32c};

use crate::{BLOCK_SIZE, BlockIndex, BlockRange, CommandId, Epoch, Fence, Sequence};

/// Bytes of data in one entry at most; longer commands are split.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Checksums of consecutive blocks. Those of the short writes and reads that databases make lie in place: what has them is copied on its
/// way, and asks for no memory then.
pub type Checksums = SmallVec<[u32; 4]>;

/// What an entry changes.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// New contents of consecutive blocks. `data` is `checksums.len()` × 4 KiB long, not empty and
    /// at most [`ENTRY_BYTES_MAX`].
    Write {
        /// The first block.
        start: BlockIndex,
        /// The blocks.
        data: Bytes,
        /// CRC-32C of each.
        checksums: Checksums,
    },
    /// The blocks read as zeros from here on, and take no space.
    Clear(BlockRange),
    /// Nothing: the entry with which an epoch begins.
    Nothing,
}

impl Change {
    /// A write of whole blocks, with its checksums computed here: at the door, once.
    ///
    /// Panics unless `data` is a whole number of blocks that lie in the slice.
    #[must_use]
    pub fn write(start: BlockIndex, data: Bytes) -> Self {
        assert!(
            data.len().is_multiple_of(BLOCK_SIZE),
            "a write is of whole blocks"
        );
        assert!(
            data.len() <= ENTRY_BYTES_MAX,
            "longer writes are split before"
        );
        let checksums = data.chunks_exact(BLOCK_SIZE).map(crc32c).collect();
        let change = Self::Write {
            start,
            data,
            checksums,
        };
        assert!(change.range().is_some(), "a write has blocks");
        change
    }

    /// The blocks that it touches.
    #[must_use]
    pub fn range(&self) -> Option<BlockRange> {
        match self {
            Self::Write {
                start, checksums, ..
            } => Some(BlockRange::new(start.0, checksums.len() as u32)),
            Self::Clear(range) => Some(*range),
            Self::Nothing => None,
        }
    }

    /// Bytes of data that it carries.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        match self {
            Self::Write { data, .. } => data.len(),
            Self::Clear(_) | Self::Nothing => 0,
        }
    }
}

impl fmt::Debug for Change {
    /// Ranges and checksums only: traces do not print data.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write {
                start, checksums, ..
            } => {
                write!(formatter, "write {}+{}", start.0, checksums.len())?;
                write!(formatter, " {:08x}", checksums[0])
            }
            Self::Clear(range) => write!(formatter, "clear {range:?}"),
            Self::Nothing => formatter.write_str("nothing"),
        }
    }
}

/// A numbered change. It keeps the (epoch, sequence) under which it was first numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The epoch in which it was numbered.
    pub epoch: Epoch,
    /// Its place in the slice's order.
    pub sequence: Sequence,
    /// The access rights under which it was admitted.
    pub fence: Fence,
    /// Which command it carries out.
    pub command: CommandId,
    /// What it does.
    pub change: Change,
}
