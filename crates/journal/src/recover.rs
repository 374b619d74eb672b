//! Recovery: from a device to a journal that takes records again.
//!
//! It flushes first, so that what it reads is on stable storage; reads every segment's header, and the block
//! behind it; searches the segments whose header is bad, or not of their latest use; finds each partition's last group, which says where
//! the chain begins; walks the chain; and makes bad headers in chains good.
//!
//! Invariants:
//! - memory is bounded by one segment, whatever the journal holds;
//! - a read that fails counts as bad bytes, a write or flush that fails ends the recovery.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::{GroupHeader, HEADER_BLOCK, Hole, PatientRead, ReadRecord, SegmentHeader};
use holdfast_model::{DiskCompletion, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::Bytes;

use crate::chain::{self, HeaderFound, START_BYTES, SegmentFound};
use crate::partition::{Partition, Segment};
use crate::walk::Walk;
use crate::{GroupNumber, Journal, JournalPlace, START_BITS, write_header};

/// Headers that are read at a time.
const HEADERS_IN_FLIGHT: u32 = 32;

/// What recovery finds, in the order of each partition's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A record.
    Record {
        /// Its partition.
        partition: u16,
        /// Its group.
        group: GroupNumber,
        /// Whether what it changes has to be done again.
        redo: bool,
        /// The record, with the blocks whose data is bad. Its data shares the segment's buffer:
        /// copy what is kept.
        read: ReadRecord,
    },
    /// Groups that had been durable cannot be read.
    Hole {
        /// Their partition.
        partition: u16,
        /// Which they are; `None` if no group of the partition is left to tell.
        hole: Option<Hole>,
    },
    /// The chain's end.
    End {
        /// The partition.
        partition: u16,
        /// Before this group, which may be the one that comes next, there is or was a bad one that may have been
        /// durable; none as far as is known.
        suspect: Option<GroupNumber>,
    },
}

/// Why a journal cannot be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryFailed {
    /// The device failed to write or to flush.
    #[error("the journal's device failed during recovery")]
    Device,
    /// A segment was used in a start that the store's use counter does not know of: what says how
    /// often the store was opened is older than the journal. Going on would give numbers out twice.
    #[error("the journal was used in start {start}, after the last that the store knows of")]
    UseCounterBehind {
        /// The start in which it was used.
        start: u64,
    },
}

#[derive(Debug)]
enum Step {
    Flush,
    Headers,
    /// A segment is being read.
    Segment {
        reader: PatientRead,
        purpose: Purpose,
    },
    Heal {
        in_flight: u32,
    },
    HealFlush,
    Done,
}

/// What a segment is read for.
#[derive(Debug)]
enum Purpose {
    /// Its header is bad: to search it for groups.
    Search { index: u32 },
    /// To find the last group of a partition, newest segment first.
    Last {
        partition: u16,
        /// Those not yet looked at, oldest first; the one that is read is the last of them.
        left: VecDeque<Segment>,
        /// What the last group says, if that is torn.
        torn: Option<GroupHeader>,
    },
    /// To follow a partition's chain.
    Walk(Box<Walk>),
}

/// A journal that is being recovered.
#[derive(Debug)]
pub struct Recovery {
    place: JournalPlace,
    step: Step,
    segments: Vec<SegmentFound>,
    headers_asked: u32,
    headers_told: u32,
    partitions: Vec<Partition>,
    /// Partitions without a single good group.
    empty: Vec<u16>,
    next_token: u64,
}

impl Recovery {
    /// Begins.
    #[must_use]
    pub fn start(place: JournalPlace, requests: &mut Vec<DiskRequest>) -> Self {
        let mut recovery = Self {
            place,
            step: Step::Flush,
            segments: alloc::vec![SegmentFound::Unknown; place.layout.segment_count as usize],
            headers_asked: 0,
            headers_told: 0,
            partitions: Vec::new(),
            empty: Vec::new(),
            next_token: u64::from(u32::MAX),
        };
        recovery.ask(DiskOp::Flush, requests);
        recovery
    }

    /// Whether it is over: [`finish`](Self::finish) gives the journal.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// The journal.
    #[must_use]
    pub fn finish(self) -> Journal {
        assert!(self.is_done(), "recovery is over");
        let mut used: Vec<u32> = Vec::new();
        for partition in &self.partitions {
            used.extend(partition.segments().map(|segment| segment.index));
        }
        let doubted = self.headers_to_blank();
        let is_free = |index: &u32| !used.contains(index) && !doubted.contains(index);
        let mut free: VecDeque<u32> = (0..self.place.layout.segment_count)
            .filter(is_free)
            .collect();
        // These are the last that are taken: see `Doubted`.
        free.extend(&doubted);
        Journal::recovered(self.place, self.partitions, free, doubted)
    }

    /// Takes the end of a request and goes on.
    ///
    /// # Errors
    /// [`RecoveryFailed`]; nothing but headers of segments was written until then.
    pub fn handle(
        &mut self,
        completion: DiskCompletion,
        requests: &mut Vec<DiskRequest>,
        found: &mut Vec<Found>,
    ) -> Result<(), RecoveryFailed> {
        match core::mem::replace(&mut self.step, Step::Done) {
            Step::Flush => {
                completion.result.map_err(|_| RecoveryFailed::Device)?;
                self.step = Step::Headers;
                self.ask_headers(requests);
            }
            Step::Headers => self.take_header(&completion, requests)?,
            Step::Segment {
                mut reader,
                purpose,
            } => match reader.take(completion.result) {
                Err(op) => {
                    self.ask(op, requests);
                    self.step = Step::Segment { reader, purpose };
                }
                Ok(bytes) => self.take_segment(purpose, &bytes, requests, found)?,
            },
            Step::Heal { in_flight } => {
                completion.result.map_err(|_| RecoveryFailed::Device)?;
                if in_flight > 1 {
                    self.step = Step::Heal {
                        in_flight: in_flight - 1,
                    };
                } else {
                    self.step = Step::HealFlush;
                    self.ask(DiskOp::Flush, requests);
                }
            }
            Step::HealFlush => {
                completion.result.map_err(|_| RecoveryFailed::Device)?;
            }
            Step::Done => unreachable!("nothing is in flight when recovery is over"),
        }
        if self.is_done() {
            self.conclude(found);
        }
        Ok(())
    }

    /// What can be said only when all partitions have been walked.
    fn conclude(&self, found: &mut Vec<Found>) {
        found.extend(self.empty.iter().map(|partition| Found::Hole {
            partition: *partition,
            hole: None,
        }));
        found.extend(
            self.partitions
                .iter()
                .zip(0..)
                .map(|(chain, partition)| Found::End {
                    partition,
                    suspect: chain.overwrote(),
                }),
        );
    }

    fn ask(&mut self, op: DiskOp, requests: &mut Vec<DiskRequest>) {
        self.next_token += 1;
        requests.push(DiskRequest {
            token: DiskToken(self.place.token_base + self.next_token),
            disk: self.place.disk,
            op,
        });
    }

    fn read_segment(&mut self, index: u32, purpose: Purpose, requests: &mut Vec<DiskRequest>) {
        let offset = self.place.layout.segment_offset(index);
        let (reader, op) = PatientRead::start(offset, self.place.layout.segment_bytes);
        self.ask(op, requests);
        self.step = Step::Segment { reader, purpose };
    }

    /// Takes the bytes of a segment that was read for `purpose`.
    fn take_segment(
        &mut self,
        purpose: Purpose,
        bytes: &Bytes,
        requests: &mut Vec<DiskRequest>,
        found: &mut Vec<Found>,
    ) -> Result<(), RecoveryFailed> {
        match purpose {
            Purpose::Search { index } => {
                // It may have been the block behind the header that could not be read.
                let start = &bytes[..START_BYTES];
                self.segments[index as usize] =
                    match chain::from_header(&self.place, index, Some(start)) {
                        SegmentFound::BadHeader => chain::from_groups(&self.place, index, bytes),
                        found => found,
                    };
                self.search_next(index + 1, requests)?;
            }
            Purpose::Last {
                partition,
                left,
                torn,
            } => self.take_last(partition, left, torn, bytes, requests),
            Purpose::Walk(mut walk) => {
                walk.take(&self.place, bytes, found);
                self.walk(walk, requests);
            }
        }
        Ok(())
    }

    fn ask_headers(&mut self, requests: &mut Vec<DiskRequest>) {
        let count = self.place.layout.segment_count;
        while self.headers_asked < count
            && self.headers_asked - self.headers_told < HEADERS_IN_FLIGHT
        {
            requests.push(DiskRequest {
                token: DiskToken(self.place.token_base + u64::from(self.headers_asked)),
                disk: self.place.disk,
                op: DiskOp::Read {
                    offset: self.place.layout.segment_offset(self.headers_asked),
                    length: START_BYTES as u32,
                },
            });
            self.headers_asked += 1;
        }
    }

    fn take_header(
        &mut self,
        completion: &DiskCompletion,
        requests: &mut Vec<DiskRequest>,
    ) -> Result<(), RecoveryFailed> {
        let index = (completion.token.0 - self.place.token_base) as u32;
        let start = completion.result.as_ref().ok().map(|bytes| &bytes[..]);
        self.segments[index as usize] = chain::from_header(&self.place, index, start);
        self.headers_told += 1;
        self.step = Step::Headers;
        self.ask_headers(requests);
        if self.headers_told == self.place.layout.segment_count {
            self.search_next(0, requests)?;
        }
        Ok(())
    }

    fn search_next(
        &mut self,
        from: u32,
        requests: &mut Vec<DiskRequest>,
    ) -> Result<(), RecoveryFailed> {
        let bad = (from..self.place.layout.segment_count)
            .find(|index| self.segments[*index as usize] == SegmentFound::BadHeader);
        match bad {
            Some(index) => self.read_segment(index, Purpose::Search { index }, requests),
            None => {
                self.check_starts()?;
                self.last(0, requests);
            }
        }
        Ok(())
    }

    /// Refuses a journal that is newer than the superblocks: both copies of them were lost, and
    /// came back from an older copy of the device.
    fn check_starts(&self) -> Result<(), RecoveryFailed> {
        let ordinals = self.segments.iter().filter_map(|found| match found {
            SegmentFound::Used { segment, .. } => Some(segment.ordinal),
            _ => None,
        });
        match ordinals.max().map(|ordinal| ordinal >> START_BITS) {
            Some(start) if start >= self.place.use_counter => {
                Err(RecoveryFailed::UseCounterBehind { start })
            }
            _ => Ok(()),
        }
    }

    fn last(&mut self, partition: u16, requests: &mut Vec<DiskRequest>) {
        if partition == self.place.partitions {
            self.heal(requests);
            return;
        }
        let left = chain::of_partition(&self.segments, partition);
        self.last_in(partition, left, None, requests);
    }

    fn last_in(
        &mut self,
        partition: u16,
        left: VecDeque<Segment>,
        torn: Option<GroupHeader>,
        requests: &mut Vec<DiskRequest>,
    ) {
        if let Some(segment) = left.back() {
            let index = segment.index;
            let purpose = Purpose::Last {
                partition,
                left,
                torn,
            };
            self.read_segment(index, purpose, requests);
        } else if let Some(header) = torn {
            // There is nothing before it: it was the first one, or what is trimmed has been said to be so by this very one.
            self.begin_walk(partition, &header, None, requests);
        } else {
            // No segment has a single good group: the chain begins with its oldest segment.
            // A store that was opened before has written to each of its partitions.
            if self.place.use_counter > 1 {
                self.empty.push(partition);
            }
            let segments = chain::of_partition(&self.segments, partition);
            let oldest = segments.front().map_or(1, |segment| segment.first_group);
            let walk = Walk::new(partition, segments, oldest, oldest, 0);
            self.walk(Box::new(walk), requests);
        }
    }

    /// Of the last groups only one that counts is believed: what a torn one says is trimmed may not be used again before a durable
    /// one has said so, too.
    fn take_last(
        &mut self,
        partition: u16,
        mut left: VecDeque<Segment>,
        mut torn: Option<GroupHeader>,
        bytes: &Bytes,
        requests: &mut Vec<DiskRequest>,
    ) {
        let segment = left.pop_back().expect("the segment that was read");
        let mut later = chain::of_partition(&self.segments, partition).into_iter();
        let next = later.find(|later| later.ordinal > segment.ordinal);
        let mut offset = HEADER_BLOCK;
        let mut last: Option<GroupHeader> = None;
        let mut counts = None;
        while let Some((at, group)) =
            chain::next_group_of(&self.place, partition, segment, bytes, offset)
        {
            if next.is_some_and(|next| group.header.group >= next.first_group) {
                // It was torn, and the next segment begins with what took its place.
                break;
            }
            offset = at + group.bytes;
            // A next segment was begun only after everything in this one was durable.
            counts = match group.is_whole() || next.is_some() {
                true => Some(group.header),
                false => last.filter(|last| group.header.durable_up_to >= last.group),
            };
            last = Some(group.header);
        }
        // It is the very last one, or there is none.
        torn = torn.or(last.filter(|last| counts.is_none_or(|counts| counts.group < last.group)));
        match counts {
            Some(header) => self.begin_walk(partition, &header, torn.as_ref(), requests),
            None => self.last_in(partition, left, torn, requests),
        }
    }

    /// Follows a chain, as its last group says that counts.
    fn begin_walk(
        &mut self,
        partition: u16,
        header: &GroupHeader,
        torn: Option<&GroupHeader>,
        requests: &mut Vec<DiskRequest>,
    ) {
        let segments = chain::of_partition(&self.segments, partition);
        let mut walk = Walk::new(
            partition,
            segments,
            header.oldest_group,
            header.redo_from,
            header.overwrote,
        );
        if let Some(torn) = torn {
            walk.leave_out_before(torn.oldest_group);
        }
        self.walk(Box::new(walk), requests);
    }

    fn walk(&mut self, walk: Box<Walk>, requests: &mut Vec<DiskRequest>) {
        match walk.wants() {
            Some(segment) => {
                let index = segment.index;
                self.read_segment(index, Purpose::Walk(walk), requests);
            }
            None => {
                let partition = walk.partition();
                self.partitions.push(walk.finish());
                self.last(partition + 1, requests);
            }
        }
    }

    /// Makes bad headers in chains what they were, where that is certain: whoever reads the journal later need not search the segment,
    /// nor take for rotten what power has torn. Those in no chain stay as they are until each partition has said what they tell.
    fn heal(&mut self, requests: &mut Vec<DiskRequest>) {
        if !self.headers_to_blank().is_empty() {
            // One of them may have been the next segment of any chain.
            self.partitions.iter_mut().for_each(Partition::doubt_end);
        }
        let headers = self.headers_to_restore();
        if headers.is_empty() {
            self.step = Step::Done;
            return;
        }
        self.step = Step::Heal {
            in_flight: headers.len() as u32,
        };
        requests.extend(
            headers
                .iter()
                .map(|header| write_header(&self.place, header, Vec::new())),
        );
    }

    /// The segments with bad headers that are in no chain.
    fn headers_to_blank(&self) -> Vec<u32> {
        let in_chains = |index: u32| {
            let mut segments = self.partitions.iter().flat_map(Partition::segments);
            segments.any(|segment| segment.index == index)
        };
        let is_bad = |found: &SegmentFound| match found {
            SegmentFound::Unused { bad_header } => *bad_header,
            SegmentFound::Used { header, .. } => *header != HeaderFound::Sound,
            SegmentFound::Unknown | SegmentFound::BadHeader => false,
        };
        let all = self.segments.iter().zip(0..);
        all.filter(|(found, index)| is_bad(found) && !in_chains(*index))
            .map(|(_, index)| index)
            .collect()
    }

    /// What bad headers in chains should say, where that is known.
    fn headers_to_restore(&self) -> Vec<SegmentHeader> {
        let is_told = |segment: &Segment| {
            let found = &self.segments[segment.index as usize];
            let told = HeaderFound::Told;
            matches!(found, SegmentFound::Used { header, .. } if *header == told)
        };
        let headers = self.partitions.iter().flat_map(|partition| {
            let told = partition.segments().filter(|segment| is_told(segment));
            told.map(|segment| partition.segment_header(&self.place, *segment))
        });
        headers.collect()
    }
}
