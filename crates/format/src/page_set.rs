//! The set of pages that a slice has: what makes absence a statement rather than a gap.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use holdfast_model::{PAGES_PER_SLICE, PageIndex};

/// Bytes of a set as it is kept: one bit a page, page 0 in the lowest bit of the first byte.
pub const PAGE_SET_BYTES: usize = PAGES_PER_SLICE as usize / 8;

/// A set of pages of one slice.
#[derive(Clone, PartialEq, Eq)]
pub struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// No pages.
    #[must_use]
    pub fn new() -> Self {
        Self {
            words: vec![0; PAGE_SET_BYTES / 8],
        }
    }

    /// Adds or removes `page`; says whether that changed anything.
    pub fn set(&mut self, page: PageIndex, present: bool) -> bool {
        let (word, bit) = place(page);
        let before = self.words[word];
        if present {
            self.words[word] |= bit;
        } else {
            self.words[word] &= !bit;
        }
        self.words[word] != before
    }

    /// Whether `page` is in the set.
    #[must_use]
    pub fn contains(&self, page: PageIndex) -> bool {
        let (word, bit) = place(page);
        self.words[word] & bit != 0
    }

    /// How many pages.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The pages, in order.
    pub fn iter(&self) -> impl Iterator<Item = PageIndex> {
        let filled = self.words.iter().zip((0..).step_by(64));
        filled
            .filter(|(word, _)| **word != 0)
            .flat_map(|(word, first)| {
                let pages = (first..first + 64).map(PageIndex);
                pages.filter(move |page| word & place(*page).1 != 0)
            })
    }

    /// The set as words, from page 0 on: page 64 *n* + *b* is bit *b* of word *n*.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().copied()
    }

    /// The set as it is kept.
    pub(crate) fn encode(&self, target: &mut Vec<u8>) {
        for word in &self.words {
            target.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a set; `None` if there are not exactly [`PAGE_SET_BYTES`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != PAGE_SET_BYTES {
            return None;
        }
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        Some(Self { words })
    }
}

impl Default for PageSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PageSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_set()
            .entries(self.iter().map(|page| page.0))
            .finish()
    }
}

const fn place(page: PageIndex) -> (usize, u64) {
    assert!(page.0 < PAGES_PER_SLICE, "the page lies in its slice");
    (page.0 as usize / 64, 1 << (page.0 % 64))
}
