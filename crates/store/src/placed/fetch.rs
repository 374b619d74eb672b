//! The data of placed entries that may have to be redone, read when the store is opened.
//!
//! What is not in the slot any more is looked for where the page is: the entry was destaged, or the page has moved, and the slot has
//! something else. What is in neither place is bad, as data of the journal is that has rotted; unless a later change says what
//! the block is.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::{PageKey, PatientRead};
use holdfast_model::{
    BLOCK_SIZE, BLOCKS_PER_PAGE, Change, DiskCompletion, DiskId, DiskRequest, DiskToken, PAGE_SIZE,
    PageIndex,
};
use holdfast_pages::{Pages, runs_of};
use holdfast_stdx::{BytesMut, crc32c};

use crate::item::{PlacedPage, Source};
use crate::recovered::{Redo, Slivers};

/// Pages that are read at a time.
const READS_IN_FLIGHT: usize = 16;

/// One page of an entry.
#[derive(Debug)]
struct Piece {
    key: PageKey,
    slot: u32,
    checksums: Vec<u32>,
    data: BytesMut,
    /// Blocks that have not been found.
    missing: u64,
    /// Those that the slot does not have; nothing is known yet while it is being read.
    missing_in_slot: Option<u64>,
    reader: Option<(DiskId, PatientRead)>,
}

/// The data of all of them.
#[derive(Debug)]
pub(crate) struct Fetch {
    pieces: Vec<Piece>,
    waiting: VecDeque<usize>,
    in_flight: usize,
}

impl Fetch {
    pub(crate) fn new(slivers: &mut Slivers) -> Self {
        let mut pieces = Vec::new();
        for (slice, sliver) in &mut slivers.slices {
            for redo in sliver.placed_mut() {
                let (first, checksums) = written_by(redo);
                let pages = checksums.chunks(BLOCKS_PER_PAGE as usize).zip(first.0..);
                for ((checksums, page), slot) in pages.zip(&redo.slots) {
                    pieces.push(Piece {
                        key: PageKey {
                            slice: *slice,
                            page: PageIndex(page),
                        },
                        slot: slot.expect("a placed entry names its slots").slot,
                        checksums: checksums.to_vec(),
                        data: BytesMut::new(),
                        missing: u64::MAX,
                        missing_in_slot: None,
                        reader: None,
                    });
                }
            }
        }
        Self {
            waiting: (0..pieces.len()).collect(),
            pieces,
            in_flight: 0,
        }
    }

    /// Begins reads, as many as there may be at a time.
    pub(crate) fn go_on(&mut self, pages: &Pages, requests: &mut Vec<DiskRequest>) {
        while self.in_flight < READS_IN_FLIGHT
            && let Some(number) = self.waiting.pop_front()
        {
            self.look(number, pages, requests);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }

    pub(crate) fn take(
        &mut self,
        completion: DiskCompletion,
        pages: &Pages,
        requests: &mut Vec<DiskRequest>,
    ) {
        let number = completion.token.0 as usize;
        let piece = &mut self.pieces[number];
        let (disk, reader) = piece.reader.as_mut().expect("the page is being read");
        match reader.take(completion.result) {
            Err(op) => {
                let (token, disk) = (completion.token, *disk);
                requests.push(DiskRequest { token, disk, op });
            }
            Ok(bytes) => {
                piece.reader = None;
                self.in_flight -= 1;
                piece.keep(&bytes);
                if piece.missing_in_slot.is_none() {
                    piece.missing_in_slot = Some(piece.missing);
                    if piece.missing != 0 {
                        self.look(number, pages, requests);
                    }
                }
            }
        }
        self.go_on(pages, requests);
    }

    /// Reads the slot, or where the page is if the slot has been read.
    fn look(&mut self, number: usize, pages: &Pages, requests: &mut Vec<DiskRequest>) {
        let piece = &mut self.pieces[number];
        let mut place = None;
        if piece.missing_in_slot.is_none() {
            place = pages.slot_place(piece.slot);
            if place.is_none() {
                piece.missing_in_slot = Some(u64::MAX);
            }
        }
        let Some((disk, offset)) = place.or_else(|| pages.page_place(piece.key)) else {
            return;
        };
        if piece.data.is_empty() {
            piece.data = BytesMut::zeroed(PAGE_SIZE);
        }
        let (reader, op) = PatientRead::start(offset, PAGE_SIZE as u32);
        piece.reader = Some((disk, reader));
        self.in_flight += 1;
        let token = DiskToken(number as u64);
        requests.push(DiskRequest { token, disk, op });
    }

    /// Gives the changes their data, and notes which slots have it.
    pub(crate) fn finish(self, slivers: &mut Slivers) {
        let mut pieces = self.pieces.into_iter();
        for redo in slivers.slices.values_mut().flat_map(|it| it.placed_mut()) {
            let mut data = BytesMut::zeroed(redo.slots.len() * PAGE_SIZE);
            for (place, slot) in redo.slots.iter_mut().enumerate() {
                let piece = pieces.next().expect("every page was read");
                // Of one that is nowhere there is nothing.
                let begin = place * PAGE_SIZE;
                data[begin..begin + piece.data.len()].copy_from_slice(&piece.data);
                let first = place as u32 * BLOCKS_PER_PAGE;
                let missing = runs_of(piece.missing);
                let missing = missing.flat_map(|(at, count)| first + at..first + at + count);
                redo.bad.extend(missing);
                let missing = piece.missing_in_slot.expect("the slot was looked at");
                *slot = (missing != u64::MAX).then_some(PlacedPage {
                    slot: piece.slot,
                    is_whole: missing == 0,
                });
            }
            if let Source::Entry(entry) = &mut redo.source
                && let Change::Write { data: place, .. } = &mut entry.change
            {
                *place = data.freeze();
            }
        }
    }
}

impl Piece {
    /// Takes those of the missing blocks that are here.
    fn keep(&mut self, bytes: &[u8]) {
        for (first, count) in runs_of(self.missing) {
            for block in first..first + count {
                let place = block as usize * BLOCK_SIZE..(block as usize + 1) * BLOCK_SIZE;
                if crc32c(&bytes[place.clone()]) == self.checksums[block as usize] {
                    self.data[place.clone()].copy_from_slice(&bytes[place]);
                    self.missing &= !(1 << block);
                }
            }
        }
    }
}

/// The first page that a placed entry writes, and the checksums of its blocks.
fn written_by(redo: &Redo) -> (PageIndex, &[u32]) {
    match &redo.source {
        Source::Entry(entry) => match &entry.change {
            Change::Write {
                start, checksums, ..
            } => (PageIndex(start.0 / BLOCKS_PER_PAGE), checksums),
            _ => unreachable!("a placed entry writes"),
        },
        Source::Install { .. } => unreachable!("copies are in the journal"),
    }
}
