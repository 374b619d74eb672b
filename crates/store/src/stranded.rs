//! Changes that cannot be destaged for now: of pages that are lacking, and of those that find no slot because
//! of these, or because a device is absent on which they were promised one.
//!
//! A slot for a lacking page would have the rest of the page bad. As long as the replica counts as one that
//! lacks something it gets none: on the device that is absent, or elsewhere, the page is whole. When the journal's
//! segments are to be used again what is stranded in them is carried forward, as copies of the blocks that
//! it has the last word on.
//!
//! Invariant: of all records that change a block the one with the highest rank stands last in the journal, or is
//! not carried forward yet and pinned. So wherever redo begins it ends with what is right. A copy from another replica
//! that is on its way into the journal is neither: nothing of its pages is carried forward before it is settled.

use holdfast_format::{Body, Install, PageKey};
use holdfast_journal::Footprint;
use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Change, PageIndex, SliceId};
use holdfast_pages::runs_of;
use holdfast_stdx::Instant;

use alloc::vec::Vec;

use crate::install::part_of;
use crate::item::{Effect, Item, ItemId, RECORD_BYTES, SUM_BYTES, Source};
use crate::machine::{Core, Purpose};
use crate::overlay::{PageOverlay, Part, PartKind};
use crate::slice::Slice;

impl Core {
    /// Whether a page is lacking, what the journal has of it is not all of it, and its slice waits for the rest.
    pub(crate) fn stays_lacking(&self, key: PageKey) -> bool {
        let Some(slice) = self.slice(key.slice).filter(|slice| slice.lacks) else {
            return false;
        };
        let is_lacking = self.pages.page(key).is_some_and(|view| !view.has_slot);
        let overlay = slice.overlay.get(&key.page);
        is_lacking && overlay.is_none_or(|overlay| overlay.good_mask() != u64::MAX)
    }

    /// Whether a page gets a slot, or needs one for what is bad, when its settled changes are destaged.
    pub(crate) fn takes_slot(&self, key: PageKey) -> bool {
        let overlay = |id: SliceId| self.slice(id)?.overlay.get(&key.page);
        match self.pages.page(key) {
            Some(view) => !view.has_slot,
            None => overlay(key.slice).is_some_and(|overlay| {
                let mut parts = overlay.parts().iter();
                parts.any(|part| part.kind != PartKind::Zero)
            }),
        }
    }

    /// Whether nothing of a settled item can be destaged before a device is there, or room.
    pub(crate) fn is_stranded(&self, number: ItemId) -> bool {
        // Whatever else needs a slot has one promised, unless what was promised is on a device that is absent.
        if self.pages.lacking() == 0 && self.reserved <= self.pages.free_slots() {
            return false;
        }
        let slice = self.items[number].slice;
        let is_full = self.pages.free_slots() == 0;
        let mut pages = self.pages_with_part(number);
        pages.all(|page| {
            let key = PageKey { slice, page };
            self.stays_lacking(key) || is_full && self.takes_slot(key)
        })
    }

    /// Whether a copy from another replica is on its way into the journal that would stand before older changes of its
    /// pages, if these were carried forward now. One that waits for room comes behind them.
    pub(crate) fn would_overtake_copy(&self, items: &[ItemId]) -> bool {
        let is_overtaken = |slice: &Slice, page: PageIndex| {
            let overlay = slice.overlay.get(&page).into_iter();
            let mut unsettled = overlay.flat_map(PageOverlay::unsettled);
            unsettled.any(|(_, other)| {
                let other = &self.items[other];
                other.entry().is_none() && other.in_journal
            })
        };
        let mut stranded = items.iter().filter(|it| self.destage.is_settled(**it));
        stranded.any(|number| {
            let item = &self.items[*number];
            let slice = self.slice(item.slice).expect("the slice exists");
            // With it goes what follows it and is not settled.
            let following = slice.log.range(item.rank()..);
            let ranges = following.filter_map(|(_, other)| self.items[*other].range());
            let pages = ranges.flat_map(|range| range.by_page().map(|(page, _)| page));
            let mut pages = self.pages_with_part(*number).chain(pages);
            pages.any(|page| is_overtaken(slice, page))
        })
    }

    /// What that takes.
    pub(crate) fn add_stranded(&self, number: ItemId, footprint: &mut Footprint) {
        let id = self.items[number].slice;
        for page in self.pages_with_part(number) {
            let overlay = &self.slice(id).expect("the slice exists").overlay[&page];
            for part in overlay.parts().iter().filter(|part| part.item == number) {
                for (_, count) in runs_of(part.mask) {
                    let blocks = count as usize;
                    footprint.add(RECORD_BYTES + SUM_BYTES * blocks, BLOCK_SIZE * blocks);
                }
            }
        }
    }

    /// Writes again what a stranded item has the last word on.
    pub(crate) fn carry_stranded(&mut self, now: Instant, number: ItemId) {
        let id = self.items[number].slice;
        let pages: Vec<_> = self.pages_with_part(number).collect();
        let mut copies = Vec::new();
        for page in pages {
            let overlay = &self.slice(id).expect("the slice exists").overlay[&page];
            for part in overlay.parts().iter().filter(|part| part.item == number) {
                copies.extend(runs_of(part.mask).map(|(first, count)| {
                    let range = BlockRange::new(page.block(first).0, count);
                    copy_of(&self.items[number], part, range)
                }));
            }
        }
        for copy in copies {
            let Source::Install { as_of, install } = &copy.source else {
                unreachable!("what is stranded is copied as it is");
            };
            let (as_of, install) = (*as_of, install.clone());
            let copy = self.list_item(copy);
            self.carry(
                now,
                id,
                Body::Install { as_of, install },
                Purpose::Item(copy),
            );
        }
    }
}

/// What an item makes of some blocks of one of its parts.
fn copy_of(item: &Item, part: &Part, range: BlockRange) -> Item {
    let install = match (part.kind, item.effect()) {
        (PartKind::Zero, _) => Install::Change(Change::Clear(range)),
        (_, Effect::Bad(_)) => Install::Bad(range),
        (_, Effect::Change(change)) => part_of(&Install::Change(change.clone()), range),
    };
    let as_of = part.rank;
    let mut copy = Item::new(item.slice, Source::Install { as_of, install }, item.since);
    if part.kind == PartKind::Bad {
        let start = item
            .range()
            .expect("an item with a part has blocks")
            .start();
        let bad = item.bad.iter().map(|index| start + index);
        let bad = bad.filter(|block| range.contains(BlockIndex(*block)));
        copy.bad = bad.map(|block| block - range.start()).collect();
    }
    copy
}
