//! Reads of blocks, verified against their table entry. What memory has is not read, and what is being read ahead is waited for.
//!
//! The data and, if it is not in memory, the entry are read at the same time. Blocks that do not
//! match are called bad only if their page is still what it was when the read began; otherwise the
//! owner plans the read again.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::{PageEntry, PageKey, PatientRead, SlotContent, TABLE_BLOCK, TABLE_ENTRY};
use holdfast_model::{BLOCK_SIZE, BLOCKS_PER_PAGE, DiskError, DiskOp, DiskRequest};
use holdfast_stdx::{Bytes, SmallVec, crc32c};

use crate::PagesEvent;
use crate::ahead::Here;
use crate::cache::TableBlock;
use crate::pages::{Asked, NO_SLOT, PageState, Pages};
use crate::place::TableBlockId;

/// Where the blocks of a read may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSource {
    /// From memory, where they are there.
    Anywhere,
    /// From the media, and from nowhere else.
    Media,
}

/// Blocks in a row above which what was read is not kept: whoever reads so much at a time reads on, and comes back late.
const KEPT_BLOCKS_MAX: usize = 8;

/// A read that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageReadDone {
    /// The owner's name for it.
    pub id: u64,
    /// Each block that was asked for, by its place in the page, in order.
    pub blocks: Outcomes,
}

/// What became of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockOutcome {
    /// Its contents, verified.
    Data {
        /// 4 KiB; neighbours share a buffer.
        data: Bytes,
        /// Their CRC-32C.
        checksum: u32,
    },
    /// It cannot be read or is not what it was; with the checksum on record.
    Bad(Option<u32>),
    /// The page was written meanwhile: plan again.
    Changed,
}

/// Blocks of a page, by their places in it, and what was found: one lies in place.
pub type Outcomes = SmallVec<[(u32, BlockOutcome); 1]>;

/// A table block that is being loaded.
#[derive(Debug)]
pub(crate) struct Loading {
    block: TableBlock,
}

#[derive(Debug)]
enum EntryKnown {
    Waiting,
    Known(Box<[u32; BLOCKS_PER_PAGE as usize]>),
    Missing,
}

#[derive(Debug)]
struct Run {
    first: u32,
    reader: PatientRead,
    data: Option<Bytes>,
}

/// Whom a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The owner, which calls it so.
    Owner { id: u64, source: ReadSource },
    /// Whoever will ask for it.
    Ahead,
}

#[derive(Debug)]
struct PageRead {
    asker: Asker,
    key: PageKey,
    slot: u32,
    version: u64,
    /// Blocks that memory had.
    known: Outcomes,
    /// Blocks that are being read ahead.
    awaited: u64,
    entry: EntryKnown,
    runs: Vec<Run>,
}

/// The reads under way.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    live: BTreeMap<u64, PageRead>,
    next: u64,
}

impl Pages {
    /// Reads the blocks of `wanted`, which are there and not lost, of an existing page.
    pub fn read(
        &mut self,
        key: PageKey,
        mut wanted: u64,
        source: ReadSource,
        id: u64,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let state = self.state(key).expect("the page exists");
        assert!(wanted != 0, "a read is of something");
        assert!(wanted & !state.mask == 0, "the blocks are there");
        assert!(state.slot != NO_SLOT, "a page with blocks has a slot");
        let mut known = Outcomes::new();
        let mut awaited = 0;
        if source == ReadSource::Anywhere {
            known = self.take_ahead_known(state.slot, &mut wanted);
            let number = self.reads.next;
            awaited = self.ahead.join(state.slot, state.version, wanted, number);
            wanted &= !awaited;
            self.take_known(state.slot, &mut wanted, &mut known);
        }
        if wanted | awaited == 0 {
            known.sort_by_key(|(block, _)| *block);
            events.push(PagesEvent::Read(PageReadDone { id, blocks: known }));
            return;
        }
        let asker = Asker::Owner { id, source };
        let number = self.begin_read(asker, key, state, wanted, requests);
        let read = self.reads.live.get_mut(&number).expect("it has just begun");
        read.known = known;
        read.awaited = awaited;
        self.reads_go_on(requests, events);
    }

    pub(crate) fn begin_read(
        &mut self,
        asker: Asker,
        key: PageKey,
        state: PageState,
        wanted: u64,
        requests: &mut Vec<DiskRequest>,
    ) -> u64 {
        let number = self.reads.next;
        self.reads.next += 1;
        let read = PageRead {
            asker,
            key,
            slot: state.slot,
            version: state.version,
            known: Outcomes::new(),
            awaited: 0,
            entry: EntryKnown::Waiting,
            runs: Vec::new(),
        };
        self.reads.live.insert(number, read);
        self.read_media(number, wanted, requests);
        number
    }

    /// Has blocks of a read come from the media, and the page's entry if it is not known.
    fn read_media(&mut self, number: u64, wanted: u64, requests: &mut Vec<DiskRequest>) {
        let read = &self.reads.live[&number];
        let (slot, entry_waits) = (read.slot, matches!(read.entry, EntryKnown::Waiting));
        let (disk, slot_offset) = self.place.slot_offset(slot);
        for (first, count) in runs_of(wanted) {
            let offset = slot_offset + u64::from(first) * BLOCK_SIZE as u64;
            let (reader, op) = PatientRead::start(offset, count * BLOCK_SIZE as u32);
            let read = self.reads.live.get_mut(&number).expect("the read is live");
            let run = read.runs.len();
            let data = None;
            read.runs.push(Run {
                first,
                reader,
                data,
            });
            self.ask(Asked::Run { read: number, run }, disk, op, requests);
        }
        let block = TableBlockId::of_slot(slot);
        if wanted != 0 && entry_waits && !self.cache.contains(block) {
            self.load(block, requests);
        }
    }

    pub(crate) fn awaited_by(&self, number: u64) -> u64 {
        self.reads.live[&number].awaited
    }

    /// What a read waited for was read ahead, or some of it; it reads the rest itself.
    pub(crate) fn take_awaited(
        &mut self,
        number: u64,
        slot: u32,
        blocks: Outcomes,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        self.keep(slot, &blocks);
        let read = self.reads.live.get_mut(&number).expect("a read that waits");
        let rest = core::mem::take(&mut read.awaited) & !mask_of_outcomes(&blocks);
        read.known.extend(blocks);
        self.read_media(number, rest, requests);
        self.finish_if_done(number, requests, events);
    }

    /// The blocks of a slot that were read ahead, which are not wanted any more.
    fn take_ahead_known(&mut self, slot: u32, wanted: &mut u64) -> Outcomes {
        let blocks = self.ahead.take(slot, *wanted);
        *wanted &= !mask_of_outcomes(&blocks);
        self.keep(slot, &blocks);
        blocks
    }

    /// Blocks that have been read ahead are asked for: they are kept as if they had been read only now.
    fn keep(&mut self, slot: u32, blocks: &[(u32, BlockOutcome)]) {
        let come = blocks.len();
        if come > KEPT_BLOCKS_MAX {
            return;
        }
        for (block, outcome) in blocks {
            if let BlockOutcome::Data { data, checksum } = outcome {
                self.block_cache.insert(slot, *block, data, *checksum);
            }
        }
    }

    /// The blocks of a slot that memory has, which are not wanted any more.
    fn take_known(&mut self, slot: u32, wanted: &mut u64, known: &mut Outcomes) {
        for (first, count) in runs_of(*wanted) {
            for block in first..first + count {
                if let Some((data, checksum)) = self.block_cache.get(slot, block) {
                    *wanted &= !(1 << block);
                    known.push((block, BlockOutcome::Data { data, checksum }));
                }
            }
        }
    }

    pub(crate) fn load(&mut self, block: TableBlockId, requests: &mut Vec<DiskRequest>) {
        if self.loading.contains_key(&block) {
            return;
        }
        let loading = Loading {
            block: TableBlock::default(),
        };
        self.loading.insert(block, loading);
        self.ask_table(block, 0, requests);
    }

    fn ask_table(&mut self, block: TableBlockId, copy: usize, requests: &mut Vec<DiskRequest>) {
        let (disk, offset) = self.place.table_offset(copy, block);
        let op = DiskOp::Read {
            offset,
            length: TABLE_BLOCK as u32,
        };
        self.ask(Asked::Table { block, copy }, disk, op, requests);
    }

    /// Takes one copy of a table block; asks for the other if this one is not all right.
    pub(crate) fn take_table(
        &mut self,
        id: TableBlockId,
        copy: usize,
        result: Result<Bytes, DiskError>,
        requests: &mut Vec<DiskRequest>,
    ) {
        let mut loading = self.loading.remove(&id).expect("the block is loading");
        if let Ok(bytes) = result
            && bytes.len() == TABLE_BLOCK
        {
            for (slot, raw) in id.slots().zip(bytes.chunks_exact(TABLE_ENTRY)) {
                if !self.is_current(&loading.block, slot) || self.has_no_page(slot) {
                    self.take_entry(&mut loading.block, slot, raw);
                }
            }
        }
        let complete = id.slots().all(|slot| self.is_current(&loading.block, slot));
        if complete || copy == 1 {
            self.cache.insert(id, loading.block);
        } else {
            self.loading.insert(id, loading);
            self.ask_table(id, 1, requests);
        }
    }

    fn take_entry(&self, block: &mut TableBlock, slot: u32, raw: &[u8]) {
        let Ok(entry) = PageEntry::decode(raw, self.place.nonce, slot) else {
            return;
        };
        let newer = block
            .entry(slot)
            .is_none_or(|known| known.version < entry.version);
        if newer {
            block.set(entry);
        }
    }

    pub(crate) fn take_run(
        &mut self,
        number: u64,
        run: usize,
        result: Result<Bytes, DiskError>,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let read = self
            .reads
            .live
            .get_mut(&number)
            .expect("a run's read is live");
        match read.runs[run].reader.take(result) {
            Ok(data) => {
                read.runs[run].data = Some(data);
                self.finish_if_done(number, requests, events);
            }
            // Not block by block: who waits for one would wait for all. It reads its own.
            Err(_) if matches!(read.asker, Asker::Ahead) => {
                read.runs[run].data = Some(Bytes::new());
                self.finish_if_done(number, requests, events);
            }
            Err(op) => {
                let (disk, _) = self.place.slot_offset(read.slot);
                self.ask(Asked::Run { read: number, run }, disk, op, requests);
            }
        }
    }

    /// Gives entries that have become known to the reads that wait for them.
    pub(crate) fn reads_go_on(
        &mut self,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        let mut touched = Vec::new();
        for (number, read) in &mut self.reads.live {
            if !matches!(read.entry, EntryKnown::Waiting) {
                continue;
            }
            let Some(block) = self.cache.block(TableBlockId::of_slot(read.slot)) else {
                continue;
            };
            read.entry = match block.entry(read.slot) {
                Some(PageEntry {
                    version,
                    content: SlotContent::Page { key, checksums, .. },
                    ..
                }) if *key == read.key && *version == read.version => {
                    EntryKnown::Known(checksums.clone())
                }
                _ => EntryKnown::Missing,
            };
            touched.push(*number);
        }
        for number in touched {
            self.finish_if_done(number, requests, events);
        }
    }

    fn finish_if_done(
        &mut self,
        number: u64,
        requests: &mut Vec<DiskRequest>,
        events: &mut Vec<PagesEvent>,
    ) {
        // One that waited for another may have ended with that.
        let Some(read) = self.reads.live.get(&number) else {
            return;
        };
        let entry_waits = matches!(read.entry, EntryKnown::Waiting) && !read.runs.is_empty();
        if entry_waits || read.awaited != 0 || read.runs.iter().any(|run| run.data.is_none()) {
            return;
        }
        let read = self.reads.live.remove(&number).expect("it was just there");
        let unchanged = self
            .state(read.key)
            .is_some_and(|state| state.slot == read.slot && state.version == read.version);
        let Asker::Owner { id, source } = read.asker else {
            let here = match read.entry {
                EntryKnown::Known(checksums) if unchanged => {
                    let data = |run: Run| (run.first, run.data.expect("every run has its data"));
                    let runs = read.runs.into_iter().map(data).collect();
                    Some(Here { runs, checksums })
                }
                _ => None,
            };
            return self.take_ahead(read.slot, here, requests, events);
        };
        if unchanged && matches!(read.entry, EntryKnown::Missing) {
            self.lose(read.key);
        }
        let mut blocks = Outcomes::new();
        let is_kept = unchanged && source == ReadSource::Anywhere;
        for run in &read.runs {
            let data = run.data.as_ref().expect("every run has its data");
            let is_kept = is_kept && data.len() <= KEPT_BLOCKS_MAX * BLOCK_SIZE;
            for place in 0..data.len() / BLOCK_SIZE {
                let block = run.first + place as u32;
                let data = data.slice(place * BLOCK_SIZE..(place + 1) * BLOCK_SIZE);
                let outcome = match &read.entry {
                    EntryKnown::Known(checksums) => {
                        let checksum = checksums[block as usize];
                        if crc32c(&data) == checksum {
                            if is_kept {
                                self.block_cache.insert(read.slot, block, &data, checksum);
                            }
                            BlockOutcome::Data { data, checksum }
                        } else if unchanged && !self.is_being_written(read.key, block) {
                            BlockOutcome::Bad(Some(checksum))
                        } else {
                            BlockOutcome::Changed
                        }
                    }
                    _ if unchanged => BlockOutcome::Bad(None),
                    _ => BlockOutcome::Changed,
                };
                blocks.push((block, outcome));
            }
        }
        if unchanged {
            self.remember_seen(read.key, &blocks);
        }
        blocks.extend(read.known);
        blocks.sort_by_key(|(block, _)| *block);
        events.push(PagesEvent::Read(PageReadDone { id, blocks }));
    }

    /// Blocks that were found to be bad are remembered, and those that are good after all forgotten.
    fn remember_seen(&mut self, key: PageKey, blocks: &[(u32, BlockOutcome)]) {
        for (block, outcome) in blocks {
            let bit = 1 << block;
            match outcome {
                BlockOutcome::Bad(Some(_)) => *self.suspect.entry(key).or_default() |= bit,
                BlockOutcome::Data { .. } => {
                    if let Some(mask) = self.suspect.get_mut(&key) {
                        *mask &= !bit;
                    }
                }
                BlockOutcome::Bad(None) | BlockOutcome::Changed => {}
            }
        }
        if self.suspect.get(&key) == Some(&0) {
            self.suspect.remove(&key);
        }
    }

    /// The page's entry is gone: so is what it described.
    fn lose(&mut self, key: PageKey) {
        let mask = self.state(key).expect("the page exists").mask;
        *self.lost.entry(key).or_default() |= mask;
    }
}

/// The runs of ones in a mask: where each begins and how long it is.
pub fn runs_of(mut mask: u64) -> impl Iterator<Item = (u32, u32)> {
    core::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let first = mask.trailing_zeros();
        let count = (mask >> first).trailing_ones();
        let run = if count == 64 {
            u64::MAX
        } else {
            ((1 << count) - 1) << first
        };
        mask &= !run;
        Some((first, count))
    })
}

/// The mask of these blocks of a page.
pub(crate) fn mask_of(blocks: impl IntoIterator<Item = u32>) -> u64 {
    blocks.into_iter().fold(0, |mask, block| mask | 1 << block)
}

pub(crate) fn mask_of_outcomes(blocks: &[(u32, BlockOutcome)]) -> u64 {
    mask_of(blocks.iter().map(|(block, _)| *block))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn runs_are_those_of_the_mask() {
        let runs: Vec<_> = runs_of(0b1011_0001 | 1 << 63).collect();
        assert_eq!(runs, [(0, 1), (4, 2), (7, 1), (63, 1)]);
        assert_eq!(runs_of(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(runs_of(0).count(), 0);
    }
}
