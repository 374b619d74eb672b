//! The map from page to slot, and what is done with it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use holdfast_format::{PageKey, PageSet, SlotContent};
use holdfast_model::{
    DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken, PAGES_PER_SLICE, PageIndex, Sequence,
    SliceId,
};

use crate::ahead::{self, Ahead};
use crate::block_cache::{BlockCache, CacheUse};
use crate::cache::{TableBlock, TableCache};
use crate::check::Checks;
use crate::map::{SlicePages, pages_of_row};
use crate::place::{PagesPlace, TableBlockId};
use crate::placed::Placed;
use crate::read::{Loading, Reads};
use crate::round::{Round, ZOMBIES_PER_ROUND};
use crate::slots::Slots;
use crate::{PagesEvent, PagesFailed};

/// No slot: a page that is known to have existed and of which nothing is left.
pub(crate) const NO_SLOT: u32 = u32::MAX;
/// Bits of a version that count within one start; the others are the store's use counter.
const VERSION_BITS: u32 = 40;

/// A page in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageState {
    pub(crate) slot: u32,
    pub(crate) version: u64,
    pub(crate) written: Sequence,
    pub(crate) mask: u64,
}

/// Memory that spares reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesMemory {
    /// Bytes of the page table that are kept, at least 64 KiB.
    pub table_bytes: u64,
    /// Bytes of blocks that are kept, with what it costs to find them; none if it is less than a few. An eighth, and 16 MiB at most, is
    /// for what is read ahead.
    pub block_bytes: u64,
}

/// What is known of a page without reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageView {
    /// Blocks that are there.
    pub mask: u64,
    /// Blocks that are lost.
    pub lost: u64,
    /// No entry above this is in the page.
    pub written: Sequence,
    /// Whether the page has a slot.
    pub has_slot: bool,
}

/// Whose request a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A run of blocks for a read.
    Run { read: u64, run: usize },
    /// One copy of a table block.
    Table { block: TableBlockId, copy: usize },
    /// Blocks of a page that moves.
    Fetch(usize),
    /// One copy of a page's entry.
    Check(u64),
    /// A write or a flush of the round.
    Round,
    /// The write of a page to a slot that no page has yet.
    Placed { slot: u32, id: u64 },
}

/// The page store.
#[derive(Debug)]
pub struct Pages {
    pub(crate) place: PagesPlace,
    pub(crate) map: BTreeMap<SliceId, SlicePages>,
    /// Lost blocks of the few pages that have some.
    pub(crate) lost: BTreeMap<PageKey, u64>,
    /// Blocks that are there and did not match their checksum when they were last seen.
    pub(crate) suspect: BTreeMap<PageKey, u64>,
    pub(crate) slots: Slots,
    /// Slots whose entry names a page that is elsewhere, or that the slice does not have any more.
    pub(crate) zombies: Vec<u32>,
    pub(crate) cache: TableCache,
    pub(crate) block_cache: BlockCache,
    pub(crate) ahead: Ahead,
    pub(crate) loading: BTreeMap<TableBlockId, Loading>,
    pub(crate) reads: Reads,
    pub(crate) checks: Checks,
    pub(crate) placed: BTreeMap<u32, Placed>,
    pub(crate) round: Option<Round>,
    pub(crate) asked: BTreeMap<DiskToken, Asked>,
    /// Pages of the map without a slot.
    lacking: u32,
    next_token: u64,
    next_version: u64,
}

impl Pages {
    pub(crate) fn new(place: PagesPlace, memory: PagesMemory) -> Self {
        let slots = Slots::new(&place);
        let ahead_bytes = ahead::share_of(memory.block_bytes);
        let next_version = place.use_counter << VERSION_BITS;
        Self {
            place,
            map: BTreeMap::new(),
            lost: BTreeMap::new(),
            suspect: BTreeMap::new(),
            slots,
            zombies: Vec::new(),
            cache: TableCache::new(memory.table_bytes),
            block_cache: BlockCache::new(memory.block_bytes - ahead_bytes),
            ahead: Ahead::new(ahead_bytes),
            loading: BTreeMap::new(),
            reads: Reads::default(),
            checks: Checks::default(),
            placed: BTreeMap::new(),
            round: None,
            asked: BTreeMap::new(),
            lacking: 0,
            next_token: 0,
            next_version,
        }
    }

    /// What the memory of blocks has done.
    #[must_use]
    pub fn cache_use(&self) -> CacheUse {
        let (ahead_used, ahead_unused) = self.ahead.usage();
        CacheUse {
            ahead_used,
            ahead_unused,
            ..self.block_cache.usage()
        }
    }

    /// What is known of a page; nothing of one that does not exist.
    #[must_use]
    pub fn page(&self, key: PageKey) -> Option<PageView> {
        let state = self.state(key)?;
        Some(self.view(key, state))
    }

    fn view(&self, key: PageKey, state: PageState) -> PageView {
        PageView {
            mask: state.mask,
            lost: self.lost.get(&key).copied().unwrap_or(0),
            written: state.written,
            has_slot: state.slot != NO_SLOT,
        }
    }

    /// The pages of a slice with blocks that are lost, or did not match their checksum when they were
    /// last seen: one bit for each such block.
    #[must_use]
    pub fn bad_blocks(&self, slice: SliceId) -> BTreeMap<PageIndex, u64> {
        let key = |page| PageKey { slice, page };
        let all = key(PageIndex(0))..=key(PageIndex(PAGES_PER_SLICE - 1));
        let mut bad = BTreeMap::new();
        for (key, mask) in self.lost.range(all.clone()).chain(self.suspect.range(all)) {
            *bad.entry(key.page).or_default() |= mask;
        }
        bad
    }

    /// Blocks of pages in their slots that did not match their checksum when they were last seen: on which device,
    /// with one bit for each.
    pub fn suspects(&self) -> impl Iterator<Item = (PageKey, DiskId, u64)> {
        self.suspect.iter().filter_map(|(key, mask)| {
            let slot = self.state(*key)?.slot;
            let device = (slot != NO_SLOT).then(|| self.place.device_of_slot(slot))?;
            Some((*key, device.disk, *mask))
        })
    }

    /// The pages of a slice, in order.
    pub fn pages(&self, slice: SliceId) -> impl Iterator<Item = (PageIndex, PageView)> {
        self.pages_in(slice, PageIndex(0)..=PageIndex(PAGES_PER_SLICE - 1))
    }

    /// The pages of a part of a slice, in order.
    pub fn pages_in(
        &self,
        slice: SliceId,
        range: RangeInclusive<PageIndex>,
    ) -> impl Iterator<Item = (PageIndex, PageView)> {
        self.map
            .get(&slice)
            .into_iter()
            .flat_map(move |pages| pages.range(range.clone()))
            .map(move |(page, state)| (page, self.view(PageKey { slice, page }, state)))
    }

    /// How many pages a slice has.
    #[must_use]
    pub fn page_count(&self, slice: SliceId) -> u32 {
        self.map.get(&slice).map_or(0, SlicePages::len)
    }

    /// The slices that have pages.
    pub fn slices(&self) -> impl Iterator<Item = SliceId> {
        self.map.keys().copied()
    }

    /// Slots that no page has, of the devices that are not drained; one that a round has taken counts until its page is in the map
    /// with it, and then the one that the page has left.
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.slots.free() + self.round.as_ref().map_or(0, Round::between)
    }

    /// All slots of the devices that are not drained.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        self.place.slot_count()
    }

    /// Takes the set of pages that a slice must have, as its owner has logged it: those that the
    /// table does not have are lost, and nothing above `written` had been done to them. Those that the
    /// table has beyond the set are left over from a round that did not end: they go, because what the round wrote is redone from the journal;
    /// unless the log itself is incomplete (`certain` is false), when nothing is thrown away.
    pub fn prove(&mut self, slice: SliceId, set: &PageSet, certain: bool, written: Sequence) {
        for (row, wanted) in (0..).zip(set.words()) {
            let there = self.map.get(&slice).map_or(0, |pages| pages.row(row));
            for page in pages_of_row(row, wanted & !there) {
                let key = PageKey { slice, page };
                let state = PageState {
                    slot: NO_SLOT,
                    version: 0,
                    written,
                    mask: 0,
                };
                self.set_state(key, Some(state));
                self.lost.insert(key, u64::MAX);
            }
            let beyond = if certain { there & !wanted } else { 0 };
            for page in pages_of_row(row, beyond) {
                let key = PageKey { slice, page };
                let state = self.set_state(key, None).expect("a page of the map");
                self.zombies.push(state.slot);
                self.lost.remove(&key);
                self.suspect.remove(&key);
            }
        }
    }

    /// Pages that are known to exist and have no slot.
    #[must_use]
    pub fn lacking(&self) -> u32 {
        self.lacking
    }

    /// Those of a slice, in order.
    pub fn lacking_in(&self, slice: SliceId) -> impl Iterator<Item = PageIndex> {
        let key = |page| PageKey { slice, page };
        let all = key(PageIndex(0))..=key(PageIndex(PAGES_PER_SLICE - 1));
        // All of their blocks are lost.
        let lost = self.lost.range(all).map(|(key, _)| *key);
        lost.filter(|key| self.state(*key).is_some_and(|it| it.slot == NO_SLOT))
            .map(|key| key.page)
    }

    /// Whether the table has more entries to be cleared than one round clears. Then nothing may be written
    /// before: what is left over of a page is to be gone when the page is written in another slot, for that
    /// one's device may be away some day.
    #[must_use]
    pub fn must_clear(&self) -> bool {
        self.zombies.len() > ZOMBIES_PER_ROUND || self.has_named()
    }

    /// Whether the table has entries that a round should clear, although there may be no page to
    /// write.
    #[must_use]
    pub fn has_leftovers(&self) -> bool {
        !self.zombies.is_empty()
    }

    /// Whether the table has copies that a round should write again.
    #[must_use]
    pub fn has_bad_copies(&self) -> bool {
        !self.checks.bad.is_empty()
    }

    /// Takes the end of a request.
    ///
    /// # Errors
    /// [`PagesFailed`] if a write or a flush failed; a failed read is told to whoever asked.
    pub fn handle(
        &mut self,
        completion: DiskCompletion,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) -> Result<(), PagesFailed> {
        let asked = self
            .asked
            .remove(&completion.token)
            .expect("every request in flight is known");
        match asked {
            Asked::Run { read, run } => {
                self.take_run(read, run, completion.result, requests, events);
            }
            Asked::Table { block, copy } => {
                self.take_table(block, copy, completion.result, requests);
                self.reads_go_on(requests, events);
                self.round_goes_on(requests, events);
            }
            Asked::Fetch(number) => {
                self.take_fetch(number, completion.result, requests, events);
            }
            Asked::Check(number) => self.take_check(number, completion.result),
            Asked::Placed { slot, id } => {
                completion.result.map_err(|_| PagesFailed)?;
                self.placed_is_down(slot);
                events.push(PagesEvent::Placed { id });
            }
            Asked::Round => {
                completion.result.map_err(|_| PagesFailed)?;
                self.round_step_done(requests, events);
            }
        }
        Ok(())
    }

    pub(crate) fn state(&self, key: PageKey) -> Option<PageState> {
        self.map.get(&key.slice)?.get(key.page)
    }

    /// Puts a page into the map or takes it out of it, and tells what was there before.
    pub(crate) fn set_state(
        &mut self,
        key: PageKey,
        state: Option<PageState>,
    ) -> Option<PageState> {
        let pages = self.map.entry(key.slice).or_default();
        let before = match state {
            Some(state) => pages.insert(key.page, state),
            None => pages.remove(key.page),
        };
        if pages.is_empty() {
            self.map.remove(&key.slice);
        }
        let lacks = |state: Option<PageState>| state.is_some_and(|it| it.slot == NO_SLOT);
        self.lacking += u32::from(lacks(state));
        self.lacking -= u32::from(lacks(before));
        before
    }

    pub(crate) fn next_version(&mut self) -> u64 {
        self.next_version += 1;
        self.next_version
    }

    pub(crate) fn ask(
        &mut self,
        asked: Asked,
        disk: DiskId,
        op: DiskOp,
        requests: &mut Vec<DiskRequest>,
    ) {
        let token = DiskToken(self.place.token_base + self.next_token);
        self.next_token += 1;
        self.asked.insert(token, asked);
        requests.push(DiskRequest { token, disk, op });
    }

    /// Whether a slot's entry names no page, as far as memory knows.
    pub(crate) fn has_no_page(&self, slot: u32) -> bool {
        self.slots.is_free(slot)
            || self
                .placed
                .get(&slot)
                .is_some_and(|placed| !placed.is_named)
    }

    /// Whether an entry is the one that memory expects of its slot.
    pub(crate) fn is_current(&self, block: &TableBlock, slot: u32) -> bool {
        match block.entry(slot) {
            None => self.has_no_page(slot),
            Some(entry) => match &entry.content {
                SlotContent::Free => self.has_no_page(slot),
                SlotContent::Page { key, .. } => self
                    .state(*key)
                    .is_some_and(|state| state.slot == slot && state.version == entry.version),
            },
        }
    }
}
