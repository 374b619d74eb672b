//! Whole pages go to the media once: their data to free slots, and only what says where it is into the journal.
//!
//! An entry that writes whole pages has each of them written to a slot that no page has. When all of them are on stable storage its
//! record goes into the journal, and those of its slice that came after it. Destage makes the slot the page's, without touching
//! the data; where a later change has a part of the page by then, it is destaged as all others are, and the slot given back.
//!
//! Invariants:
//! - a record that names a slot is written when the slot has the data, on stable storage;
//! - as long as recovery could need what is in a slot it is given to nobody else: while the entry is neither in pages nor void, and
//!   until the record that says that it is void is durable. An entry that is in pages may be redone all the same, until a group says
//!   that it need not be: what its slot does not have any more the page has, or a later change, which is redone after it;
//! - slots are of the device with the journal: what is lost with them is lost with it.

mod fetch;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use holdfast_format::zero::ZERO_BLOCK_CHECKSUM;
use holdfast_format::{GroupWriter, PageKey, Record};
use holdfast_journal::GroupNumber;
use holdfast_model::{BLOCKS_PER_PAGE, Change, Entry, PAGE_SIZE, SliceId};
use holdfast_pages::{PageJob, PageWork};
use holdfast_stdx::Instant;

use crate::destage::Taken;
use crate::item::{Effect, ItemId, PlacedPage};
use crate::machine::{Core, Purpose};
use crate::overlay::Part;
use crate::requests::Urgency;

pub(crate) use fetch::Fetch;

/// Entries whose data is on its way to slots.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    /// How many pages are, and of which slice. Such an entry may have become void.
    items: BTreeMap<ItemId, (SliceId, u32)>,
}

/// How much a recovery would have to read from slots, of one partition.
#[derive(Debug, Default)]
pub(crate) struct PlacedLog {
    groups: VecDeque<(GroupNumber, u64)>,
    bytes: u64,
}

impl PlacedLog {
    /// A record of this group has so many bytes in slots.
    pub(crate) fn add(&mut self, group: GroupNumber, bytes: u64) {
        if bytes > 0 {
            self.groups.push_back((group, bytes));
            self.bytes += bytes;
        }
    }

    /// What is before this group is not redone.
    pub(crate) fn forget_before(&mut self, redo_from: GroupNumber) {
        while let Some((group, bytes)) = self.groups.front()
            && *group < redo_from
        {
            self.bytes -= bytes;
            self.groups.pop_front();
        }
    }
}

impl Core {
    /// Takes slots for the data of an entry, one for each page; none at all if it has to go into the journal.
    pub(crate) fn place(&mut self, id: SliceId, entry: &Entry) -> Vec<Option<PlacedPage>> {
        let pages = pages_of(&entry.change);
        if pages == 0 || !self.may_place(id, pages) {
            return Vec::new();
        }
        let (journal, _) = &self.devices.members[0];
        let disk = journal.disk;
        let mut slots = Vec::new();
        for _ in 0..pages {
            let Some(slot) = self.pages.place(disk) else {
                break;
            };
            slots.push(slot);
        }
        if slots.len() < pages {
            slots
                .into_iter()
                .for_each(|slot| self.pages.give_back(slot));
            return Vec::new();
        }
        let is_whole = true;
        let placed = slots.into_iter();
        placed
            .map(|slot| Some(PlacedPage { slot, is_whole }))
            .collect()
    }

    fn may_place(&mut self, id: SliceId, pages: usize) -> bool {
        // What has come from an absent device's pages is put together first, and a journal that moves leaves nothing behind.
        let lacks = self.slice(id).is_none_or(|slice| slice.lacks);
        if lacks || self.journal.has_copy() || !self.has_room() || !self.waiting.is_empty() {
            return false;
        }
        let to_read: u64 = self.partitions.iter().map(|state| state.placed.bytes).sum();
        if to_read + pages as u64 * PAGE_SIZE as u64 > 2 * self.dirty_bytes_max() {
            self.tell_redo();
            return false;
        }
        self.unpromised_slots() as usize >= pages
    }

    /// Has partitions say that less has to be redone, where that is so and nothing else would say it.
    fn tell_redo(&mut self) {
        for (partition, state) in (0..).zip(&self.partitions) {
            let oldest = state.placed.groups.front().map(|(group, _)| *group);
            if oldest < Some(self.journal.redo_from(partition)) && oldest.is_some() {
                self.journal.force(partition);
            }
        }
    }

    /// Begins to write the data of an entry to its slots, if it has any.
    pub(crate) fn write_slots(&mut self, number: ItemId) {
        let item = &self.items[number];
        if item.slots.is_empty() {
            return;
        }
        let Effect::Change(Change::Write { data, .. }) = item.effect() else {
            unreachable!("only writes have slots");
        };
        let mut requests = Vec::new();
        for (place, page) in item.slots.iter().flatten().enumerate() {
            let data = data.slice(place * PAGE_SIZE..(place + 1) * PAGE_SIZE);
            self.pages
                .write_placed(page.slot, data, number.0, &mut requests);
        }
        let pages = requests.len() as u32;
        self.placing.items.insert(number, (item.slice, pages));
        self.push_pages(requests, Urgency::Group);
    }

    /// A page of an entry is in its slot; with the last of them its record may be written, and what waited behind it.
    pub(crate) fn placed_is_down(&mut self, number: ItemId) {
        let known = self.placing.items.get_mut(&number);
        let (id, left) = known.expect("data is on its way");
        let id = *id;
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.placing.items.remove(&number);
        self.release_held(id);
    }

    /// Gives the journal what is held in a slice, as far as there is the data that it tells of.
    pub(crate) fn release_held(&mut self, id: SliceId) {
        while let Some(slice) = self.slices.get_mut(&id)
            && let Some((tag, record)) = slice.held.pop_front()
        {
            if self.awaits_data(tag) {
                self.slice_mut(id).held.push_front((tag, record));
                break;
            }
            self.no_longer_held(&record);
            self.give_to_journal(tag, record);
        }
    }

    /// Gives a record to the journal, in the slice's order, when the data is there that it tells of.
    pub(crate) fn hand_over(&mut self, tag: u64, record: Record) {
        let awaits_data = self.awaits_data(tag);
        let slice = self.slice_mut(record.slice);
        if awaits_data || !slice.held.is_empty() {
            slice.waiting += 1;
            let partition = usize::from(slice.partition);
            let (header, data) = GroupWriter::size(&record);
            slice.held.push_back((tag, record));
            self.partitions[partition].held.add(header, data);
        } else {
            self.give_to_journal(tag, record);
        }
    }

    /// A record was taken out of those that are held in its slice.
    pub(crate) fn no_longer_held(&mut self, record: &Record) {
        let slice = self.slice_mut(record.slice);
        slice.waiting -= 1;
        let partition = usize::from(slice.partition);
        let (header, data) = GroupWriter::size(record);
        self.partitions[partition].held.remove(header, data);
    }

    fn awaits_data(&self, tag: u64) -> bool {
        let item = match &self.records[&tag].purpose {
            Purpose::Item(item) => item,
            _ => return false,
        };
        self.placing.items.contains_key(item)
    }

    /// Writes undecided entries into the journal whose slots are on a device that is to become empty: nobody knows when they are
    /// decided. The slots are given back when that is durable.
    pub(crate) fn take_out_of_slots(&mut self, now: Instant, partition: u16) {
        let state = &self.partitions[usize::from(partition)];
        let is_busy = state.carrying > 0 || state.dropping > 0 || state.unfinished.is_some();
        if is_busy || !self.pages.has_placed_to_move() {
            return;
        }
        let items = state.items.iter().map(|(_, item)| *item);
        let items: Vec<ItemId> = items
            .filter(|number| self.has_to_leave_slots(*number))
            .collect();
        // With them goes what follows them in their slices.
        let copies = self.footprint_to_carry(&items, true);
        if items.is_empty() || !self.has_room_to_carry(partition, &copies) {
            return;
        }
        for number in &items {
            let item = self.items.get_mut(*number).expect("a living item");
            item.leaves_slots = true;
        }
        self.carry_items(now, partition, &items);
    }

    fn has_to_leave_slots(&self, number: ItemId) -> bool {
        let item = &self.items[number];
        let committed = self.slice(item.slice).map(|slice| slice.committed.1);
        let mut slots = item.slots.iter().flatten();
        item.durable
            && committed < Some(item.rank())
            && slots.any(|page| self.pages.is_to_move(page.slot))
    }

    /// What is to be done with a page all of which one entry has, in a slot that the page can have.
    pub(crate) fn adoption(&self, key: PageKey, parts: &[Part]) -> Option<PageWork> {
        let [part] = parts else {
            return None;
        };
        let item = &self.items[part.item];
        let slot = item.whole_slot_of(key.page)?;
        if part.mask != u64::MAX || !self.pages.may_adopt(slot) {
            return None;
        }
        let Effect::Change(Change::Write {
            start, checksums, ..
        }) = item.effect()
        else {
            return None;
        };
        let first = (key.page.block(0).0 - start.0) as usize;
        let checksums = checksums[first..].first_chunk()?;
        Some(PageWork::Adopt {
            slot,
            checksums: Box::new(*checksums),
        })
    }

    /// The slots are the pages' from now on.
    pub(crate) fn leave_adopted(&mut self, taken: &[Taken], jobs: &[PageJob]) {
        for (taken, job) in taken.iter().zip(jobs) {
            if matches!(job.work, PageWork::Adopt { .. }) {
                let item = self.items.get_mut(taken.parts[0].item);
                item.expect("a part's item lives")
                    .leave_slot_of(job.key.page);
            }
        }
    }
}

/// How many pages a change writes, if it writes all of each of them and nothing of that is zeros.
fn pages_of(change: &Change) -> usize {
    let Change::Write {
        start, checksums, ..
    } = change
    else {
        return 0;
    };
    let count = checksums.len();
    let is_of_pages =
        start.0.is_multiple_of(BLOCKS_PER_PAGE) && count.is_multiple_of(BLOCKS_PER_PAGE as usize);
    if !is_of_pages || checksums.contains(&ZERO_BLOCK_CHECKSUM) {
        return 0;
    }
    count / BLOCKS_PER_PAGE as usize
}
