//! The pages of one slice in memory: 32 bytes for each, and little beside them.
//!
//! Pages that lie side by side share a row of 64, in which there are only those that the slice has. A tree of single
//! pages took 65 to 76 bytes for each: it leaves half of its nodes empty where pages come in order. Which pages a
//! row has is one word, as in a [`PageSet`](holdfast_format::PageSet), so that the two are compared word by word.
//!
//! Invariants:
//! - a row has one state for each of its bits, in their order, and at least one;
//! - the count is that of all bits;
//! - a row has room for half as many more than it has, at most.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use holdfast_model::PageIndex;

use crate::pages::PageState;

/// Pages of a row: one for each bit of a word.
const PAGES_PER_ROW: u32 = u64::BITS;

/// Pages that lie side by side.
#[derive(Debug, Default)]
struct Row {
    /// A bit for each page that is there.
    there: u64,
    states: Vec<PageState>,
}

/// The pages of a slice.
#[derive(Debug, Default)]
pub(crate) struct SlicePages {
    /// By the number of their first page, divided by 64.
    rows: BTreeMap<u32, Row>,
    count: u32,
}

impl SlicePages {
    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn get(&self, page: PageIndex) -> Option<PageState> {
        let (row, bit) = place(page);
        let row = self.rows.get(&row)?;
        row.has(bit).then(|| row.states[row.before(bit)])
    }

    /// Puts a page there, and tells what was in its place.
    pub(crate) fn insert(&mut self, page: PageIndex, state: PageState) -> Option<PageState> {
        let (row, bit) = place(page);
        let before = self.rows.entry(row).or_default().insert(bit, state);
        self.count += u32::from(before.is_none());
        before
    }

    /// Takes a page away, and tells what it was.
    pub(crate) fn remove(&mut self, page: PageIndex) -> Option<PageState> {
        let (number, bit) = place(page);
        let row = self.rows.get_mut(&number)?;
        let before = row.remove(bit)?;
        if row.there == 0 {
            self.rows.remove(&number);
        }
        self.count -= 1;
        Some(before)
    }

    /// Which pages of a row are there, a bit for each.
    pub(crate) fn row(&self, number: u32) -> u64 {
        self.rows.get(&number).map_or(0, |row| row.there)
    }

    /// Those from one page to another, in order.
    pub(crate) fn range(
        &self,
        range: RangeInclusive<PageIndex>,
    ) -> impl Iterator<Item = (PageIndex, PageState)> {
        let (first, last) = range.into_inner();
        let rows = place(first).0..=place(last).0;
        self.rows
            .range(rows)
            .flat_map(|(number, row)| pages_of_row(*number, row.there).zip(&row.states))
            .map(|(page, state)| (page, *state))
            .skip_while(move |(page, _)| *page < first)
            .take_while(move |(page, _)| *page <= last)
    }
}

impl Row {
    fn has(&self, bit: u32) -> bool {
        self.there & (1 << bit) != 0
    }

    /// How many states stand before that of a bit.
    fn before(&self, bit: u32) -> usize {
        (self.there & ((1 << bit) - 1)).count_ones() as usize
    }

    fn insert(&mut self, bit: u32, state: PageState) -> Option<PageState> {
        let index = self.before(bit);
        if self.has(bit) {
            return Some(core::mem::replace(&mut self.states[index], state));
        }
        let count = self.states.len();
        if count == self.states.capacity() {
            // By a quarter: twice as much would be room for nobody.
            let more = (count / 4).clamp(1, PAGES_PER_ROW as usize - count);
            self.states.reserve_exact(more);
        }
        self.states.insert(index, state);
        self.there |= 1 << bit;
        None
    }

    fn remove(&mut self, bit: u32) -> Option<PageState> {
        if !self.has(bit) {
            return None;
        }
        let before = self.states.remove(self.before(bit));
        self.there &= !(1 << bit);
        let count = self.states.len();
        if self.states.capacity() > count + count / 2 {
            self.states.shrink_to_fit();
        }
        Some(before)
    }
}

/// The pages of a row that have their bits in a word, in order.
pub(crate) fn pages_of_row(number: u32, mut bits: u64) -> impl Iterator<Item = PageIndex> {
    core::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        // Nothing is left, and there are 64 zeros.
        let rest = bits & bits.checked_sub(1)?;
        bits = rest;
        Some(PageIndex(number * PAGES_PER_ROW + bit))
    })
}

/// A page's row, and its bit there.
const fn place(page: PageIndex) -> (u32, u32) {
    (page.0 / PAGES_PER_ROW, page.0 % PAGES_PER_ROW)
}

#[cfg(test)]
mod tests {
    use holdfast_model::{PAGES_PER_SLICE, Sequence};
    use holdfast_stdx::Prng;

    use super::*;

    fn state(slot: u32) -> PageState {
        PageState {
            slot,
            version: u64::from(slot),
            written: Sequence(1),
            mask: 1,
        }
    }

    fn assert_same(pages: &SlicePages, model: &BTreeMap<PageIndex, PageState>, prng: &mut Prng) {
        assert_eq!(pages.len() as usize, model.len());
        assert_eq!(pages.is_empty(), model.is_empty());
        let whole = PageIndex(0)..=PageIndex(PAGES_PER_SLICE - 1);
        let all: BTreeMap<_, _> = pages.range(whole).collect();
        assert_eq!(&all, model);
        let first = prng.below(300) as u32;
        let range = PageIndex(first)..=PageIndex(first + prng.below(300) as u32);
        let part: Vec<_> = pages.range(range.clone()).collect();
        let expected = model.range(range).map(|(page, state)| (*page, *state));
        assert_eq!(part, expected.collect::<Vec<_>>());
        for number in 0..6 {
            let row = pages_of_row(number, pages.row(number));
            let expected = model.keys().filter(|page| page.0 / 64 == number).copied();
            assert_eq!(row.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }

    /// Whatever comes and goes, in whatever order, it is as a map from page to state.
    #[test]
    fn it_is_a_map() {
        let mut prng = Prng::from_seed(1);
        for fill in [1, 3] {
            let mut pages = SlicePages::default();
            let mut model = BTreeMap::new();
            for step in 0..2000 {
                let page = PageIndex(prng.below(300) as u32);
                if prng.below(4) < fill {
                    let state = state(step);
                    assert_eq!(pages.insert(page, state), model.insert(page, state));
                } else {
                    assert_eq!(pages.remove(page), model.remove(&page));
                }
                assert_eq!(pages.get(page), model.get(&page).copied());
                if step % 50 == 0 {
                    assert_same(&pages, &model, &mut prng);
                }
            }
        }
    }

    /// Bytes that the rows' states take.
    fn bytes(pages: &SlicePages) -> usize {
        let rows = pages.rows.values();
        let room: usize = rows.map(|row| row.states.capacity()).sum();
        room * size_of::<PageState>()
    }

    #[test]
    fn a_page_takes_little_memory_in_whatever_order_pages_come_and_go() {
        assert_eq!(size_of::<PageState>(), 32);
        assert!(size_of::<Row>() <= 32, "half a byte for each page of a row");
        let orders: [fn(u32) -> u32; 3] = [
            |step| step,
            |step| PAGES_PER_SLICE - 1 - step,
            |step| step * 6007 % PAGES_PER_SLICE,
        ];
        for order in orders {
            let mut pages = SlicePages::default();
            for step in 0..PAGES_PER_SLICE {
                pages.insert(PageIndex(order(step)), state(step));
                let count = pages.len() as usize;
                assert!(bytes(&pages) <= count * 40, "{count} pages");
            }
            assert_eq!(bytes(&pages), PAGES_PER_SLICE as usize * 32);
            for step in 0..PAGES_PER_SLICE {
                pages.remove(PageIndex(order(step)));
                assert!(bytes(&pages) <= pages.len() as usize * 48);
            }
            assert!(pages.rows.is_empty(), "nothing is left of what is gone");
        }
    }

    #[test]
    fn the_last_page_of_a_row_is_its_own() {
        let mut pages = SlicePages::default();
        for page in [63, 64, PAGES_PER_SLICE - 1] {
            assert_eq!(pages.insert(PageIndex(page), state(page)), None);
        }
        assert_eq!(pages.row(0), 1 << 63);
        assert_eq!(pages.row(1), 1);
        assert_eq!(pages.row(PAGES_PER_SLICE / 64 - 1), 1 << 63);
        assert_eq!(pages.get(PageIndex(62)), None);
        assert_eq!(pages.get(PageIndex(65)), None);
    }
}
