//! Scrubs of the table: both copies of a page's entry are read from the media, which nothing else does once the
//! store is open. A copy that is not as it was written is written again, with its block, by a later round.
//!
//! Invariants:
//! - a copy counts as bad only if the page's entry was the same all the time, and no round under way has its block;
//! - where no copy is left nothing is made up: whoever reads the page finds it lost.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_format::{PageEntry, PageKey, TABLE_BLOCK, TABLE_ENTRY};
use holdfast_model::{DiskError, DiskOp, DiskRequest};
use holdfast_stdx::Bytes;

use crate::pages::{Asked, NO_SLOT, Pages};
use crate::place::TableBlockId;

/// Blocks that are written again in one round at most.
const BLOCKS_PER_ROUND: usize = 64;

/// Copies of an entry that are being read.
#[derive(Debug)]
struct Check {
    key: PageKey,
    slot: u32,
    version: u64,
    left: u32,
    is_bad: bool,
}

/// What is being checked, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    live: BTreeMap<u64, Check>,
    next: u64,
    /// Blocks of which a copy is to be written again.
    pub(crate) bad: BTreeSet<TableBlockId>,
    found: u64,
}

impl Pages {
    /// Reads both copies of a page's entry, if it has one.
    pub fn check(&mut self, key: PageKey, requests: &mut Vec<DiskRequest>) {
        let Some(state) = self.state(key).filter(|state| state.slot != NO_SLOT) else {
            return;
        };
        let number = self.checks.next;
        self.checks.next += 1;
        let check = Check {
            key,
            slot: state.slot,
            version: state.version,
            left: 2,
            is_bad: false,
        };
        self.checks.live.insert(number, check);
        let block = TableBlockId::of_slot(state.slot);
        for copy in 0..2 {
            let (disk, offset) = self.place.table_offset(copy, block);
            let length = TABLE_BLOCK as u32;
            let op = DiskOp::Read { offset, length };
            self.ask(Asked::Check(number), disk, op, requests);
        }
    }

    /// Copies of entries that were bad, since the store was opened.
    #[must_use]
    pub fn bad_copies(&self) -> u64 {
        self.checks.found
    }

    /// Some blocks of which a copy is to be written again, of slots that are in use.
    pub(crate) fn take_bad_copies(&mut self) -> BTreeSet<TableBlockId> {
        let mut blocks = BTreeSet::new();
        while blocks.len() < BLOCKS_PER_ROUND
            && let Some(block) = self.checks.bad.pop_first()
        {
            if block.slots().any(|slot| !self.slots.is_free(slot)) {
                blocks.insert(block);
            }
        }
        blocks
    }

    /// Whether a block in memory has all entries that it should have. Another one is not written without need: the
    /// media may have what could not be read just now.
    pub(crate) fn is_known(&mut self, id: TableBlockId) -> bool {
        let Some(block) = self.cache.block(id).cloned() else {
            return false;
        };
        id.slots().all(|slot| self.is_current(&block, slot))
    }

    pub(crate) fn take_check(&mut self, number: u64, result: Result<Bytes, DiskError>) {
        let nonce = self.place.nonce;
        let checks = &mut self.checks.live;
        let check = checks.get_mut(&number).expect("the check is live");
        let place = (check.slot % 8) as usize * TABLE_ENTRY;
        let is_right = result.is_ok_and(|bytes| {
            let raw = bytes.get(place..place + TABLE_ENTRY);
            let entry = raw.and_then(|raw| PageEntry::decode(raw, nonce, check.slot).ok());
            entry.is_some_and(|entry| entry.version == check.version)
        });
        check.is_bad |= !is_right;
        check.left -= 1;
        if check.left > 0 {
            return;
        }
        let check = checks.remove(&number).expect("it was just there");
        let block = TableBlockId::of_slot(check.slot);
        let is_same = self
            .state(check.key)
            .is_some_and(|state| (state.slot, state.version) == (check.slot, check.version));
        if check.is_bad && is_same && !self.is_in_table_round(block) {
            self.checks.found += 1;
            self.checks.bad.insert(block);
        }
    }
}
