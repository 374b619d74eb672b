//! Copies that power failed between, found when the store is opened.
//!
//! What is carried forward is right together only: of the records that change a block the last one in the
//! journal is to be the latest. Where power has failed between the copies, an older one may stand behind a
//! later change. As long as redo begins before both of them that does no harm; so it does, until the
//! copies that are missing are written, too.
//!
//! That is at once, before anything else happens to the slice, if the journal has the room that this takes: it
//! keeps some for what makes room. Otherwise it is as soon as it has, with what has come since.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use holdfast_format::{Body, Install};
use holdfast_journal::{Footprint, GroupNumber};
use holdfast_model::{Change, Entry, Sequence, SliceId};
use holdfast_stdx::Instant;

use crate::item::{Item, ItemId};
use crate::machine::{Core, Purpose};

/// What is to be written again, of one partition.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// The oldest group with something of it, which is pinned.
    hold: GroupNumber,
    slices: BTreeSet<SliceId>,
    /// Meanwhile items may have come into their pages.
    copies: Vec<Copy>,
    /// The group that was to come next when the store was opened: what is in the wrong order is before it.
    end: GroupNumber,
}

impl Unfinished {
    /// Whether the segment that ends with `last` is held for it.
    pub(crate) fn holds(&self, last: GroupNumber) -> bool {
        self.hold <= last
    }

    fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::default();
        for copy in &self.copies {
            footprint.add(copy.bytes.0, copy.bytes.1);
        }
        footprint
    }
}

#[derive(Debug)]
struct Copy {
    slice: SliceId,
    rank: Sequence,
    item: ItemId,
    body: Body,
    /// What its record takes in a header, and of data.
    bytes: (usize, usize),
}

impl Copy {
    fn of(number: ItemId, item: &Item) -> Self {
        Self {
            slice: item.slice,
            rank: item.rank(),
            item: number,
            body: item.body(),
            // With data that is in slots: once it is committed it is carried as what it installs.
            bytes: item.record_bytes(true),
        }
    }
}

impl Core {
    /// A change has come to a slice some of which is to be carried forward again: it belongs behind that.
    pub(crate) fn follow_unfinished(&mut self, number: ItemId) {
        let item = &self.items[number];
        let mut unfinished = self.partitions.iter_mut().flat_map(|it| &mut it.unfinished);
        if let Some(unfinished) = unfinished.find(|it| it.slices.contains(&item.slice)) {
            unfinished.copies.push(Copy::of(number, item));
        }
    }

    /// Has these items of a slice carried forward again, by rank, those that have the last word on something.
    pub(crate) fn leave_unfinished(&mut self, id: SliceId, items: impl Iterator<Item = ItemId>) {
        let mut copies = Vec::new();
        let mut groups = Vec::new();
        for number in items {
            let Some(item) = self.items.get(number) else {
                continue;
            };
            groups.extend(item.group);
            copies.push(Copy::of(number, item));
        }
        let Some(hold) = groups.into_iter().min() else {
            return;
        };
        let partition = self.slice_mut(id).partition;
        let end = self.journal.next_group(partition);
        self.journal.pin(partition, hold);
        let state = &mut self.partitions[usize::from(partition)];
        match &mut state.unfinished {
            None => {
                state.unfinished = Some(Unfinished {
                    hold,
                    slices: BTreeSet::from([id]),
                    copies,
                    end,
                });
            }
            Some(others) => {
                others.slices.insert(id);
                others.copies.append(&mut copies);
                let later = others.hold.max(hold);
                others.hold = others.hold.min(hold);
                self.journal.unpin(partition, later);
            }
        }
    }

    /// Writes the copies, if there is room.
    pub(crate) fn finish_carrying(&mut self, now: Instant, partition: u16) {
        let state = &self.partitions[usize::from(partition)];
        let Some(unfinished) = &state.unfinished else {
            return;
        };
        if self.journal.pins_before(partition, unfinished.end) == 1 {
            return self.have_no_unfinished(partition);
        }
        let may_begin = state.carrying == 0 && state.dropping == 0;
        if !may_begin || !self.has_room_to_carry(partition, &unfinished.footprint()) {
            return;
        }
        let state = &mut self.partitions[usize::from(partition)];
        let unfinished = state.unfinished.take();
        let mut unfinished = unfinished.expect("it was just there");
        let is_copy = |body: &Body| matches!(body, Body::Install { .. });
        let copies = &mut unfinished.copies;
        copies.sort_by_key(|copy| (copy.slice, copy.rank, is_copy(&copy.body)));
        assert!(state.carry_hold.is_none(), "one thing is carried at a time");
        state.carry_hold = Some(unfinished.hold);
        // This holds it until all are written.
        state.carrying += 1;
        for copy in unfinished.copies {
            // One that has come since, and waits for room, comes behind these by itself.
            if self.items.get(copy.item).is_some_and(|it| !it.in_journal) {
                continue;
            }
            let committed = self.slice(copy.slice).map(|slice| slice.committed.1);
            let body = match copy.body {
                // There is nothing to be redone.
                Body::Entry(Entry {
                    change: Change::Nothing,
                    ..
                }) if committed >= Some(copy.rank) => continue,
                // The log may have ended before it, or begun anew since.
                Body::Entry(entry) | Body::Placed { entry, .. } if committed >= Some(copy.rank) => {
                    Body::Install {
                        as_of: copy.rank,
                        install: Install::Change(entry.change),
                    }
                }
                body => body,
            };
            self.carry(now, copy.slice, body, Purpose::CarriedItem(copy.item));
        }
        self.carry_durable(partition);
    }

    /// What is above `after` in the slice's log is void, and must not be written behind the record that says so.
    pub(crate) fn forget_unfinished(&mut self, id: SliceId, after: Sequence) {
        let partition = self.slice_mut(id).partition;
        let state = &mut self.partitions[usize::from(partition)];
        let Some(unfinished) = &mut state.unfinished else {
            return;
        };
        let stays = |copy: &Copy| copy.slice != id || copy.rank <= after;
        unfinished.copies.retain(stays);
        if unfinished.copies.is_empty() {
            self.have_no_unfinished(partition);
        }
    }

    /// There is nothing that has to be written again: what it was held for is not redone.
    fn have_no_unfinished(&mut self, partition: u16) {
        let state = &mut self.partitions[usize::from(partition)];
        let unfinished = state.unfinished.take().expect("there is something");
        self.journal.unpin(partition, unfinished.hold);
    }
}
