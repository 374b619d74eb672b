//! Opening: the table is read, both copies, and the map is built from it.
//!
//! Invariants:
//! - of two valid copies of an entry the one with the higher version counts;
//! - copies that differ are made alike before the store is open, so that no older one ever comes
//!   back; and of two slots that hold the same page the one with the lower version is freed by the first round.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{EntryView, PageHead, PageKey, PatientRead, TABLE_BLOCK, TABLE_ENTRY};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::Bytes;

use crate::PagesFailed;
use crate::cache::TableBlock;
use crate::found::{Found, FoundPage};
use crate::pages::{PageState, Pages, PagesMemory};
use crate::place::{PagesPlace, SLOTS_PER_TABLE_BLOCK, TableBlockId};

/// Bytes of the table that are read at once.
const CHUNK_BYTES: u32 = 256 << 10;
/// Chunks that are read at the same time; each of both copies.
const CHUNKS_IN_FLIGHT: usize = 4;
const BLOCKS_PER_CHUNK: u32 = CHUNK_BYTES / TABLE_BLOCK as u32;

#[derive(Debug)]
struct Chunk {
    first: TableBlockId,
    disk: DiskId,
    copies: [(Option<PatientRead>, Option<Bytes>); 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Scan,
    Flush,
    Done,
}

/// A page store that is being opened.
#[derive(Debug)]
pub struct Opening {
    pages: Pages,
    /// Chunks not yet asked for, last first: first block and number of blocks.
    left: Vec<(TableBlockId, u32)>,
    chunks: BTreeMap<u32, Chunk>,
    /// Pages that are not in the map yet.
    found: Found,
    /// Which chunk and copy a token reads; `None` for a write or a flush.
    asked: BTreeMap<DiskToken, Option<(u32, usize)>>,
    next_token: u64,
    step: Step,
}

impl Opening {
    /// Begins.
    #[must_use]
    pub fn start(place: PagesPlace, memory: PagesMemory, requests: &mut Vec<DiskRequest>) -> Self {
        let mut left = Vec::new();
        for device in &place.devices {
            let first = device.slot_base / SLOTS_PER_TABLE_BLOCK;
            let count = device.layout.slot_count / SLOTS_PER_TABLE_BLOCK;
            left.extend(
                (0..count)
                    .step_by(BLOCKS_PER_CHUNK as usize)
                    .map(|at| (TableBlockId(first + at), BLOCKS_PER_CHUNK.min(count - at))),
            );
        }
        left.reverse();
        let mut opening = Self {
            pages: Pages::new(place, memory),
            left,
            chunks: BTreeMap::new(),
            found: Found::default(),
            asked: BTreeMap::new(),
            next_token: 0,
            step: Step::Scan,
        };
        opening.go_on(requests);
        opening
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// The page store.
    #[must_use]
    pub fn finish(self) -> Pages {
        assert!(self.is_done(), "opening is over");
        self.pages
    }

    /// Takes the end of a request and goes on.
    ///
    /// # Errors
    /// [`PagesFailed`] if a write or a flush failed.
    pub fn handle(
        &mut self,
        completion: DiskCompletion,
        requests: &mut Vec<DiskRequest>,
    ) -> Result<(), PagesFailed> {
        let asked = self
            .asked
            .remove(&completion.token)
            .expect("every request in flight is known");
        match asked {
            None => {
                completion.result.map_err(|_| PagesFailed)?;
            }
            Some((number, copy)) => {
                let chunk = self
                    .chunks
                    .get_mut(&number)
                    .expect("the chunk is asked for");
                let disk = chunk.disk;
                let (reader, bytes) = &mut chunk.copies[copy];
                match reader.as_mut().expect("it is read").take(completion.result) {
                    Ok(read) => *bytes = Some(read),
                    Err(op) => {
                        self.ask(Some((number, copy)), disk, op, requests);
                        return Ok(());
                    }
                }
                if chunk.copies.iter().all(|(_, bytes)| bytes.is_some()) {
                    let chunk = self.chunks.remove(&number).expect("it was just there");
                    self.take_chunk(&chunk, requests);
                }
            }
        }
        self.go_on(requests);
        Ok(())
    }

    fn ask(
        &mut self,
        asked: Option<(u32, usize)>,
        disk: DiskId,
        op: DiskOp,
        requests: &mut Vec<DiskRequest>,
    ) {
        let token = DiskToken(self.pages.place.token_base + self.next_token);
        self.next_token += 1;
        self.asked.insert(token, asked);
        requests.push(DiskRequest { token, disk, op });
    }

    fn go_on(&mut self, requests: &mut Vec<DiskRequest>) {
        while self.chunks.len() < CHUNKS_IN_FLIGHT
            && let Some((first, count)) = self.left.pop()
        {
            let mut copies = [(None, None), (None, None)];
            let mut disk = None;
            for (copy, place) in copies.iter_mut().enumerate() {
                let (on, offset) = self.pages.place.table_offset(copy, first);
                let (reader, op) = PatientRead::start(offset, count * TABLE_BLOCK as u32);
                self.ask(Some((first.0, copy)), on, op, requests);
                place.0 = Some(reader);
                disk = Some(on);
            }
            let disk = disk.expect("there are two copies");
            self.chunks.insert(
                first.0,
                Chunk {
                    first,
                    disk,
                    copies,
                },
            );
        }
        if !self.asked.is_empty() {
            return;
        }
        match self.step {
            Step::Scan => {
                while self.take_found() {}
                self.step = Step::Flush;
                let disks: Vec<DiskId> = self
                    .pages
                    .place
                    .devices
                    .iter()
                    .map(|device| device.disk)
                    .collect();
                for disk in disks {
                    self.ask(None, disk, DiskOp::Flush, requests);
                }
            }
            Step::Flush => self.step = Step::Done,
            Step::Done => {}
        }
    }

    fn take_chunk(&mut self, chunk: &Chunk, requests: &mut Vec<DiskRequest>) {
        let [a, b] = &chunk.copies;
        let (a, b) = (
            a.1.as_ref().expect("both copies are read"),
            b.1.as_ref().expect("both copies are read"),
        );
        let blocks = a.chunks_exact(TABLE_BLOCK).zip(b.chunks_exact(TABLE_BLOCK));
        for ((a, b), number) in blocks.zip(chunk.first.0..) {
            self.take_block(TableBlockId(number), a, b, requests);
        }
    }

    fn take_block(
        &mut self,
        id: TableBlockId,
        a: &[u8],
        b: &[u8],
        requests: &mut Vec<DiskRequest>,
    ) {
        let nonce = self.pages.place.nonce;
        let mut winners: [Option<EntryView<'_>>; SLOTS_PER_TABLE_BLOCK as usize] = [None; _];
        let mut differ = false;
        let entries = a.chunks_exact(TABLE_ENTRY).zip(b.chunks_exact(TABLE_ENTRY));
        for (((a, b), slot), winner) in entries.zip(id.slots()).zip(&mut winners) {
            let first = EntryView::read(a, nonce, slot).ok();
            // The same bytes say the same.
            let second = if a == b {
                first
            } else {
                EntryView::read(b, nonce, slot).ok()
            };
            let versions = [first, second].map(|entry| entry.map(|entry| entry.version()));
            differ |= versions[0] != versions[1];
            *winner = if versions[0] >= versions[1] {
                first
            } else {
                second
            };
            if let Some(entry) = winner {
                self.take_entry(slot, entry);
            }
        }
        if differ {
            let mut block = TableBlock::default();
            for entry in winners.into_iter().flatten() {
                block.set(entry.to_entry());
            }
            self.write_block(id, &block, requests);
        }
    }

    fn write_block(
        &mut self,
        id: TableBlockId,
        block: &TableBlock,
        requests: &mut Vec<DiskRequest>,
    ) {
        let bytes = Bytes::copy_from_slice(&block.encode(self.pages.place.nonce));
        for copy in 0..2 {
            let (disk, offset) = self.pages.place.table_offset(copy, id);
            let op = DiskOp::Write {
                offset,
                parts: vec![bytes.clone()],
                durable: false,
            };
            self.ask(None, disk, op, requests);
        }
    }

    fn take_entry(&mut self, slot: u32, entry: &EntryView<'_>) {
        let Some(PageHead {
            key,
            written,
            mask,
            bad,
        }) = entry.page()
        else {
            return;
        };
        self.pages.slots.occupy(slot);
        let state = PageState {
            slot,
            version: entry.version(),
            written,
            mask,
        };
        self.found.add(key, state, bad);
        if self.found.is_full() {
            self.take_found();
        }
    }

    /// Puts into the map what has been found of a slice. Whether there was anything.
    fn take_found(&mut self) -> bool {
        let Some((slice, pages)) = self.found.take_slice() else {
            return false;
        };
        for FoundPage { page, state, bad } in pages {
            self.take_page(PageKey { slice, page }, state, bad);
        }
        true
    }

    fn take_page(&mut self, key: PageKey, state: PageState, bad: u64) {
        if let Some(other) = self.pages.set_state(key, Some(state)) {
            if other.version > state.version {
                self.pages.set_state(key, Some(other));
                self.pages.zombies.push(state.slot);
                return;
            }
            self.pages.zombies.push(other.slot);
            self.pages.lost.remove(&key);
            self.pages.suspect.remove(&key);
        }
        if bad & !state.mask != 0 {
            self.pages.lost.insert(key, bad & !state.mask);
        }
        if bad & state.mask != 0 {
            self.pages.suspect.insert(key, bad & state.mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::{PageIndex, Sequence, SliceId, VolumeId};

    use super::*;

    fn state(slot: u32, version: u64) -> PageState {
        PageState {
            slot,
            version,
            written: Sequence(version),
            mask: 0b01,
        }
    }

    /// Whichever the table has first, in whatever part of it.
    #[test]
    fn of_two_slots_with_the_same_page_the_newer_one_counts() {
        let key = PageKey {
            slice: SliceId {
                volume: VolumeId(1),
                index: 0,
            },
            page: PageIndex(5),
        };
        let older = (state(3, 1), 0b11);
        let newer = (state(8, 2), 0b10);
        for order in [[older, newer], [newer, older]] {
            let place = PagesPlace {
                devices: Vec::new(),
                nonce: 1,
                use_counter: 1,
                token_base: 0,
            };
            let memory = PagesMemory {
                table_bytes: 0,
                block_bytes: 0,
            };
            let mut opening = Opening::start(place, memory, &mut Vec::new());
            for (state, bad) in order {
                opening.take_page(key, state, bad);
            }
            let pages = &opening.pages;
            assert_eq!(pages.state(key), Some(newer.0));
            assert_eq!(pages.zombies, [older.0.slot]);
            assert_eq!(pages.lost.get(&key), Some(&0b10));
            assert_eq!(pages.suspect.get(&key), None);
        }
    }
}
