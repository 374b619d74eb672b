//! Where data is: blocks, pages and slices, and the arithmetic between them.
//!
//! Invariants:
//! - a block is the unit of checksums and change tracking, a page of allocation, a slice of
//!   replication; each is a whole multiple of the former;
//! - a [`BlockRange`] is never empty and never leaves its slice.

use core::fmt;

/// Bytes in a block.
pub const BLOCK_SIZE: usize = 4 << 10;
/// Bytes in a page.
pub const PAGE_SIZE: usize = 256 << 10;
/// Bytes in a slice.
pub const SLICE_SIZE: u64 = 4 << 30;
/// Blocks in a page: one bit each fits in a 64-bit mask.
pub const BLOCKS_PER_PAGE: u32 = (PAGE_SIZE / BLOCK_SIZE) as u32;
/// Pages in a slice.
pub const PAGES_PER_SLICE: u32 = (SLICE_SIZE / PAGE_SIZE as u64) as u32;
/// Blocks in a slice.
pub const BLOCKS_PER_SLICE: u32 = (SLICE_SIZE / BLOCK_SIZE as u64) as u32;

const _: () = assert!(BLOCKS_PER_PAGE == 64, "marks keep one bit a block in a u64");

/// A block's place in its slice, below [`BLOCKS_PER_SLICE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

impl BlockIndex {
    /// The page that holds the block.
    #[must_use]
    pub const fn page(self) -> PageIndex {
        PageIndex(self.0 / BLOCKS_PER_PAGE)
    }

    /// The block's place in its page, below [`BLOCKS_PER_PAGE`].
    #[must_use]
    pub const fn within_page(self) -> u32 {
        self.0 % BLOCKS_PER_PAGE
    }
}

/// A page's place in its slice, below [`PAGES_PER_SLICE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u32);

impl PageIndex {
    /// The page's first block.
    #[must_use]
    pub const fn first_block(self) -> BlockIndex {
        BlockIndex(self.0 * BLOCKS_PER_PAGE)
    }

    /// The block at `within_page` of this page.
    #[must_use]
    pub const fn block(self, within_page: u32) -> BlockIndex {
        assert!(within_page < BLOCKS_PER_PAGE, "the block lies in the page");
        BlockIndex(self.0 * BLOCKS_PER_PAGE + within_page)
    }
}

/// Consecutive blocks of one slice; at least one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRange {
    start: u32,
    count: u32,
}

impl BlockRange {
    /// The `count` blocks from `start`; `None` if that is empty or leaves the slice. For ranges
    /// that come from outside.
    #[must_use]
    pub const fn checked(start: u32, count: u32) -> Option<Self> {
        if count == 0 || count > BLOCKS_PER_SLICE || start > BLOCKS_PER_SLICE - count {
            return None;
        }
        Some(Self { start, count })
    }

    /// The `count` blocks from `start`. Panics if that is empty or leaves the slice.
    #[must_use]
    pub const fn new(start: u32, count: u32) -> Self {
        match Self::checked(start, count) {
            Some(range) => range,
            None => panic!("a block range is not empty and lies in its slice"),
        }
    }

    /// The one block `block`.
    #[must_use]
    pub const fn single(block: BlockIndex) -> Self {
        Self::new(block.0, 1)
    }

    /// The whole of `page`.
    #[must_use]
    pub const fn page(page: PageIndex) -> Self {
        Self::new(page.0 * BLOCKS_PER_PAGE, BLOCKS_PER_PAGE)
    }

    /// The whole slice.
    #[must_use]
    pub const fn slice() -> Self {
        Self::new(0, BLOCKS_PER_SLICE)
    }

    /// The first block's number.
    #[must_use]
    pub const fn start(self) -> u32 {
        self.start
    }

    /// How many blocks.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The number after the last block's.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.start + self.count
    }

    /// Bytes in the range.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.count as u64 * BLOCK_SIZE as u64
    }

    /// Whether `block` is in the range.
    #[must_use]
    pub const fn contains(self, block: BlockIndex) -> bool {
        block.0 >= self.start && block.0 < self.end()
    }

    /// Whether the two share a block.
    #[must_use]
    pub const fn overlaps(self, other: BlockRange) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// What the two share.
    #[must_use]
    pub fn intersection(self, other: BlockRange) -> Option<BlockRange> {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        (start < end).then(|| BlockRange::new(start, end - start))
    }

    /// The blocks, in order.
    pub fn blocks(self) -> impl DoubleEndedIterator<Item = BlockIndex> + ExactSizeIterator {
        (self.start..self.end()).map(BlockIndex)
    }

    /// The range cut at page boundaries: each part with its page, in order.
    pub fn by_page(self) -> impl Iterator<Item = (PageIndex, BlockRange)> {
        let first = self.start / BLOCKS_PER_PAGE;
        let last = (self.end() - 1) / BLOCKS_PER_PAGE;
        (first..=last).map(move |page| {
            let page = PageIndex(page);
            let part = self
                .intersection(BlockRange::page(page))
                .expect("every page between the first and the last block shares blocks");
            (page, part)
        })
    }

    /// The bits that the range's blocks have in their page's 64-bit mask. Panics if the range
    /// lies in more than one page.
    #[must_use]
    pub const fn page_mask(self) -> u64 {
        let first = self.start % BLOCKS_PER_PAGE;
        assert!(
            first + self.count <= BLOCKS_PER_PAGE,
            "the range lies in one page"
        );
        let ones = if self.count == 64 {
            u64::MAX
        } else {
            (1 << self.count) - 1
        };
        ones << first
    }
}

impl fmt::Debug for BlockRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}+{}", self.start, self.count)
    }
}

/// A page of which blocks may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedPage {
    /// Which page.
    pub page: PageIndex,
    /// The blocks that may have changed, one bit each.
    pub blocks: u64,
    /// Whether each of them was written or cleared. If not, some block of the page was, and nobody
    /// knows which.
    pub is_exact: bool,
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn ranges_from_outside_are_checked() {
        assert!(BlockRange::checked(0, 0).is_none());
        assert!(BlockRange::checked(BLOCKS_PER_SLICE, 1).is_none());
        assert!(BlockRange::checked(1, BLOCKS_PER_SLICE).is_none());
        assert!(BlockRange::checked(u32::MAX, u32::MAX).is_none());
        assert!(BlockRange::checked(0, BLOCKS_PER_SLICE).is_some());
    }

    #[test]
    fn cut_at_page_boundaries() {
        let parts: Vec<_> = BlockRange::new(62, 68).by_page().collect();
        assert_eq!(
            parts,
            [
                (PageIndex(0), BlockRange::new(62, 2)),
                (PageIndex(1), BlockRange::new(64, 64)),
                (PageIndex(2), BlockRange::new(128, 2)),
            ]
        );
        assert_eq!(parts[0].1.page_mask(), 0b11 << 62);
        assert_eq!(parts[1].1.page_mask(), u64::MAX);
        assert_eq!(parts[2].1.page_mask(), 0b11);
    }
}
