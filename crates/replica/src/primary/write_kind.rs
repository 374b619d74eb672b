//! What a command changes, and what comes of it for whole blocks.
//!
//! It refuses to read, to order, and to know who asks.
//!
//! Invariants:
//! - a change has a range only if it lies in the slice and fits one entry;
//! - what it does not touch of a block stays as it was held.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

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
    /// New bytes, if what they replace is what is expected: the newest version when it is compared.
    CompareAndWrite {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// What is expected.
        expected: Bytes,
        /// The new bytes, as many.
        data: Bytes,
    },
    /// What is there, with more bits set. Covers at most [`ENTRY_BYTES_MAX`] of blocks.
    Or {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// The bits.
        data: Bytes,
    },
}

/// What was expected is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Bytes before the first that differs.
    pub(super) position: u32,
}

impl WriteKind {
    /// The blocks that it touches; `None` if it is empty, leaves the slice or touches too many.
    #[must_use]
    pub fn range(&self) -> Option<BlockRange> {
        let (offset, data) = match self {
            Self::Clear(range) => return Some(*range),
            Self::CompareAndWrite { expected, data, .. } if expected.len() != data.len() => {
                return None;
            }
            Self::Write { offset, data }
            | Self::CompareAndWrite { offset, data, .. }
            | Self::Or { offset, data } => (*offset, data),
        };
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

    /// How much it holds until it is numbered, with what of the blocks is read for it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Write { data, .. } => data.len(),
            Self::Clear(_) => 0,
            Self::CompareAndWrite { data, .. } | Self::Or { data, .. } => 2 * data.len(),
        }
    }

    /// Of the blocks that it touches, those that have to be read first.
    pub(super) fn needs(&self, range: BlockRange) -> Vec<BlockRange> {
        let (offset, data) = match self {
            Self::Clear(_) => return Vec::new(),
            Self::CompareAndWrite { .. } | Self::Or { .. } => return alloc::vec![range],
            Self::Write { offset, data } => (*offset, data),
        };
        let end = offset + data.len() as u64;
        let cut = |position: u64| !position.is_multiple_of(BLOCK_SIZE as u64);
        let first = cut(offset).then_some(range.start());
        let last = cut(end).then_some(range.end() - 1);
        let mut edges: Vec<u32> = first.into_iter().chain(last).collect();
        edges.dedup();
        edges
            .into_iter()
            .map(|it| BlockRange::single(BlockIndex(it)))
            .collect()
    }

    /// What it makes of what the blocks hold, of which `held` has those that it needs.
    pub(super) fn change(&self, held: &BTreeMap<BlockIndex, Bytes>) -> Result<Change, Mismatch> {
        let (offset, data) = match self {
            Self::Clear(range) => return Ok(Change::Clear(*range)),
            Self::Write { offset, data }
            | Self::CompareAndWrite { offset, data, .. }
            | Self::Or { offset, data } => (*offset, data),
        };
        let first = BlockIndex((offset / BLOCK_SIZE as u64) as u32);
        if held.is_empty() {
            assert!(matches!(self, Self::Write { .. }), "the others read first");
            return Ok(Change::write(first, data.clone()));
        }
        let lead = (offset % BLOCK_SIZE as u64) as usize;
        let bytes = (lead + data.len()).next_multiple_of(BLOCK_SIZE);
        let mut whole = alloc::vec![0; bytes];
        for (block, content) in held {
            let at = (block.0 - first.0) as usize * BLOCK_SIZE;
            whole[at..at + BLOCK_SIZE].copy_from_slice(content);
        }
        let touched = &mut whole[lead..lead + data.len()];
        match self {
            Self::Or { .. } => {
                for (byte, bits) in touched.iter_mut().zip(data) {
                    *byte |= bits;
                }
            }
            Self::CompareAndWrite { expected, .. } => {
                let mut pairs = touched.iter().zip(expected);
                if let Some(place) = pairs.position(|(found, wanted)| found != wanted) {
                    let position = place as u32;
                    return Err(Mismatch { position });
                }
                touched.copy_from_slice(data);
            }
            Self::Write { .. } | Self::Clear(_) => touched.copy_from_slice(data),
        }
        Ok(Change::write(first, Bytes::from(whole)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_completed_around_the_write() {
        let data = Bytes::from(alloc::vec![7; 5000]);
        let kind = WriteKind::Write {
            offset: 4096 + 512,
            data,
        };
        let range = kind.range().expect("it lies in the slice");
        assert_eq!(range, BlockRange::new(1, 2));
        assert_eq!(
            kind.needs(range),
            [BlockRange::new(1, 1), BlockRange::new(2, 1)]
        );
        let Ok(Change::Write {
            start,
            data,
            checksums,
        }) = kind.change(&held(1, 2, 1))
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

    /// Blocks of that byte.
    fn held(start: u32, count: u32, byte: u8) -> BTreeMap<BlockIndex, Bytes> {
        let blocks = BlockRange::new(start, count).blocks();
        blocks
            .map(|block| (block, Bytes::from(alloc::vec![byte; BLOCK_SIZE])))
            .collect()
    }

    #[test]
    fn a_write_within_one_block_reads_it_once() {
        let kind = WriteKind::Write {
            offset: 512,
            data: Bytes::from_static(&[7; 512]),
        };
        assert_eq!(kind.needs(BlockRange::new(0, 1)), [BlockRange::new(0, 1)]);
    }

    #[test]
    fn what_is_compared_is_what_is_replaced() {
        // Over two blocks, of both a part.
        let compare = |place: Option<usize>| {
            let mut expected = alloc::vec![1; BLOCK_SIZE];
            if let Some(place) = place {
                expected[place] = 2;
            }
            WriteKind::CompareAndWrite {
                offset: 1024,
                expected: Bytes::from(expected),
                data: Bytes::from(alloc::vec![9; BLOCK_SIZE]),
            }
        };
        let range = compare(None).range().expect("it lies in the slice");
        assert_eq!(compare(None).needs(range), [BlockRange::new(0, 2)]);
        let Ok(Change::Write { start, data, .. }) = compare(None).change(&held(0, 2, 1)) else {
            panic!("it is what is there")
        };
        assert_eq!(start, BlockIndex(0));
        assert!(data[..1024].iter().all(|byte| *byte == 1));
        assert!(data[1024..1024 + BLOCK_SIZE].iter().all(|byte| *byte == 9));
        assert!(data[1024 + BLOCK_SIZE..].iter().all(|byte| *byte == 1));
        for place in [0, 3071, 3072, BLOCK_SIZE - 1] {
            let position = place as u32;
            let found = compare(Some(place)).change(&held(0, 2, 1));
            assert_eq!(found.err(), Some(Mismatch { position }));
        }
        // What lies beside it in the blocks does not matter.
        let mut beside = held(0, 2, 1);
        let mut first = alloc::vec![1; BLOCK_SIZE];
        first[1023] = 5;
        beside.insert(BlockIndex(0), Bytes::from(first));
        assert!(compare(None).change(&beside).is_ok());
    }

    #[test]
    fn bits_are_set_and_none_is_cleared() {
        let kind = WriteKind::Or {
            offset: 4096 + 512,
            data: Bytes::from(alloc::vec![0xF0; 512]),
        };
        let Ok(Change::Write { data, .. }) = kind.change(&held(1, 1, 0x81)) else {
            panic!("it cannot fail")
        };
        assert!(data[..512].iter().all(|byte| *byte == 0x81));
        assert!(data[512..1024].iter().all(|byte| *byte == 0xF1));
        assert!(data[1024..].iter().all(|byte| *byte == 0x81));
    }

    #[test]
    fn what_is_not_as_long_as_what_is_expected_has_no_range() {
        let kind = WriteKind::CompareAndWrite {
            offset: 0,
            expected: Bytes::from_static(&[0; 512]),
            data: Bytes::from_static(&[0; 1024]),
        };
        assert_eq!(kind.range(), None);
    }
}
