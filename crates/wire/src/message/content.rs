//! Blocks as messages carry them.

use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Change, Checksums};
use holdfast_stdx::{Bytes, SmallVec};

/// What is in consecutive blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// Data, with the CRC-32C of each block.
    Data {
        /// The blocks.
        data: Bytes,
        /// Their checksums.
        checksums: Checksums,
    },
    /// Zeros, that is nothing.
    Zero,
    /// Data that fails its checksum at the sender.
    Bad,
}

/// Consecutive blocks and what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The blocks.
    pub range: BlockRange,
    /// What is in them.
    pub content: BlockContent,
}

/// What is in a range, in order: mostly one thing.
pub type Contents = SmallVec<[Content; 1]>;

impl Content {
    /// Bytes of data; blocks that are zeros, or bad, have none.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        match &self.content {
            BlockContent::Data { data, .. } => data.len() as u64,
            BlockContent::Zero | BlockContent::Bad => 0,
        }
    }

    /// The change that makes the blocks what they are here; none if they are bad.
    #[must_use]
    pub fn into_change(self) -> Option<Change> {
        match self.content {
            BlockContent::Data { data, checksums } => Some(Change::Write {
                start: BlockIndex(self.range.start()),
                data,
                checksums,
            }),
            BlockContent::Zero => Some(Change::Clear(self.range)),
            BlockContent::Bad => None,
        }
    }

    /// What is in some of the blocks.
    ///
    /// Panics if `part` does not lie within the blocks.
    #[must_use]
    pub fn part(&self, part: BlockRange) -> Self {
        let first = (part.start() - self.range.start()) as usize;
        let end = first + part.count() as usize;
        let content = match &self.content {
            BlockContent::Data { data, checksums } => BlockContent::Data {
                data: data.slice(first * BLOCK_SIZE..end * BLOCK_SIZE),
                checksums: checksums[first..end].into(),
            },
            other => other.clone(),
        };
        Self {
            range: part,
            content,
        }
    }
}
