//! What changed since a point: the window of the latest changes, and a mark for each absent
//! replica.
//!
//! Invariants:
//! - the window tells every change above [`Window::from`]; it is asked only for points not before;
//! - a mark tells every block changed above [`Mark::from`], and perhaps more, never less.

use alloc::collections::{BTreeMap, VecDeque};

use holdfast_model::{BlockRange, PageIndex, Sequence};

/// Changes that the window keeps at most. Beyond it the oldest are forgotten, and a replica that
/// needs them is copied in full: 64 Ki changes are more than a second of the fastest writer.
const WINDOW_CHANGES_MAX: usize = 64 << 10;

/// The latest changes, in order.
#[derive(Debug, Default)]
pub(crate) struct Window {
    from: Sequence,
    changes: VecDeque<(Sequence, BlockRange)>,
}

/// The blocks that changed since a point: for each page the mask of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The mark tells of every change above this.
    pub(crate) from: Sequence,
    /// The changed blocks.
    pub(crate) pages: BTreeMap<PageIndex, u64>,
}

impl Window {
    /// A window that knows of nothing up to `from`.
    pub(crate) fn starting_at(from: Sequence) -> Self {
        Self {
            from,
            changes: VecDeque::new(),
        }
    }

    /// The window tells of every change above this.
    pub(crate) fn from(&self) -> Sequence {
        self.from
    }

    /// Adds a change. An entry given up and replaced adds the replacement too.
    pub(crate) fn note(&mut self, sequence: Sequence, range: BlockRange) {
        if self.changes.len() == WINDOW_CHANGES_MAX
            && let Some((forgotten, _)) = self.changes.pop_front()
        {
            self.from = self.from.max(forgotten);
        }
        self.changes.push_back((sequence, range));
    }

    /// Forgets what nobody can need any more: changes up to `stable`.
    pub(crate) fn advance(&mut self, stable: Sequence) {
        while self
            .changes
            .front()
            .is_some_and(|(sequence, _)| *sequence <= stable)
        {
            self.changes.pop_front();
        }
        self.from = self.from.max(stable);
    }

    /// The mark of a replica that has everything up to `stable`; one that begins later if the
    /// window does.
    pub(crate) fn mark(&self, stable: Sequence) -> Mark {
        let mut mark = Mark {
            from: self.from.max(stable),
            pages: BTreeMap::new(),
        };
        for (sequence, range) in &self.changes {
            if *sequence > stable {
                mark.note(*range);
            }
        }
        mark
    }
}

impl Mark {
    /// Adds changed blocks.
    pub(crate) fn note(&mut self, range: BlockRange) {
        for (page, part) in range.by_page() {
            *self.pages.entry(page).or_default() |= part.page_mask();
        }
    }
}

/// The runs of consecutive blocks that a page's mask has.
pub(crate) fn runs(page: PageIndex, mask: u64) -> impl Iterator<Item = BlockRange> {
    let mut rest = mask;
    core::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let first = rest.trailing_zeros();
        let count = (rest >> first).trailing_ones();
        let range = BlockRange::new(page.block(first).0, count);
        rest &= !range.page_mask();
        Some(range)
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_mark_has_what_changed_above_its_point() {
        let mut window = Window::default();
        for number in 1..=10 {
            window.note(Sequence(number), BlockRange::new(number as u32 * 64, 2));
        }
        window.advance(Sequence(3));
        let mark = window.mark(Sequence(8));
        assert_eq!(mark.from, Sequence(8));
        let pages: Vec<_> = mark.pages.into_iter().collect();
        assert_eq!(pages, [(PageIndex(9), 0b11), (PageIndex(10), 0b11)]);
        assert_eq!(window.mark(Sequence(1)).from, Sequence(3));
    }

    #[test]
    fn a_full_window_says_that_it_forgot() {
        let mut window = Window::default();
        for number in 1..=WINDOW_CHANGES_MAX as u64 + 5 {
            window.note(Sequence(number), BlockRange::new(0, 1));
        }
        assert_eq!(window.mark(Sequence(0)).from, Sequence(5));
    }

    #[test]
    fn runs_cover_the_mask() {
        let found: Vec<_> = runs(PageIndex(1), 0b1011 | 1 << 63).collect();
        let expected = [
            BlockRange::new(64, 2),
            BlockRange::new(67, 1),
            BlockRange::new(127, 1),
        ];
        assert_eq!(found, expected);
        let whole: Vec<_> = runs(PageIndex(0), u64::MAX).collect();
        assert_eq!(whole, [BlockRange::new(0, 64)]);
    }
}
