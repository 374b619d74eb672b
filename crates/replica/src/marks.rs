//! What changed since a point: the window of the latest changes, and a mark for each absent
//! replica.
//!
//! A mark is kept in memory. One that is lost with that is made again from what the store knows of its
//! pages ([`Mark::lost`]), which says less exactly what changed: the rest is found by comparing.
//!
//! Invariants:
//! - the window tells every change above [`Window::from`]; it is asked only for points not before;
//! - a mark tells every block that its replica lacks, and perhaps more, never less: what changed above
//!   [`Mark::from`], but for what was copied to it durably since;
//! - a copy does not make up for what the replica is sent as an entry: where that came first the copy
//!   was not installed, and the entry may still be given up.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_model::{
    BLOCK_SIZE, BlockRange, ChangedPage, Epoch, NodeId, PageIndex, Sequence, StoreId,
};

/// Changes that the window keeps at most. Beyond it the oldest are forgotten, and a replica that
/// needs them is copied in full: 64 Ki changes are more than a second of the fastest writer.
const WINDOW_CHANGES_MAX: usize = 64 << 10;

/// Changes that a mark keeps apart at most, while its replica is brought up to date: beyond it the
/// oldest count as not received until the sync ends, and are copied should it be interrupted.
const STREAMED_CHANGES_MAX: usize = 8 << 10;

/// The latest changes, in order.
#[derive(Debug, Default)]
pub(crate) struct Window {
    from: Sequence,
    changes: VecDeque<(Sequence, BlockRange)>,
}

/// Blocks, for each page a mask that is not zero. Their number is kept, not counted: whoever reports how
/// far a sync is asks thousands of these again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Blocks {
    pages: BTreeMap<PageIndex, u64>,
    count: u64,
}

/// What a replica lacks: for each page the mask of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The mark tells of every change above this.
    pub(crate) from: Sequence,
    /// Blocks that it lacks, or may lack.
    pages: Blocks,
    /// Those of the pages of which it may have more of these blocks than it lacks: they are compared
    /// before they are copied.
    doubtful: BTreeSet<PageIndex>,
    /// Whether `pages` says what was lost; it does not before the replica has said what it has.
    is_filled: bool,
    /// The sync in which some of the blocks were copied: only the replica that was part of that has
    /// them.
    pub(crate) sync: Option<Epoch>,
    /// Changes since it was last told to begin, which it is sent as entries, and does not have for
    /// sure.
    streamed: VecDeque<(Sequence, BlockRange)>,
    /// The blocks of those that were too many to be kept apart.
    streamed_before: Blocks,
}

/// The marks of all replicas that are away, or joining.
pub(crate) type Marks = BTreeMap<(NodeId, StoreId), Mark>;

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
        let mut mark = Mark::new(self.from.max(stable), None);
        for (sequence, range) in &self.changes {
            if *sequence > stable {
                mark.pages.add_range(*range);
            }
        }
        mark
    }
}

impl Blocks {
    fn add(&mut self, page: PageIndex, blocks: u64) {
        if blocks != 0 {
            let mask = self.pages.entry(page).or_default();
            self.count += u64::from((blocks & !*mask).count_ones());
            *mask |= blocks;
        }
    }

    fn add_range(&mut self, range: BlockRange) {
        for (page, part) in range.by_page() {
            self.add(page, part.page_mask());
        }
    }

    /// Takes blocks out; true if the page has none left.
    fn remove(&mut self, page: PageIndex, blocks: u64) -> bool {
        let Some(mask) = self.pages.get_mut(&page) else {
            return true;
        };
        self.count -= u64::from((blocks & *mask).count_ones());
        *mask &= !blocks;
        let is_empty = *mask == 0;
        if is_empty {
            self.pages.remove(&page);
        }
        is_empty
    }
}

/// A page to bring up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    pub(crate) page: PageIndex,
    /// The blocks, one bit each.
    pub(crate) blocks: u64,
    /// Whether it may have some of them.
    pub(crate) is_doubtful: bool,
}

impl Lacking {
    /// Bytes of the blocks.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.blocks.count_ones()) * BLOCK_SIZE as u64
    }
}

impl Mark {
    fn new(from: Sequence, sync: Option<Epoch>) -> Self {
        Self {
            from,
            pages: Blocks::default(),
            doubtful: BTreeSet::new(),
            is_filled: true,
            sync,
            streamed: VecDeque::new(),
            streamed_before: Blocks::default(),
        }
    }

    /// The mark of a replica that begins with nothing: all that is allocated.
    pub(crate) fn of_everything(
        sync: Epoch,
        allocated: impl IntoIterator<Item = (PageIndex, u64)>,
    ) -> Self {
        let mut mark = Self::new(Sequence::ZERO, Some(sync));
        for (page, blocks) in allocated {
            mark.pages.add(page, blocks);
        }
        mark
    }

    /// The mark of a replica that has everything up to `stable`, when nobody has kept one: to be
    /// [filled](Self::fill).
    pub(crate) fn lost(stable: Sequence, sync: Epoch) -> Self {
        Self {
            is_filled: false,
            ..Self::new(stable, Some(sync))
        }
    }

    /// Whether it says what the replica lacks.
    pub(crate) fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// What has changed above the point where it begins, and which pages the replica has that are not
    /// there any more.
    pub(crate) fn fill(
        &mut self,
        changed: impl IntoIterator<Item = ChangedPage>,
        gone: impl IntoIterator<Item = PageIndex>,
    ) {
        assert!(!self.is_filled, "a mark is filled once");
        self.is_filled = true;
        for one in changed {
            self.pages.add(one.page, one.blocks);
            if !one.is_exact {
                self.doubtful.insert(one.page);
            }
        }
        for page in gone {
            self.pages.add(page, u64::MAX);
        }
    }

    /// Whether it tells what a replica lacks that offers itself with what it had at `stable`, or in
    /// the middle of `sync`.
    pub(crate) fn fits(&self, stable: Sequence, sync: Epoch) -> bool {
        match self.sync {
            None => self.from <= stable,
            Some(own) => own == sync && sync != Epoch::ZERO,
        }
    }

    /// Adds a change.
    pub(crate) fn note(&mut self, sequence: Sequence, range: BlockRange) {
        if self.sync.is_none() {
            self.pages.add_range(range);
            return;
        }
        if self.streamed.len() == STREAMED_CHANGES_MAX
            && let Some((_, oldest)) = self.streamed.pop_front()
        {
            self.streamed_before.add_range(oldest);
        }
        self.streamed.push_back((sequence, range));
    }

    /// The replica is about to be told to begin, as a part of `sync`: of what it was sent before,
    /// only what it said to have durably counts.
    pub(crate) fn begin(&mut self, sync: Epoch) {
        assert!(
            self.sync.is_none_or(|own| own == sync),
            "a sync that began goes on, or begins with nothing"
        );
        self.sync = Some(sync);
        for (_, range) in core::mem::take(&mut self.streamed) {
            self.pages.add_range(range);
        }
        for (page, mask) in core::mem::take(&mut self.streamed_before).pages {
            self.pages.add(page, mask);
        }
    }

    /// How many blocks the replica lacks, apart from those that it is sent as entries.
    pub(crate) fn block_count(&self) -> u64 {
        self.pages.count
    }

    /// How many blocks a replica lacks that has everything up to `stable`; `None` if nobody can tell
    /// before it has said what it has.
    pub(crate) fn lacking_since(&self, stable: Sequence) -> Option<u64> {
        let tells = self.is_filled && (self.sync.is_some() || self.from <= stable);
        tells.then(|| self.block_count())
    }

    /// The first page from `page` on of which the replica lacks blocks.
    pub(crate) fn next_page(&self, page: PageIndex) -> Option<Lacking> {
        let (page, blocks) = self.pages.pages.range(page..).next()?;
        Some(Lacking {
            page: *page,
            blocks: *blocks,
            is_doubtful: self.doubtful.contains(page),
        })
    }

    /// The replica has everything that it was sent up to `stable`, durably.
    pub(crate) fn has_stable(&mut self, stable: Sequence) {
        while self
            .streamed
            .front()
            .is_some_and(|(sequence, _)| *sequence <= stable)
        {
            self.streamed.pop_front();
        }
    }

    /// The replica has these blocks of a page, durably.
    pub(crate) fn has_copy(&mut self, page: PageIndex, blocks: u64) {
        if self.pages.remove(page, blocks) {
            self.doubtful.remove(&page);
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
        let pages: Vec<_> = mark.pages.pages.into_iter().collect();
        assert_eq!(pages, [(PageIndex(9), 0b11), (PageIndex(10), 0b11)]);
        assert_eq!(window.mark(Sequence(1)).from, Sequence(3));
    }

    fn pages_of(mark: &Mark) -> Vec<(PageIndex, u64)> {
        let pages = mark.pages.pages.iter();
        pages.map(|(page, mask)| (*page, *mask)).collect()
    }

    #[test]
    fn a_sync_goes_on_with_what_is_missing_and_what_changed() {
        let sync = Epoch(5);
        let mut mark = Window::default().mark(Sequence::ZERO);
        mark.note(Sequence(1), BlockRange::new(0, 4));
        assert!(mark.fits(Sequence(0), Epoch::ZERO));
        mark.begin(sync);
        mark.has_copy(PageIndex(0), 0b0110);
        // These are sent as entries; the first is known to be there.
        mark.note(Sequence(2), BlockRange::new(1, 1));
        mark.note(Sequence(3), BlockRange::new(64, 1));
        mark.has_stable(Sequence(2));
        assert_eq!(pages_of(&mark), [(PageIndex(0), 0b1001)]);
        mark.begin(sync);
        let expected = [(PageIndex(0), 0b1001), (PageIndex(1), 0b1)];
        assert_eq!(pages_of(&mark), expected);
        assert!(mark.fits(Sequence(0), sync));
        assert!(!mark.fits(Sequence(9), Epoch(4)), "that has other blocks");
        assert!(!mark.fits(Sequence(9), Epoch::ZERO), "that lost some");
    }

    #[test]
    fn a_mark_keeps_few_changes_apart_and_loses_none() {
        let mut mark = Mark::of_everything(Epoch(5), [(PageIndex(0), 0b1)]);
        mark.begin(Epoch(5));
        for number in 1..=STREAMED_CHANGES_MAX as u64 + 2 {
            mark.note(Sequence(number), BlockRange::new(number as u32 * 64, 1));
        }
        assert_eq!(mark.streamed.len(), STREAMED_CHANGES_MAX);
        assert_eq!(mark.pages.pages.len() + mark.streamed_before.pages.len(), 3);
        mark.has_copy(PageIndex(1), 0b1);
        mark.begin(Epoch(5));
        assert_eq!(mark.block_count(), STREAMED_CHANGES_MAX as u64 + 3);
    }

    #[test]
    fn a_mark_that_was_lost_is_filled_from_what_the_pages_tell() {
        let sync = Epoch(5);
        let mut mark = Mark::lost(Sequence(7), sync);
        mark.begin(sync);
        mark.note(Sequence(9), BlockRange::new(0, 1));
        let changed = |page, blocks, is_exact| ChangedPage {
            page: PageIndex(page),
            blocks,
            is_exact,
        };
        let told = [changed(1, 0b100, true), changed(2, u64::MAX, false)];
        mark.fill(told, [PageIndex(3)]);
        let next = |from, mark: &Mark| {
            let next = mark.next_page(PageIndex(from)).expect("there is one");
            (next.page.0, next.blocks, next.is_doubtful)
        };
        assert_eq!(next(0, &mark), (1, 0b100, false));
        assert_eq!(next(2, &mark), (2, u64::MAX, true));
        assert_eq!(next(3, &mark), (3, u64::MAX, false));
        mark.has_copy(PageIndex(2), u64::MAX);
        mark.begin(sync);
        // What was sent as an entry, and is not known to be there, is copied without a question.
        assert_eq!(next(0, &mark), (0, 0b1, false));
        assert_eq!(next(2, &mark), (3, u64::MAX, false));
    }

    /// Against counting, in whatever order bits come and go, twice or not.
    #[test]
    fn the_number_of_blocks_is_that_of_the_masks() {
        let mut prng = holdfast_stdx::Prng::from_seed(5);
        let mut mark = Mark::of_everything(Epoch(5), [(PageIndex(0), 0), (PageIndex(1), 0b11)]);
        mark.begin(Epoch(5));
        for number in 1..=2000 {
            let page = PageIndex(prng.below(8) as u32);
            let (first, count) = (prng.below(60) as u32, 1 + prng.below(100) as u32);
            match prng.below(3) {
                0 => mark.note(
                    Sequence(number),
                    BlockRange::new(page.0 * 64 + first, count),
                ),
                1 => mark.has_copy(page, prng.next_u64()),
                _ => mark.begin(Epoch(5)),
            }
            let masks = mark.pages.pages.values();
            assert!(masks.clone().all(|mask| *mask != 0));
            let counted: u64 = masks.map(|mask| u64::from(mask.count_ones())).sum();
            assert_eq!(mark.block_count(), counted);
        }
    }

    #[test]
    fn a_mark_says_what_is_lacking_only_if_it_knows() {
        let mut window = Window::starting_at(Sequence(4));
        window.note(Sequence(5), BlockRange::new(0, 3));
        assert_eq!(window.mark(Sequence(4)).lacking_since(Sequence(4)), Some(3));
        assert_eq!(window.mark(Sequence(2)).lacking_since(Sequence(2)), None);
        let mut lost = Mark::lost(Sequence(2), Epoch(5));
        assert_eq!(lost.lacking_since(Sequence(2)), None);
        lost.fill([], [PageIndex(1)]);
        assert_eq!(lost.lacking_since(Sequence(2)), Some(64));
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
