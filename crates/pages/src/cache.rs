//! Blocks of the page table in memory: those that rounds are about to write, and the ones used last.
//!
//! A block is loaded from the table's first copy, and from the second where an entry of the first
//! is not the one that memory expects. An entry that neither copy has is left out: whoever needs it
//! finds its page lost.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_format::{PageEntry, TABLE_BLOCK, TABLE_ENTRY};
use holdfast_stdx::Bytes;

use crate::place::TableBlockId;

/// A decoded block: the entries of eight slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableBlock {
    entries: [Option<Box<PageEntry>>; 8],
}

impl TableBlock {
    pub(crate) fn entry(&self, slot: u32) -> Option<&PageEntry> {
        self.entries[slot as usize % 8].as_deref()
    }

    pub(crate) fn set(&mut self, entry: PageEntry) {
        let place = entry.slot as usize % 8;
        self.entries[place] = Some(Box::new(entry));
    }

    /// The block's bytes. What no valid entry is known for becomes zeros: no entry, as before.
    pub(crate) fn encode(&self, nonce: u64) -> [u8; TABLE_BLOCK] {
        let mut bytes = [0; TABLE_BLOCK];
        for (place, entry) in self.entries.iter().enumerate() {
            if let Some(entry) = entry {
                bytes[place * TABLE_ENTRY..][..TABLE_ENTRY].copy_from_slice(&entry.encode(nonce));
            }
        }
        bytes
    }
}

#[derive(Debug)]
struct Cached {
    block: TableBlock,
    used: u64,
    pins: u32,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct TableCache {
    blocks: BTreeMap<TableBlockId, Cached>,
    by_use: BTreeMap<u64, TableBlockId>,
    clock: u64,
    blocks_max: usize,
}

impl TableCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            blocks: BTreeMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            blocks_max: (bytes_max / TABLE_BLOCK as u64).max(16) as usize,
        }
    }

    pub(crate) fn contains(&self, id: TableBlockId) -> bool {
        self.blocks.contains_key(&id)
    }

    pub(crate) fn block(&mut self, id: TableBlockId) -> Option<&TableBlock> {
        self.touch(id);
        self.blocks.get(&id).map(|cached| &cached.block)
    }

    /// Blocks that are pinned, as they are written, in order: both copies are the same.
    pub(crate) fn encoded(
        &mut self,
        blocks: &BTreeSet<TableBlockId>,
        nonce: u64,
    ) -> Vec<(TableBlockId, Bytes)> {
        let encoded = blocks.iter().map(|id| {
            let block = self.block(*id).expect("a pinned block is there");
            (*id, Bytes::copy_from_slice(&block.encode(nonce)))
        });
        encoded.collect()
    }

    pub(crate) fn block_mut(&mut self, id: TableBlockId) -> Option<&mut TableBlock> {
        self.touch(id);
        self.blocks.get_mut(&id).map(|cached| &mut cached.block)
    }

    /// Adds a block that was loaded. It stays until the next [`evict`](Self::evict) at least, so that
    /// those who waited for it find it.
    pub(crate) fn insert(&mut self, id: TableBlockId, block: TableBlock) {
        assert!(!self.contains(id), "a block is loaded once");
        self.clock += 1;
        self.by_use.insert(self.clock, id);
        let cached = Cached {
            block,
            used: self.clock,
            pins: 0,
        };
        self.blocks.insert(id, cached);
    }

    /// Keeps a block until as many [`unpin`](Self::unpin)s.
    pub(crate) fn pin(&mut self, id: TableBlockId) {
        let cached = self.blocks.get_mut(&id).expect("the block is here");
        cached.pins += 1;
    }

    pub(crate) fn unpin(&mut self, id: TableBlockId) {
        let cached = self.blocks.get_mut(&id).expect("a pinned block is here");
        assert!(cached.pins > 0, "the block is pinned");
        cached.pins -= 1;
        self.evict();
    }

    /// Drops the blocks of these slots, whose device has gone. None of them is pinned.
    pub(crate) fn forget(&mut self, slots: core::ops::Range<u32>) {
        let blocks = TableBlockId::of_slot(slots.start)..TableBlockId::of_slot(slots.end);
        let gone: Vec<TableBlockId> = self.blocks.range(blocks).map(|(id, _)| *id).collect();
        for id in gone {
            let cached = self.blocks.remove(&id).expect("it was just there");
            assert!(cached.pins == 0, "no round is under way on the device");
            self.by_use.remove(&cached.used);
        }
    }

    fn touch(&mut self, id: TableBlockId) {
        if let Some(cached) = self.blocks.get_mut(&id) {
            self.clock += 1;
            self.by_use.remove(&cached.used);
            cached.used = self.clock;
            self.by_use.insert(self.clock, id);
        }
    }

    /// Drops what was used longest ago and is not pinned. Pinned blocks may exceed the budget: a
    /// round is bounded.
    pub(crate) fn evict(&mut self) {
        while self.blocks.len() > self.blocks_max {
            let oldest = self
                .by_use
                .iter()
                .find(|(_, id)| self.blocks[id].pins == 0)
                .map(|(used, id)| (*used, *id));
            let Some((used, id)) = oldest else {
                return;
            };
            self.by_use.remove(&used);
            self.blocks.remove(&id);
        }
    }
}
