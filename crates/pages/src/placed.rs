//! Pages that are written to free slots before the owner logs them: of what is written as a whole the journal needs no copy.
//!
//! A slot is taken and written; when that is on stable storage the owner logs where the page is. Later a round makes the slot the
//! page's ([`PageWork::Adopt`](crate::PageWork::Adopt)), or it is given back.
//!
//! Invariants:
//! - a slot that has been taken is given out to nobody else until it is given back, and nothing is being written to it any more;
//! - as long as it is not adopted no table entry names it, but that of a round which did not end: such an entry is cleared before
//!   anything else is done.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_model::{DiskId, DiskOp, DiskRequest, PAGE_SIZE};
use holdfast_stdx::Bytes;

use crate::pages::{Asked, Pages};

/// A slot that has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Entries of the owner's journal that need it: more than one, if what they wrote is the same and some of them do not know that
    /// they are in pages already.
    owners: u32,
    /// A write to it is under way.
    is_written: bool,
    /// Its table entry names a page, which has another slot or is not in its slice's set, and is about to be cleared.
    pub(crate) is_named: bool,
}

impl Placed {
    const NEW: Self = Self {
        owners: 1,
        is_written: false,
        is_named: false,
    };
}

impl Pages {
    /// Takes a free slot of this device for a page; none if it has none, is drained, or another one would be next to be given a
    /// page.
    pub fn place(&mut self, disk: DiskId) -> Option<u32> {
        let mut devices = self.place.devices.iter();
        let base = devices.find(|device| device.disk == disk)?.slot_base;
        let slot = self.slots.take_on(base)?;
        self.placed.insert(slot, Placed::NEW);
        Some(slot)
    }

    /// Writes a page to a slot that was taken for it. Ends with `Placed`, when that is on stable storage.
    pub fn write_placed(
        &mut self,
        slot: u32,
        data: Bytes,
        id: u64,
        requests: &mut Vec<DiskRequest>,
    ) {
        assert!(data.len() == PAGE_SIZE, "a slot is written as a whole");
        let placed = self.placed.get_mut(&slot).expect("the slot was taken");
        assert!(!placed.is_written, "a slot is written once");
        placed.is_written = true;
        let (disk, offset) = self.place.slot_offset(slot);
        let op = DiskOp::Write {
            offset,
            parts: vec![data],
            durable: true,
        };
        self.ask(Asked::Placed { slot, id }, disk, op, requests);
    }

    pub(crate) fn placed_is_down(&mut self, slot: u32) {
        let placed = self.placed.get_mut(&slot).expect("the slot was taken");
        placed.is_written = false;
        self.free_if_unused(slot);
    }

    /// Gives back a slot that was taken, or claimed, and not adopted.
    pub fn give_back(&mut self, slot: u32) {
        let placed = self.placed.get_mut(&slot).expect("the slot was taken");
        assert!(placed.owners > 0, "each owner gives it back once");
        placed.owners -= 1;
        self.free_if_unused(slot);
    }

    fn free_if_unused(&mut self, slot: u32) {
        let placed = self.placed[&slot];
        if placed.owners > 0 || placed.is_written {
            return;
        }
        let is_named = placed.is_named;
        self.placed.remove(&slot);
        // One whose entry is to be cleared is free when that is done.
        if !is_named {
            self.slots.release(slot);
        }
    }

    /// Whether a page may have the slot: nobody else needs it, and it does not have to become empty.
    #[must_use]
    pub fn may_adopt(&self, slot: u32) -> bool {
        let placed = self.placed.get(&slot);
        placed.is_some_and(|it| it.owners == 1 && !it.is_written && !it.is_named)
            && !self.is_to_move(slot)
    }

    pub(crate) fn placed_is_adopted(&mut self, slot: u32) {
        assert!(
            self.may_adopt(slot),
            "what is adopted is on stable storage, and nobody else's"
        );
        self.placed.remove(&slot);
    }

    /// Takes the slot again in which a page was placed before the store was opened; whether it is still there for that. It is not
    /// if a page has it, this one or another.
    pub fn claim(&mut self, slot: u32) -> bool {
        if self.slot_place(slot).is_none() {
            return false;
        }
        if let Some(placed) = self.placed.get_mut(&slot) {
            placed.owners += 1;
            return true;
        }
        let mut placed = Placed::NEW;
        if self.slots.is_free(slot) {
            self.slots.occupy(slot);
        } else if self.zombies.contains(&slot) {
            // A round did not end. The next one clears the entry, before anything is destaged.
            placed.is_named = true;
        } else {
            return false;
        }
        self.placed.insert(slot, placed);
        true
    }

    /// Where a slot is; nowhere, if its device is not there.
    #[must_use]
    pub fn slot_place(&self, slot: u32) -> Option<(DiskId, u64)> {
        self.place.find_slot(slot)?;
        Some(self.place.slot_offset(slot))
    }

    /// Where the page's blocks are now, if it has a slot.
    #[must_use]
    pub fn page_place(&self, key: PageKey) -> Option<(DiskId, u64)> {
        self.slot_place(self.state(key)?.slot)
    }

    /// Whether a slot that was taken is on a device that has to become empty.
    #[must_use]
    pub fn is_to_move(&self, slot: u32) -> bool {
        self.place.device_of_slot(slot).is_drained
    }

    /// Whether there is such a slot.
    #[must_use]
    pub fn has_placed_to_move(&self) -> bool {
        self.has_drained() && self.placed.keys().any(|slot| self.is_to_move(*slot))
    }

    fn has_drained(&self) -> bool {
        self.place.devices.iter().any(|device| device.is_drained)
    }

    /// The entry of a left-over slot is clear, on stable storage.
    pub(crate) fn leftover_is_clear(&mut self, slot: u32) {
        match self.placed.get_mut(&slot) {
            Some(placed) => placed.is_named = false,
            None => self.slots.release(slot),
        }
    }

    /// Whether a left-over slot is kept for an entry. No round is under way.
    pub(crate) fn has_named(&self) -> bool {
        self.has_leftovers() && self.placed.values().any(|placed| placed.is_named)
    }

    /// Slots that have been taken, and not been adopted or given back, of the devices that are not drained.
    #[must_use]
    pub fn placed_slots(&self) -> u32 {
        // Asked with every write, and mostly nothing is drained.
        if !self.has_drained() {
            return self.placed.len() as u32;
        }
        let slots = self.placed.keys().filter(|slot| !self.is_to_move(**slot));
        slots.count() as u32
    }

    /// Whether there are any, on whatever device.
    #[must_use]
    pub fn has_placed(&self) -> bool {
        !self.placed.is_empty()
    }
}
