//! One partition's chain, walked from its oldest group to its end.
//!
//! Invariants:
//! - a group is given to the owner only if it continues the chain and its data is whole, or if a
//!   later group shows that it had been on stable storage: then with the blocks that are bad;
//! - what does not continue the chain is a hole if something later shows that it had been durable,
//!   else the end.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::group::ReadGroup;
use holdfast_format::{HEADER_BLOCK, Hole, Looks};
use holdfast_stdx::Bytes;

use crate::chain::{group_of, next_group_of};
use crate::partition::{Partition, Segment};
use crate::recover::Found;
use crate::{GroupNumber, JournalPlace};

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Number of the group that comes next.
    expected: u64,
    /// Checksum of the one before, if it is known.
    previous: Option<u32>,
    /// Where the next one is in the current segment.
    cursor: usize,
}

#[derive(Debug)]
pub(crate) struct Walk {
    partition: u16,
    /// Of the chain, oldest first.
    segments: VecDeque<Segment>,
    /// Which of them is being walked.
    current: usize,
    oldest_group: u64,
    redo_from: u64,
    /// What the last group says was written over a bad one.
    overwrote: u64,
    position: Position,
    /// A group with bad data that nothing yet shows to have been durable, and where it was.
    doubtful: Option<(Position, ReadGroup)>,
    /// The last group was bad.
    suspect: bool,
    /// The first group of the segment taken last that is missing or bad, and where it should be, in bytes from the
    /// segment's beginning. A break at the segment's end is not among them: [`expected`](Self::expected) tells.
    first_bad: Option<(u64, usize)>,
}

impl Walk {
    /// A walk over those of `segments` that matter, given the last group's header says what is the
    /// oldest group, from where changes have to be redone, and what was written over a bad one.
    pub(crate) fn new(
        partition: u16,
        segments: VecDeque<Segment>,
        oldest_group: u64,
        redo_from: u64,
        overwrote: u64,
    ) -> Self {
        let segments: VecDeque<Segment> = segments
            .into_iter()
            .filter(|segment| segment.first_group >= oldest_group)
            .collect();
        Self {
            partition,
            segments,
            current: 0,
            oldest_group,
            redo_from,
            overwrote,
            position: Position {
                expected: oldest_group,
                previous: None,
                cursor: HEADER_BLOCK,
            },
            doubtful: None,
            suspect: false,
            first_bad: None,
        }
    }

    /// A last group that is torn says that what is before this one is trimmed. It is believed where that is not there any more: the
    /// segments were used again, so it had been durable, and has rotted since.
    pub(crate) fn leave_out_before(&mut self, oldest_group: u64) {
        let first = self.segments.front().map(|segment| segment.first_group);
        if let Some(first) =
            first.filter(|first| (self.oldest_group + 1..=oldest_group).contains(first))
        {
            self.oldest_group = first;
            self.position.expected = first;
        }
    }

    /// The group that comes next, and where it is, in bytes from the beginning of the segment taken last.
    pub(crate) fn expected(&self) -> (u64, usize) {
        (self.position.expected, self.position.cursor)
    }

    /// The first group of the segment taken last that something later shows to be missing or bad.
    pub(crate) fn first_bad(&self) -> Option<(u64, usize)> {
        self.first_bad
    }

    pub(crate) fn partition(&self) -> u16 {
        self.partition
    }

    /// The segment that has to be read next.
    pub(crate) fn wants(&self) -> Option<&Segment> {
        self.segments.get(self.current)
    }

    /// The first group of the segment after that.
    pub(crate) fn first_group_after(&self) -> Option<u64> {
        let next = self.segments.get(self.current + 1);
        next.map(|segment| segment.first_group)
    }

    /// Whether a group with this number may be one of the segment that is being walked. The next one begins with a number that was given
    /// out again where the last group here was torn, and what took its place did not fit.
    fn may_be_here(&self, group: u64) -> bool {
        self.first_group_after().is_none_or(|next| group < next)
    }

    /// Takes the bytes of the segment that was wanted.
    pub(crate) fn take(&mut self, place: &JournalPlace, bytes: &Bytes, found: &mut Vec<Found>) {
        let segment = self.segments[self.current];
        if segment.first_group > self.position.expected {
            self.skip_to(segment.first_group, HEADER_BLOCK, found);
        }
        self.first_bad = None;
        self.position.cursor = HEADER_BLOCK;
        loop {
            self.follow(place, segment, bytes, found);
            let next_first = self.first_group_after();
            if next_first == Some(self.position.expected) {
                break;
            }
            // The chain breaks here. Something later in the segment shows a hole; something in the
            // next segment too, when that is walked; nothing at all is the end.
            let after = self.position.cursor + HEADER_BLOCK;
            // After a hole nobody knows where in the segment the expected group is.
            let sought = self
                .position
                .previous
                .is_none()
                .then_some(self.position.expected);
            let later = next_group_of(place, self.partition, segment, bytes, after).filter(
                |(_, ReadGroup { header, .. })| {
                    let is_proof = header.durable_up_to >= self.position.expected;
                    self.may_be_here(header.group) && (Some(header.group) == sought || is_proof)
                },
            );
            match later {
                Some((offset, group)) => self.skip_to(group.header.group, offset, found),
                None if next_first.is_some() => break,
                None => {
                    self.end(place, segment, bytes);
                    break;
                }
            }
        }
        self.current += 1;
        if self.current < self.segments.len() {
            // A next segment was begun only after everything in this one was durable.
            self.settle(found);
        }
    }

    /// Follows the chain as far as it goes in this segment.
    fn follow(
        &mut self,
        place: &JournalPlace,
        segment: Segment,
        bytes: &Bytes,
        found: &mut Vec<Found>,
    ) {
        while let Some(group) =
            group_of(place, self.partition, segment, bytes, self.position.cursor)
        {
            let continues = group.header.group == self.position.expected
                && self.may_be_here(group.header.group)
                && self
                    .position
                    .previous
                    .is_none_or(|previous| previous == group.header.previous);
            if !continues {
                return;
            }
            if let Some((_, doubtful)) = &self.doubtful {
                if group.header.durable_up_to < doubtful.header.group {
                    return;
                }
                self.settle(found);
            }
            let before = self.position;
            self.position = Position {
                expected: group.header.group + 1,
                previous: Some(group.checksum),
                cursor: before.cursor + group.bytes,
            };
            if group.is_whole() {
                self.give(group, found);
            } else {
                self.doubtful = Some((before, group));
            }
        }
    }

    fn skip_to(&mut self, group: u64, offset: usize, found: &mut Vec<Found>) {
        assert!(group >= self.position.expected, "a walk goes forward");
        self.settle(found);
        if group > self.position.expected {
            let Position {
                expected, cursor, ..
            } = self.position;
            self.first_bad.get_or_insert((expected, cursor));
            found.push(Found::Hole {
                partition: self.partition,
                hole: Some(Hole {
                    first_group: self.position.expected,
                    next_group: group,
                }),
            });
        }
        self.position = Position {
            expected: group,
            previous: None,
            cursor: offset,
        };
    }

    fn settle(&mut self, found: &mut Vec<Found>) {
        if let Some((at, group)) = self.doubtful.take() {
            self.first_bad.get_or_insert((at.expected, at.cursor));
            self.give(group, found);
        }
    }

    fn give(&self, group: ReadGroup, found: &mut Vec<Found>) {
        let number = GroupNumber(group.header.group);
        let redo = group.header.group >= self.redo_from;
        found.extend(group.records.into_iter().map(|read| Found::Record {
            partition: self.partition,
            group: number,
            redo,
            read,
        }));
    }

    fn end(&mut self, place: &JournalPlace, segment: Segment, bytes: &Bytes) {
        if let Some((position, _)) = self.doubtful.take() {
            self.position = position;
            self.suspect = true;
            return;
        }
        let cursor = self.position.cursor;
        if cursor + HEADER_BLOCK <= bytes.len() {
            let block = &bytes[cursor..cursor + HEADER_BLOCK];
            let looks = Looks::at(block, place.nonce, segment.ordinal, self.position.expected);
            self.suspect = looks == Looks::LikeTheGroup;
        }
    }

    /// The partition, ready to go on where the chain ended.
    pub(crate) fn finish(self) -> Partition {
        assert!(self.wants().is_none(), "the walk is over");
        if self.segments.is_empty() {
            return Partition::new(self.partition);
        }
        let mut partition = Partition::resumed(
            self.partition,
            self.segments,
            self.position.cursor as u32,
            self.position.expected,
            self.position.previous.unwrap_or(0),
            self.oldest_group,
        );
        partition.has_overwritten(self.overwrote);
        if self.suspect {
            partition.doubt_end();
        }
        partition
    }
}
