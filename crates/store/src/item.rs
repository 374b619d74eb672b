//! Changes that are in the journal and not yet in pages.
//!
//! Invariants:
//! - an item lives while the log or a part of the overlay refers to it, and while it lives its
//!   group is pinned in the journal and its bytes count as dirty;
//! - items are numbered in the order in which they were asked for.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::zero::{ZERO_BLOCK_CHECKSUM, is_zero_block};
use holdfast_format::{Body, Install};
use holdfast_journal::GroupNumber;
use holdfast_model::{
    BLOCK_SIZE, BLOCKS_PER_PAGE, BlockRange, Change, Entry, PageIndex, Sequence, SliceId,
};
use holdfast_pages::Paint;
use holdfast_stdx::Instant;

/// What an item costs beside its data: itself and its places in indexes.
const ITEM_COST: u64 = 512;
/// Bytes of a change's record without its checksums, at most.
pub(crate) const RECORD_BYTES: usize = 104;
/// Bytes of a checksum, or of a slot's number.
pub(crate) const SUM_BYTES: usize = 4;
/// What each page costs that an item touches.
const PAGE_COST: u64 = 96;

/// An item's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ItemId(pub(crate) u64);

/// Where a change comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Entry(Entry),
    Install { as_of: Sequence, install: Install },
}

/// What a change does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect<'a> {
    Change(&'a Change),
    Bad(BlockRange),
}

/// A slot that has a page of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedPage {
    pub(crate) slot: u32,
    /// All of the page is there as it was written.
    pub(crate) is_whole: bool,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) slice: SliceId,
    pub(crate) source: Source,
    /// Blocks of the change whose data was bad when the journal was read, counted from its first.
    pub(crate) bad: Vec<u32>,
    /// The slots that are kept for it, one for each page, if its data is not in the journal. One that a page has adopted is not.
    pub(crate) slots: Vec<Option<PlacedPage>>,
    /// Its data is on the way into the journal.
    pub(crate) leaves_slots: bool,
    /// The group with its newest durable copy in the journal, or the one being written.
    pub(crate) group: Option<GroupNumber>,
    /// Its record does not wait for room any more.
    pub(crate) in_journal: bool,
    pub(crate) durable: bool,
    pub(crate) references: u32,
    pub(crate) cost: u64,
    pub(crate) since: Instant,
}

/// The blocks of one page that an item touches, by what it makes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    pub(crate) data: u64,
    pub(crate) zero: u64,
    pub(crate) bad: u64,
}

impl Masks {
    pub(crate) fn all(self) -> u64 {
        self.data | self.zero | self.bad
    }
}

impl Source {
    /// The sequence as of which its blocks are what it makes them: of two changes the one with the
    /// higher rank counts.
    pub(crate) fn rank(&self) -> Sequence {
        match self {
            Self::Entry(entry) => entry.sequence,
            Self::Install { as_of, .. } => *as_of,
        }
    }

    pub(crate) fn effect(&self) -> Effect<'_> {
        match self {
            Self::Entry(entry) => Effect::Change(&entry.change),
            Self::Install {
                install: Install::Change(change),
                ..
            } => Effect::Change(change),
            Self::Install {
                install: Install::Bad(range),
                ..
            } => Effect::Bad(*range),
        }
    }

    pub(crate) fn range(&self) -> Option<BlockRange> {
        match self.effect() {
            Effect::Change(change) => change.range(),
            Effect::Bad(range) => Some(range),
        }
    }
}

impl Item {
    pub(crate) fn new(slice: SliceId, source: Source, since: Instant) -> Self {
        Self {
            slice,
            source,
            bad: Vec::new(),
            slots: Vec::new(),
            leaves_slots: false,
            group: None,
            in_journal: false,
            durable: false,
            references: 0,
            cost: 0,
            since,
        }
    }

    /// That of its change.
    pub(crate) fn rank(&self) -> Sequence {
        self.source.rank()
    }

    pub(crate) fn entry(&self) -> Option<&Entry> {
        match &self.source {
            Source::Entry(entry) => Some(entry),
            Source::Install { .. } => None,
        }
    }

    /// Its record.
    pub(crate) fn body(&self) -> Body {
        match self.source.clone() {
            Source::Entry(entry) if self.is_placed() => Body::Placed {
                entry,
                slots: self.slots.iter().flatten().map(|page| page.slot).collect(),
            },
            Source::Entry(entry) => Body::Entry(entry),
            Source::Install { as_of, install } => Body::Install { as_of, install },
        }
    }

    /// What its record takes in a header, and of data, at most; `with_data` if that is not to stay in slots.
    pub(crate) fn record_bytes(&self, with_data: bool) -> (usize, usize) {
        let change = match self.effect() {
            Effect::Change(change) => change,
            Effect::Bad(_) => return (RECORD_BYTES, 0),
        };
        let data = change.data_bytes();
        let header = RECORD_BYTES + SUM_BYTES * (data / BLOCK_SIZE + self.slots.len());
        let is_in_slots = self.is_placed() && !with_data;
        (header, if is_in_slots { 0 } else { data })
    }

    /// Whether all of its data is in slots that are kept for it.
    pub(crate) fn is_placed(&self) -> bool {
        let is_whole = |page: &Option<PlacedPage>| page.is_some_and(|page| page.is_whole);
        !self.slots.is_empty() && !self.leaves_slots && self.slots.iter().all(is_whole)
    }

    /// The slot that is kept for it and has all of this page.
    pub(crate) fn whole_slot_of(&self, page: PageIndex) -> Option<u32> {
        let kept = *self.slots.get(self.place_of(page)?)?;
        kept.filter(|kept| kept.is_whole).map(|kept| kept.slot)
    }

    /// The page is in its place: the slot is kept for it no longer.
    pub(crate) fn leave_slot_of(&mut self, page: PageIndex) {
        let place = self.place_of(page).expect("the page is one of its own");
        self.slots[place] = None;
    }

    /// Which of its pages this is.
    fn place_of(&self, page: PageIndex) -> Option<usize> {
        let first = self.range()?.start() / BLOCKS_PER_PAGE;
        page.0.checked_sub(first).map(|place| place as usize)
    }

    pub(crate) fn effect(&self) -> Effect<'_> {
        self.source.effect()
    }

    pub(crate) fn range(&self) -> Option<BlockRange> {
        self.source.range()
    }

    /// Whether it may leave something in a page, so that the page needs a slot.
    pub(crate) fn fills(&self) -> bool {
        matches!(
            self.effect(),
            Effect::Change(Change::Write { .. }) | Effect::Bad(_)
        )
    }

    /// What it does to `page`.
    pub(crate) fn masks(&self, page: PageIndex) -> Masks {
        let mut masks = Masks::default();
        let part = self
            .range()
            .and_then(|range| range.intersection(BlockRange::page(page)));
        let Some(part) = part else {
            return masks;
        };
        match self.effect() {
            Effect::Bad(_) => masks.bad = part.page_mask(),
            Effect::Change(Change::Write {
                start,
                data,
                checksums,
            }) => {
                for block in part.blocks() {
                    let index = (block.0 - start.0) as usize;
                    let bit = 1 << block.within_page();
                    let bytes = &data[index * BLOCK_SIZE..(index + 1) * BLOCK_SIZE];
                    if self.was_zero(index, checksums[index], bytes) {
                        masks.zero |= bit;
                    } else if self.is_bad(index) {
                        masks.bad |= bit;
                    } else {
                        masks.data |= bit;
                    }
                }
            }
            Effect::Change(_) => masks.zero = part.page_mask(),
        }
        masks
    }

    /// What it makes of one block that is in its range.
    pub(crate) fn paint(&self, page: PageIndex, within_page: u32) -> Paint {
        let block = page.block(within_page);
        match self.effect() {
            Effect::Bad(_) => Paint::Bad(None),
            Effect::Change(Change::Write {
                start,
                data,
                checksums,
            }) => {
                let index = (block.0 - start.0) as usize;
                let checksum = checksums[index];
                let data = data.slice(index * BLOCK_SIZE..(index + 1) * BLOCK_SIZE);
                if self.was_zero(index, checksum, &data) {
                    Paint::Zero
                } else if self.is_bad(index) {
                    Paint::Bad(Some(checksum))
                } else {
                    Paint::Data { data, checksum }
                }
            }
            Effect::Change(_) => Paint::Zero,
        }
    }

    fn is_bad(&self, index: usize) -> bool {
        !self.bad.is_empty() && self.bad.contains(&(index as u32))
    }

    /// Whether a block of its data was zeros when it was written: of one that has rotted the checksum says so.
    fn was_zero(&self, index: usize, checksum: u32, bytes: &[u8]) -> bool {
        let rotted = || checksum == ZERO_BLOCK_CHECKSUM && self.is_bad(index);
        is_zero_block(checksum, bytes) || rotted()
    }

    fn cost_with(&self, page_count: usize) -> u64 {
        let data = match self.effect() {
            Effect::Change(change) => change.data_bytes() as u64,
            Effect::Bad(_) => 0,
        };
        ITEM_COST + data + PAGE_COST * page_count as u64
    }
}

/// All items.
#[derive(Debug, Default)]
pub(crate) struct Items {
    items: BTreeMap<ItemId, Item>,
    next: u64,
    bytes: u64,
}

impl Items {
    /// Adds an item that touches `page_count` pages. It lives on one reference, the log's.
    pub(crate) fn add(&mut self, mut item: Item, page_count: usize) -> ItemId {
        let id = ItemId(self.next);
        self.next += 1;
        item.references = 1;
        item.cost = item.cost_with(page_count);
        self.bytes += item.cost;
        self.items.insert(id, item);
        id
    }

    pub(crate) fn get(&self, id: ItemId) -> Option<&Item> {
        self.items.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ItemId) -> Option<&mut Item> {
        self.items.get_mut(&id)
    }

    /// Adds `count` references.
    pub(crate) fn refer(&mut self, id: ItemId, count: u32) {
        let item = self.items.get_mut(&id).expect("a living item");
        item.references += count;
    }

    /// Takes a reference away; gives the item if it was the last.
    pub(crate) fn release(&mut self, id: ItemId) -> Option<Item> {
        let item = self.items.get_mut(&id).expect("a living item");
        assert!(item.references > 0, "an item lives on references");
        item.references -= 1;
        if item.references > 0 {
            return None;
        }
        let item = self.items.remove(&id).expect("it was just there");
        self.bytes -= item.cost;
        Some(item)
    }

    /// What all items cost.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl core::ops::Index<ItemId> for Items {
    type Output = Item;

    fn index(&self, id: ItemId) -> &Item {
        &self.items[&id]
    }
}

const _: () = assert!(BLOCKS_PER_PAGE == 64, "masks have one bit a block");

#[cfg(test)]
mod tests {
    use alloc::vec;

    use holdfast_format::{GroupWriter, Record};
    use holdfast_model::{BLOCKS_PER_PAGE, BlockIndex, Epoch, Fence, VolumeId};
    use holdfast_stdx::Bytes;

    use super::*;

    /// What is counted for a record before it is made is what the format makes of it, or a little more.
    #[test]
    fn records_take_no_more_than_is_counted() {
        let slice = SliceId {
            volume: VolumeId(1),
            index: 0,
        };
        let range = BlockRange::new(0, 2 * BLOCKS_PER_PAGE);
        let data = Bytes::from(vec![1; range.count() as usize * BLOCK_SIZE]);
        let write = Change::write(BlockIndex(range.start()), data);
        let entry = |change| {
            Source::Entry(Entry {
                epoch: Epoch(1),
                sequence: Sequence(1),
                fence: Fence(0),
                command: Default::default(),
                change,
            })
        };
        let install = |install| Source::Install {
            as_of: Sequence(1),
            install,
        };
        let sources = [
            entry(write.clone()),
            entry(Change::Clear(range)),
            entry(Change::Nothing),
            install(Install::Change(write.clone())),
            install(Install::Bad(range)),
            entry(write),
        ];
        let last = sources.len() - 1;
        for (number, source) in sources.into_iter().enumerate() {
            let mut item = Item::new(slice, source, Instant::ZERO);
            if number == last {
                let whole = |slot| {
                    Some(PlacedPage {
                        slot,
                        is_whole: true,
                    })
                };
                item.slots = vec![whole(1), whole(2)];
                assert!(item.is_placed());
            }
            let record = Record {
                slice,
                committed: Sequence::ZERO,
                body: item.body(),
            };
            let (header, data) = GroupWriter::size(&record);
            let (counted, counted_data) = item.record_bytes(false);
            assert!(
                (header..header + 64).contains(&counted),
                "{number}: {header}, {counted}"
            );
            assert_eq!(data, counted_data, "{number}");
        }
    }
}
