//! Copies that power failed between, found when the store is opened.
//!
//! What is carried forward is right together only: of the records that change a block the last one in the
//! journal is to be the latest. Where power has failed between the copies, an older one may stand behind a
//! later change. As long as redo begins before both of them that does no harm; so it does, until the
//! copies that are missing are written, too.

use alloc::vec::Vec;

use holdfast_format::{Body, Install};
use holdfast_journal::GroupNumber;
use holdfast_model::{Sequence, SliceId};
use holdfast_stdx::Instant;

use crate::item::ItemId;
use crate::machine::{Core, Purpose};

/// What is to be written again, of one partition.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// The oldest group with something of it, which is pinned.
    hold: GroupNumber,
    /// By slice, those of each in the order of their ranks. Meanwhile items may have come into their pages.
    copies: Vec<Copy>,
    /// What the items cost.
    bytes: u64,
}

#[derive(Debug)]
struct Copy {
    slice: SliceId,
    rank: Sequence,
    item: ItemId,
    body: Body,
}

impl Unfinished {
    pub(crate) fn hold(&self) -> GroupNumber {
        self.hold
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Core {
    /// Has these items of a slice carried forward again, by rank, those that have the last word on something.
    pub(crate) fn leave_unfinished(&mut self, id: SliceId, items: impl Iterator<Item = ItemId>) {
        let mut copies = Vec::new();
        let mut groups = Vec::new();
        let mut bytes = 0;
        for number in items {
            let Some(item) = self.items.get(number) else {
                continue;
            };
            bytes += item.cost;
            groups.extend(item.group);
            let (rank, is_settled) = (item.rank(), self.destage.is_settled(number));
            let body = match item.body() {
                // The log may end before it, or begin anew.
                Body::Entry(entry) if is_settled => Body::Install {
                    as_of: rank,
                    install: Install::Change(entry.change),
                },
                body => body,
            };
            copies.push(Copy {
                slice: id,
                rank,
                item: number,
                body,
            });
        }
        let Some(hold) = groups.into_iter().min() else {
            return;
        };
        copies.sort_by_key(|copy| (copy.rank, matches!(copy.body, Body::Install { .. })));
        let partition = self.slice_mut(id).partition;
        self.journal.pin(partition, hold);
        let state = &mut self.partitions[usize::from(partition)];
        match &mut state.unfinished {
            None => {
                state.unfinished = Some(Unfinished {
                    hold,
                    copies,
                    bytes,
                });
            }
            Some(others) => {
                others.copies.append(&mut copies);
                others.bytes += bytes;
                let later = others.hold.max(hold);
                others.hold = others.hold.min(hold);
                self.journal.unpin(partition, later);
            }
        }
    }

    /// Writes the copies.
    pub(crate) fn finish_carrying(&mut self, now: Instant, partition: u16) {
        let state = &mut self.partitions[usize::from(partition)];
        let Some(unfinished) = state.unfinished.take() else {
            return;
        };
        assert!(state.carry_hold.is_none(), "one thing is carried at a time");
        state.carry_hold = Some(unfinished.hold);
        for copy in unfinished.copies {
            self.carry(now, copy.slice, copy.body, Purpose::CarriedItem(copy.item));
        }
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
            let hold = unfinished.hold;
            state.unfinished = None;
            self.journal.unpin(partition, hold);
        }
    }
}
