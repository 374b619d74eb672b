//! Pages that the table names, on their way into the map.
//!
//! Pages that lie side by side in the table may lie anywhere in the map, and one after the other each was a wait for
//! memory that no cache has: half of all that an opening of a store with random writes took of a processor. So they
//! are gathered by slices, and go into the map many of a slice at a time, in order.
//!
//! Invariants:
//! - what is gathered is bounded, whatever the table says: a slice's pages are taken whenever there are too many;
//! - slices have their turns one after the other, so that many pages of each come together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use holdfast_format::PageKey;
use holdfast_model::{PageIndex, SliceId};

use crate::pages::PageState;

/// Pages that are gathered: a thousand for each slice of a TiB. 12 MiB.
const FOUND_MAX: usize = 1 << 18;

/// A page that an entry names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundPage {
    pub(crate) page: PageIndex,
    pub(crate) state: PageState,
    /// Blocks that the entry says are lost.
    pub(crate) bad: u64,
}

/// What has been found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    slices: BTreeMap<SliceId, Vec<FoundPage>>,
    count: usize,
    /// The slice that had its turn last.
    last: Option<SliceId>,
}

impl Found {
    pub(crate) fn add(&mut self, key: PageKey, state: PageState, bad: u64) {
        let page = key.page;
        let pages = self.slices.entry(key.slice).or_default();
        pages.push(FoundPage { page, state, bad });
        self.count += 1;
    }

    /// Whether there are so many that some have to be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.count > FOUND_MAX
    }

    /// All pages of the slice whose turn it is, in order; of two entries of a page the older one first.
    pub(crate) fn take_slice(&mut self) -> Option<(SliceId, Vec<FoundPage>)> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.slices.range((after, Bound::Unbounded));
        let next = later.next().or_else(|| self.slices.first_key_value());
        let slice = *next?.0;
        let mut pages = self.slices.remove(&slice).expect("it was just there");
        pages.sort_unstable_by_key(|found| (found.page, found.state.version));
        self.count -= pages.len();
        self.last = Some(slice);
        Some((slice, pages))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::{Sequence, VolumeId};

    use super::*;

    fn key(index: u32, page: u32) -> PageKey {
        let volume = VolumeId(1);
        PageKey {
            slice: SliceId { volume, index },
            page: PageIndex(page),
        }
    }

    fn state(version: u64) -> PageState {
        PageState {
            slot: 0,
            version,
            written: Sequence::ZERO,
            mask: 1,
        }
    }

    #[test]
    fn slices_have_their_turns_with_their_pages_in_order() {
        let mut found = Found::default();
        for (index, page, version) in [(2, 9, 1), (1, 7, 4), (2, 3, 2), (1, 7, 3)] {
            found.add(key(index, page), state(version), 0);
        }
        let take = |found: &mut Found| {
            let (slice, pages) = found.take_slice()?;
            let pages = pages.iter().map(|it| (it.page.0, it.state.version));
            Some((slice.index, pages.collect::<Vec<_>>()))
        };
        assert_eq!(take(&mut found), Some((1, [(7, 3), (7, 4)].into())));
        // It had its turn, though it has something again.
        found.add(key(1, 1), state(5), 0);
        assert_eq!(take(&mut found), Some((2, [(3, 2), (9, 1)].into())));
        assert_eq!(take(&mut found), Some((1, [(1, 5)].into())));
        assert_eq!(take(&mut found), None);
    }

    #[test]
    fn it_is_full_as_long_as_there_are_too_many() {
        let mut found = Found::default();
        for number in 0..=FOUND_MAX as u32 {
            assert!(!found.is_full());
            found.add(key(number % 3, number / 3 % 16384), state(1), 0);
        }
        assert!(found.is_full());
        found.take_slice();
        assert!(!found.is_full());
    }
}
