//! What a command changes, and what comes of it for whole blocks.
//!
//! It refuses to read, to order, and to know who asks.
//!
//! Invariants:
//! - a change has a range only if it lies in the slice and fits one entry;
//! - what it does not touch of a block stays as it was held.

use alloc::collections::{BTreeMap, BTreeSet};

use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Change, ENTRY_BYTES_MAX, SLICE_SIZE};
use holdfast_stdx::Bytes;

/// A change.
#[derive(Clone, Debug)]
pub enum WriteKind {
    /// New bytes: whole sectors, perhaps parts of blocks. Covers at most [`ENTRY_BYTES_MAX`] of
    /// blocks.
    Write {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Zeros in whole blocks.
    Clear(BlockRange),
}

impl WriteKind {
    /// The blocks that it touches; `None` if it is empty, leaves the slice or touches too many.
    #[must_use]
    pub fn range(&self) -> Option<BlockRange> {
        match self {
            Self::Clear(range) => Some(*range),
            Self::Write { offset, data } => {
                let end = offset.checked_add(data.len() as u64)?;
                if data.is_empty() || end > SLICE_SIZE {
                    return None;
                }
                let first = offset / BLOCK_SIZE as u64;
                let count = end.div_ceil(BLOCK_SIZE as u64) - first;
                if count > (ENTRY_BYTES_MAX / BLOCK_SIZE) as u64 {
                    return None;
                }
                BlockRange::checked(first as u32, count as u32)
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Write { data, .. } => data.len(),
            Self::Clear(_) => 0,
        }
    }
}

/// The blocks of which a change writes only a part.
pub(super) fn edges_of(kind: &WriteKind, range: BlockRange) -> BTreeSet<BlockIndex> {
    let WriteKind::Write { offset, data } = kind else {
        return BTreeSet::new();
    };
    let end = offset + data.len() as u64;
    let cut = |position: u64| !position.is_multiple_of(BLOCK_SIZE as u64);
    let first = cut(*offset).then_some(BlockIndex(range.start()));
    let last = cut(end).then_some(BlockIndex(range.end() - 1));
    first.into_iter().chain(last).collect()
}

/// The write, with its first and last block completed from what they held.
pub(super) fn whole_blocks(
    offset: u64,
    data: &Bytes,
    edges: &BTreeMap<BlockIndex, Bytes>,
) -> Change {
    let first = BlockIndex((offset / BLOCK_SIZE as u64) as u32);
    if edges.is_empty() {
        return Change::write(first, data.clone());
    }
    let lead = (offset % BLOCK_SIZE as u64) as usize;
    let bytes = (lead + data.len()).next_multiple_of(BLOCK_SIZE);
    let mut whole = alloc::vec![0; bytes];
    for (block, content) in edges {
        let at = (block.0 - first.0) as usize * BLOCK_SIZE;
        whole[at..at + BLOCK_SIZE].copy_from_slice(content);
    }
    whole[lead..lead + data.len()].copy_from_slice(data);
    Change::write(first, Bytes::from(whole))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn blocks_are_completed_around_the_write() {
        let data = Bytes::from(alloc::vec![7; 5000]);
        let kind = WriteKind::Write {
            offset: 4096 + 512,
            data: data.clone(),
        };
        let range = kind.range().expect("it lies in the slice");
        assert_eq!(range, BlockRange::new(1, 2));
        let edges: Vec<_> = edges_of(&kind, range).into_iter().collect();
        assert_eq!(edges, [BlockIndex(1), BlockIndex(2)]);
        let held = edges
            .iter()
            .map(|edge| (*edge, Bytes::from(alloc::vec![1; BLOCK_SIZE])));
        let Change::Write {
            start,
            data,
            checksums,
        } = whole_blocks(4096 + 512, &data, &held.collect())
        else {
            panic!("a write stays a write")
        };
        assert_eq!((start, checksums.len()), (BlockIndex(1), 2));
        assert!(data[..512].iter().all(|byte| *byte == 1));
        assert!(data[512..5512].iter().all(|byte| *byte == 7));
        assert!(data[5512..].iter().all(|byte| *byte == 1));
    }

    #[test]
    fn writes_that_leave_the_slice_have_no_range() {
        let data = Bytes::from_static(&[0; 512]);
        let beyond = WriteKind::Write {
            offset: SLICE_SIZE - 511,
            data: data.clone(),
        };
        assert_eq!(beyond.range(), None);
        assert_eq!(
            WriteKind::Write {
                offset: u64::MAX,
                data
            }
            .range(),
            None
        );
    }
}
