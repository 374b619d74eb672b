//! Room for pages: what is acknowledged can always be destaged.
//!
//! A page needs room if something in memory may fill it, or if a claim says that something will
//! come; it has room if it has a slot. The pages that need and do not have are `reserved`, and there
//! are never more of them than free slots; what has to move off a device that is drained counts as well.
//!
//! A claim lasts 8 to 16 seconds from its last renewal: no command lives that long.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use holdfast_format::PageKey;
use holdfast_model::{BlockRange, DiskId, PageIndex, SliceId};
use holdfast_stdx::Instant;

use crate::event::{NoSpace, Usage};
use crate::machine::{Core, TWO_LIFETIMES};
use crate::overlay::PartKind;

impl Core {
    pub(crate) fn reserve(&mut self, id: SliceId, range: BlockRange) -> Result<(), NoSpace> {
        self.make_slice(id);
        let pages = range.by_page();
        let missing = pages
            .filter(|(page, _)| !self.is_provided(id, *page))
            .count();
        // A slot that is kept for a page's new contents is its own soon, or free, as the one that it leaves is.
        let available = self.slots_soon_free().saturating_sub(self.promised_slots());
        if missing > available as usize {
            return Err(NoSpace);
        }
        self.claimed = true;
        for (page, _) in range.by_page() {
            let slice = self.slice_mut(id);
            slice.claims[1].remove(&page);
            slice.claims[0].insert(page);
            self.update_reservation(id, page);
        }
        Ok(())
    }

    /// Free slots that nothing has been promised.
    pub(crate) fn unpromised_slots(&self) -> u32 {
        self.pages
            .free_slots()
            .saturating_sub(self.promised_slots())
    }

    fn promised_slots(&self) -> u32 {
        // What is on drained devices has to find room too.
        self.reserved + self.pages.pages_to_move() + self.promised_to_orders()
    }

    /// Free slots, with those that will be when nothing is placed any more.
    pub(crate) fn slots_soon_free(&self) -> u32 {
        self.pages.free_slots() + self.pages.placed_slots()
    }

    pub(crate) fn release_reservations(&mut self, id: SliceId) {
        let Some(slice) = self.slices.get_mut(&id) else {
            return;
        };
        let claims = core::mem::take(&mut slice.claims);
        for page in claims.into_iter().flatten() {
            self.update_reservation(id, page);
        }
    }

    /// Whether the page has a slot, or is certain to get one.
    pub(crate) fn is_provided(&self, id: SliceId, page: PageIndex) -> bool {
        self.has_slot(id, page)
            || self
                .slice(id)
                .is_some_and(|slice| slice.reserved.contains(&page))
    }

    fn has_slot(&self, id: SliceId, page: PageIndex) -> bool {
        let key = PageKey { slice: id, page };
        self.pages.page(key).is_some_and(|view| view.has_slot)
    }

    fn needs_slot(&self, id: SliceId, page: PageIndex) -> bool {
        let slice = self.slice(id).expect("the slice exists");
        if slice.is_claimed(page) {
            return true;
        }
        slice.overlay.get(&page).is_some_and(|overlay| {
            overlay
                .parts()
                .iter()
                .any(|part| part.kind != PartKind::Zero)
                || overlay
                    .unsettled()
                    .any(|(_, item)| self.items[item].fills())
        })
    }

    /// Recounts one page after anything about it has changed.
    pub(crate) fn update_reservation(&mut self, id: SliceId, page: PageIndex) {
        let reserved = self.needs_slot(id, page) && !self.has_slot(id, page);
        let slice = self.slice_mut(id);
        if reserved {
            if slice.reserved.insert(page) {
                self.reserved += 1;
            }
        } else if slice.reserved.remove(&page) {
            self.reserved -= 1;
        }
    }

    /// Lets old claims go.
    pub(crate) fn age_claims(&mut self, now: Instant) {
        if self.claims_turn.is_some_and(|turn| now >= turn) {
            self.claims_turn = None;
            self.claimed = false;
            let ids: Vec<SliceId> = self.slices.keys().copied().collect();
            for id in ids {
                let slice = self.slice_mut(id);
                let young = core::mem::take(&mut slice.claims[0]);
                let old: BTreeSet<PageIndex> = core::mem::replace(&mut slice.claims[1], young);
                self.claimed |= !self.slice_mut(id).claims[1].is_empty();
                for page in old {
                    self.update_reservation(id, page);
                }
            }
        }
        if self.claimed {
            self.claims_turn.get_or_insert(now + TWO_LIFETIMES);
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let pages = u64::from(self.pages.slot_count());
        Usage {
            pages,
            pages_used: pages - u64::from(self.slots_soon_free())
                + u64::from(self.pages.pages_to_move()),
            pages_reserved: u64::from(self.reserved),
            dirty_bytes: self.items.bytes(),
            segments: self.journal.segment_count(),
            segments_used: self.journal.segment_count() - self.journal.free_segments(),
            bad_copies: self.pages.bad_copies(),
            journal: self.journal.checked(),
            cache: self.pages.cache_use(),
        }
    }

    /// The pages of a part of a slice that have committed blocks, with one bit for each block that is
    /// not zero.
    pub(crate) fn allocated(
        &self,
        id: SliceId,
        part: RangeInclusive<PageIndex>,
    ) -> Vec<(PageIndex, u64)> {
        let Some(slice) = self.slice(id) else {
            return Vec::new();
        };
        let mut pages: BTreeMap<PageIndex, u64> = self
            .pages
            .pages_in(id, part.clone())
            .map(|(page, view)| (page, view.mask | view.lost))
            .collect();
        for (page, _) in slice.overlay.range(part) {
            let mask = pages.entry(*page).or_default();
            *mask = self.committed_mask(id, *page, *mask);
        }
        pages.into_iter().filter(|(_, mask)| *mask != 0).collect()
    }

    /// The pages that have committed blocks which are known to be bad, with one bit for each.
    pub(crate) fn bad_blocks(&self, id: SliceId) -> BTreeMap<PageIndex, u64> {
        let Some(slice) = self.slice(id) else {
            return BTreeMap::new();
        };
        let mut bad = self.pages.bad_blocks(id);
        for (page, overlay) in &slice.overlay {
            for part in overlay.parts() {
                if part.kind == PartKind::Bad {
                    *bad.entry(*page).or_default() |= part.mask;
                } else if let Some(mask) = bad.get_mut(page) {
                    *mask &= !part.mask;
                }
            }
        }
        bad.retain(|_, mask| *mask != 0);
        bad
    }

    /// Committed blocks that are known to be bad where they are on a device.
    pub(crate) fn bad_blocks_by_disk(&self) -> BTreeMap<DiskId, u64> {
        let mut bad: BTreeMap<DiskId, u64> = BTreeMap::new();
        for (key, disk, mut mask) in self.pages.suspects() {
            let slice = self.slice(key.slice);
            let overlay = slice.and_then(|slice| slice.overlay.get(&key.page));
            for part in overlay.into_iter().flat_map(|overlay| overlay.parts()) {
                // What counts is in the journal.
                mask &= !part.mask;
            }
            *bad.entry(disk).or_default() += u64::from(mask.count_ones());
        }
        bad
    }

    pub(crate) fn allocated_pages(&self, id: SliceId) -> u64 {
        let Some(slice) = self.slice(id) else {
            return 0;
        };
        let mut count = i64::from(self.pages.page_count(id));
        for page in slice.overlay.keys() {
            let key = PageKey {
                slice: id,
                page: *page,
            };
            let view = self.pages.page(key);
            let mask = view.map_or(0, |view| view.mask | view.lost);
            let is_there = self.committed_mask(id, *page, mask) != 0;
            count += i64::from(is_there) - i64::from(view.is_some());
        }
        u64::try_from(count).expect("no more pages go than there are")
    }

    /// Which blocks of a page are not zero, given which are not in the page store.
    fn committed_mask(&self, id: SliceId, page: PageIndex, mut mask: u64) -> u64 {
        let slice = self.slice(id).expect("the slice exists");
        let Some(overlay) = slice.overlay.get(&page) else {
            return mask;
        };
        for part in overlay.parts() {
            if part.kind == PartKind::Zero {
                mask &= !part.mask;
            } else {
                mask |= part.mask;
            }
        }
        for (rank, item) in overlay.unsettled() {
            let item = &self.items[item];
            if item.entry().is_some() && rank > slice.committed.1 {
                continue;
            }
            let masks = item.masks(page);
            let above = overlay.settled_above(rank);
            mask = (mask & !(masks.zero & !above)) | ((masks.data | masks.bad) & !above);
        }
        mask
    }
}
