//! Who reads one block after the other, and what is read ahead for them.
//!
//! A read that begins where another one has ended goes on with that one's stream; after the second such read its next pages are read
//! before it asks for them, the more of them the longer it goes on. Reads of many commands at a time come out of order: of those that are
//! as long as the last one, some may be ahead of it.
//!
//! It refuses to know of anything across slices, of views and of the reads' ends: a stream that goes on in the next slice is another one.
//!
//! Invariants:
//! - what is known of streams takes a fixed amount of memory, and is looked through at each read;
//! - nothing is read ahead while devices are short of turns: what is begun goes at once, so that whoever comes to wait for it waits for
//!   a device, and not for its turn.

use alloc::vec::Vec;
use core::ops::Range;

use holdfast_format::PageKey;
use holdfast_model::{BLOCKS_PER_PAGE, BlockRange, PAGES_PER_SLICE, PageIndex, SliceId};
use holdfast_stdx::Instant;

use crate::event::{Output, View};
use crate::machine::Core;
use crate::requests::Urgency;

/// Reads that may be the beginning of a stream: as many others may come between two of its reads.
const YOUNG_MAX: usize = 32;
/// Streams at a time.
const STREAMS_MAX: usize = 32;
/// Reads that have to go on with a read so that it is a stream.
const CONTINUED_MIN: u32 = 2;
/// How many reads may be missing before one that came too early: twice the usual queue depth of large reads, and what a mask has bits for.
const EARLY_MAX: u32 = 16;
/// Reads that came too early after which the missing one is not waited for: it came before, or memory of its host's had it.
const OVERTAKEN_MAX: u32 = 8;
/// Pages that are read ahead at most, 2 MiB: a disk with an arm has its full rate with as much in a row.
const REACH_MAX: u32 = 8;
/// Reads without one of its own after which a stream has most likely ended.
const IDLE_READS: u64 = 1024;

#[derive(Clone, Copy, Debug)]
struct Stream {
    slice: SliceId,
    /// Where it goes on.
    next: u32,
    /// Blocks of its last read.
    length: u32,
    /// Reads that came too early: one bit for each length behind `next`, the first of which is that of the one after the missing one.
    early: u16,
    /// Reads that went on with it.
    continued: u32,
    /// The last read.
    used: u64,
    /// Pages that are read ahead of the one that it is in.
    reach: u32,
    /// The page before which all have been read ahead.
    asked: u32,
}

impl Stream {
    const fn new(slice: SliceId, range: BlockRange, used: u64) -> Self {
        Self {
            slice,
            next: range.end(),
            length: range.count(),
            early: 0,
            continued: 0,
            used,
            reach: 1,
            asked: 0,
        }
    }

    /// Whether a read is one of its own.
    fn takes(&mut self, slice: SliceId, range: BlockRange, now: u64) -> bool {
        if self.slice != slice || range.start() < self.next {
            return false;
        }
        let is_of_length = range.count() == self.length;
        let distance = range.start() - self.next;
        if distance > 0 {
            let missing = distance / self.length;
            let is_early =
                is_of_length && distance.is_multiple_of(self.length) && missing <= EARLY_MAX;
            if is_early {
                self.early |= 1 << (missing - 1);
                self.used = now;
            }
            if self.early.count_ones() > OVERTAKEN_MAX {
                self.go_on();
            }
            return is_early;
        }
        self.used = now;
        if !is_of_length {
            (self.length, self.early) = (range.count(), 0);
        }
        self.go_on();
        true
    }

    /// The next read has come, or is missed no longer: with it go those that came too early.
    fn go_on(&mut self) {
        let mut has_come = true;
        while has_come {
            self.next += self.length;
            self.continued += 1;
            has_come = self.early & 1 != 0;
            self.early >>= 1;
        }
    }

    /// Behind all of its reads, also those that came too early.
    const fn front(&self) -> u32 {
        let early = u16::BITS - self.early.leading_zeros();
        let missing = if early > 0 { 1 } else { 0 };
        self.next + (missing + early) * self.length
    }

    /// The page that it is in, or about to be.
    const fn page(&self) -> u32 {
        self.front() / BLOCKS_PER_PAGE
    }

    /// Pages to be read ahead now: none as long as half of the reach is ahead.
    fn wanted(&self, reach_max: u32) -> Range<u32> {
        let (page, reach) = (self.page(), self.reach.min(reach_max));
        let first = self.asked.max(page);
        if first > page + 1 + reach / 2 {
            return first..first;
        }
        first..(page + 1 + reach).min(PAGES_PER_SLICE)
    }
}

/// The streams of a store.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Reads that nothing has gone on with yet, or not for long.
    young: Vec<Stream>,
    /// Where the next one goes.
    turn: usize,
    known: Vec<Stream>,
    reads: u64,
}

impl Streams {
    /// A read has come: the stream that it belongs to, if that is known to be one.
    fn take(&mut self, slice: SliceId, range: BlockRange) -> Option<usize> {
        self.reads += 1;
        let now = self.reads;
        let takes = |stream: &mut Stream| stream.takes(slice, range, now);
        if let Some(place) = self.known.iter_mut().position(takes) {
            return Some(place);
        }
        if let Some(place) = self.young.iter_mut().position(takes) {
            let stream = self.young[place];
            if stream.continued < CONTINUED_MIN {
                return None;
            }
            self.young.swap_remove(place);
            return Some(self.enter(stream));
        }
        let stream = Stream::new(slice, range, now);
        if self.young.len() < YOUNG_MAX {
            self.young.push(stream);
        } else {
            self.young[self.turn] = stream;
            self.turn = (self.turn + 1) % YOUNG_MAX;
        }
        None
    }

    /// Puts a stream among those that are known, in the place of the one that has been silent for longest if there are too many.
    fn enter(&mut self, stream: Stream) -> usize {
        if self.known.len() < STREAMS_MAX {
            self.known.push(stream);
            return self.known.len() - 1;
        }
        let streams = self.known.iter().enumerate();
        let (place, _) = streams
            .min_by_key(|(_, stream)| stream.used)
            .expect("there are as many as there may be");
        self.known[place] = stream;
        place
    }

    /// How many streams go on.
    fn count(&self) -> u32 {
        let goes_on = |stream: &&Stream| self.reads - stream.used < IDLE_READS;
        self.known.iter().filter(goes_on).count() as u32
    }
}

impl Core {
    /// A read has begun: reads ahead what its stream is about to ask for.
    pub(crate) fn read_ahead(
        &mut self,
        now: Instant,
        slice: SliceId,
        range: BlockRange,
        out: &mut Output,
    ) {
        if self.pages.ahead_pages_max() == 0 {
            return;
        }
        let Some(place) = self.streams.take(slice, range) else {
            return;
        };
        let stream = self.streams.known[place];
        let reach_max = self.pages.ahead_pages_each(self.streams.count());
        let wanted = stream.wanted(reach_max.clamp(1, REACH_MAX));
        if wanted.is_empty() {
            return;
        }
        let mut asked = wanted.start;
        for page in wanted {
            let mut blocks = u64::MAX;
            if page == stream.page() {
                blocks <<= stream.front() % BLOCKS_PER_PAGE;
            }
            if !self.read_page_ahead(now, slice, PageIndex(page), blocks, out) {
                break;
            }
            asked = page + 1;
        }
        let stream = &mut self.streams.known[place];
        if stream.asked < asked {
            stream.asked = asked;
            stream.reach = (2 * stream.reach).min(REACH_MAX);
        }
    }

    /// Reads what is in a page and in no change that memory has, unless it is not the time for it.
    fn read_page_ahead(
        &mut self,
        now: Instant,
        slice: SliceId,
        page: PageIndex,
        blocks: u64,
        out: &mut Output,
    ) -> bool {
        if self.requests.is_short_of_turns() {
            return false;
        }
        let changed = self.layers(slice, page, View::Committed);
        let changed = changed.iter().fold(0, |all, (mask, _)| all | mask);
        let key = PageKey { slice, page };
        self.with_pages(now, Urgency::Read, out, |pages, requests, events| {
            pages.read_ahead(key, blocks & !changed, requests, events)
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::{BLOCKS_PER_SLICE, VolumeId};
    use holdfast_stdx::Prng;

    use super::*;

    const SLICE: SliceId = SliceId {
        volume: VolumeId(1),
        index: 0,
    };

    fn read(streams: &mut Streams, start: u32, count: u32) -> Option<usize> {
        streams.take(SLICE, BlockRange::new(start, count))
    }

    #[test]
    fn a_stream_is_known_by_its_third_read() {
        let mut streams = Streams::default();
        assert_eq!(read(&mut streams, 100, 8), None);
        assert_eq!(read(&mut streams, 108, 8), None);
        assert_eq!(read(&mut streams, 116, 4), Some(0));
        assert_eq!(read(&mut streams, 120, 64), Some(0));
        assert_eq!(streams.known[0].next, 184);
        let other = SliceId { index: 1, ..SLICE };
        assert_eq!(streams.take(other, BlockRange::new(184, 64)), None);
    }

    /// Eight at a time, in any order.
    #[test]
    fn reads_may_come_out_of_order() {
        let mut prng = Prng::from_seed(1);
        for _ in 0..100 {
            let mut streams = Streams::default();
            let mut missed = 0;
            for round in 0..20 {
                let mut pieces: Vec<u32> = (8 * round..8 * round + 8).collect();
                while !pieces.is_empty() {
                    let place = prng.below(pieces.len() as u64) as usize;
                    let piece = pieces.swap_remove(place);
                    let found = read(&mut streams, 64 * piece, 64);
                    missed += u32::from(found.is_none() && round >= 2);
                }
            }
            // Streams that began in the midst of the first eight are left behind, and one of them may have its piece.
            assert!(missed <= 8, "{missed} of 144 are of no stream");
            assert!(streams.known.len() <= 3, "{}", streams.known.len());
            assert!(streams.known.iter().any(|stream| stream.next == 64 * 160));
        }
    }

    #[test]
    fn reads_anywhere_are_no_stream() {
        let mut streams = Streams::default();
        let mut prng = Prng::from_seed(1);
        for _ in 0..100_000 {
            let start = prng.below(u64::from(BLOCKS_PER_SLICE) - 8) as u32;
            read(&mut streams, start, 1);
        }
        assert_eq!(streams.known.len(), 0);
        assert_eq!(streams.young.len(), YOUNG_MAX);
    }

    #[test]
    fn streams_go_on_beside_each_other_and_beside_other_reads() {
        let mut streams = Streams::default();
        let mut prng = Prng::from_seed(1);
        for round in 0..100 {
            for stream in 0..10 {
                let start = 10_000 * stream + 2 * round;
                let found = read(&mut streams, start, 2);
                assert_eq!(found.is_some(), round >= 2);
                let elsewhere = 500_000 + prng.below(500_000) as u32;
                read(&mut streams, elsewhere, 1);
            }
        }
        assert_eq!(streams.known.len(), 10);
        for stream in 10..100 {
            for round in 0..3 {
                read(&mut streams, 5000 * stream + 2 * round, 2);
            }
        }
        assert_eq!(streams.known.len(), STREAMS_MAX);
    }

    #[test]
    fn the_reach_grows_and_is_asked_for_in_halves() {
        let mut stream = Stream::new(SLICE, BlockRange::new(0, 64), 1);
        assert_eq!(stream.wanted(REACH_MAX), 1..3);
        stream.asked = 3;
        stream.reach = 8;
        assert_eq!(stream.wanted(REACH_MAX), 3..10);
        stream.asked = 10;
        for page in 2..5 {
            assert!(stream.takes(SLICE, BlockRange::new(64 * (page - 1), 64), 1));
            assert!(stream.wanted(REACH_MAX).is_empty(), "{page}");
        }
        assert!(stream.takes(SLICE, BlockRange::new(256, 64), 1));
        assert_eq!(stream.wanted(REACH_MAX), 10..14);
        assert!(stream.wanted(4).is_empty(), "there is room for less");
        stream.next = BLOCKS_PER_SLICE - 64;
        assert_eq!(
            stream.wanted(REACH_MAX),
            PAGES_PER_SLICE - 1..PAGES_PER_SLICE
        );
        stream.next = BLOCKS_PER_SLICE;
        assert!(stream.wanted(REACH_MAX).is_empty());
    }

    /// What was read too early is on its way already.
    #[test]
    fn what_came_too_early_is_not_read_ahead() {
        let mut stream = Stream::new(SLICE, BlockRange::new(0, 64), 1);
        assert!(stream.takes(SLICE, BlockRange::new(3 * 64, 64), 1));
        assert_eq!((stream.next, stream.front()), (64, 4 * 64));
        assert_eq!(stream.wanted(1), 4..6);
        assert!(stream.takes(SLICE, BlockRange::new(64, 64), 1));
        assert_eq!((stream.next, stream.front()), (2 * 64, 4 * 64));
        assert!(stream.takes(SLICE, BlockRange::new(2 * 64, 64), 1));
        assert_eq!((stream.next, stream.front()), (4 * 64, 4 * 64));
        assert_eq!(stream.continued, 3);
        assert!(
            !stream.takes(SLICE, BlockRange::new(0, 64), 1),
            "it was there"
        );
        // The missing one was another stream's.
        for piece in 5..5 + OVERTAKEN_MAX {
            assert_eq!(stream.next, 4 * 64);
            assert!(stream.takes(SLICE, BlockRange::new(64 * piece, 64), 1));
        }
        let end = BlockRange::new(64 * (5 + OVERTAKEN_MAX), 64);
        assert!(stream.takes(SLICE, end, 1));
        assert_eq!((stream.next, stream.early), (end.end(), 0));
        let far = BlockRange::new(end.end() + (EARLY_MAX + 1) * 64, 64);
        assert!(!stream.takes(SLICE, far, 1));
    }

    #[test]
    fn those_that_go_on_are_counted() {
        let mut streams = Streams::default();
        assert_eq!(streams.count(), 0);
        for stream in 0..8 {
            for piece in 0..3 {
                read(&mut streams, 10_000 * stream + piece, 1);
            }
        }
        assert_eq!(streams.count(), 8);
        streams.reads += IDLE_READS;
        assert_eq!(streams.count(), 0);
    }
}
