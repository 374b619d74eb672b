//! Checks of a journal in use: each chain is read from its medium, and followed as recovery would follow it.
//!
//! Nothing else reads the journal before the next start. What lies still in it for long, the last word on slices
//! that nobody writes to, may have rotted by then, and is in memory as yet: once it is known to be bad its owner
//! writes it again elsewhere, as it does before every trim.
//!
//! It reads a piece at a time, when its owner says so, and writes nothing but blank headers: a segment that had a bad place gets
//! one before it can be used again, for a bad header in a segment that is not used is taken for a lost end of a chain.
//!
//! Invariants:
//! - memory is bounded by one segment;
//! - only what was durable when its chain's turn began is looked at, and a segment counts as bad only if it is part
//!   of the chain when all of it has been read, from one place;
//! - what has been trimmed is not read, and a group is written that says so: until then a recovery reads it;
//! - a read that fails counts as bad bytes.

use alloc::vec::Vec;

use holdfast_format::{HEADER_BLOCK, PatientRead};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::{Bytes, BytesMut};

use crate::chain::{self, HeaderFound, SegmentFound};
use crate::partition::{Partition, Segment};
use crate::walk::Walk;
use crate::{CHECK_TOKENS, GroupNumber, Journal, JournalPlace, blank_segment, has_room_to_mend};

/// Bytes that are read at a time: little, for hosts' reads and writes wait behind it.
const PIECE_BYTES: u32 = 256 << 10;

/// A segment of a chain in which something durable is missing or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RottenSegment {
    /// Its device.
    pub disk: DiskId,
    /// Whose it is.
    pub partition: u16,
    /// Which segment of the journal.
    pub index: u32,
    /// The first group that is bad; the segment's first one if its header is.
    pub group: GroupNumber,
    /// Where that begins on the device, in bytes.
    pub offset: u64,
}

/// The journal's device has failed to write a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal's device failed to write a segment's header")]
pub struct BlankFailed;

/// What checks have done since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Times that all chains were read.
    pub rounds: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Segments found with a bad place.
    pub rotten: u64,
    /// Of these, those that do not matter any more: what did was written again, and that is on stable storage.
    pub mended: u64,
}

/// A round of reading, if one is under way.
#[derive(Debug, Default)]
pub(crate) struct Check {
    turn: Option<Turn>,
    /// Segments that are in no chain any more, and get blank headers.
    to_blank: Vec<u32>,
    /// The one that gets it now.
    blanking: Option<(DiskToken, u32)>,
    next_token: u64,
    checked: Checked,
}

impl Check {
    /// A segment that had a bad place can be used again, once it has a blank header.
    pub(crate) fn blank_later(&mut self, index: u32) {
        self.to_blank.push(index);
    }

    /// The journal is in another place. What was read of a segment in the old one is read there again; a piece under
    /// way is the last that is asked for in the old one.
    pub(crate) fn moved(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.reading.take_if(|reading| reading.piece.is_none());
        }
    }

    fn token(&mut self, base: u64) -> DiskToken {
        let token = DiskToken(base + CHECK_TOKENS + self.next_token);
        self.next_token += 1;
        token
    }
}

/// A chain that is being read.
#[derive(Debug)]
struct Turn {
    partition: u16,
    walk: Walk,
    /// The group after the last one that counts.
    until: u64,
    /// Where that one ends in its segment, in bytes.
    end: u32,
    reading: Option<Reading>,
}

/// A segment that is being read.
#[derive(Debug)]
struct Reading {
    disk: DiskId,
    segment: Segment,
    /// Bytes that are read of it.
    length: usize,
    bytes: BytesMut,
    /// The piece under way, with its next operation.
    piece: Option<(PatientRead, Option<DiskOp>)>,
}

impl Turn {
    fn new(number: u16, partition: &Partition, segment_bytes: u32) -> Self {
        let (until, end) = partition.durable_end(segment_bytes);
        Self {
            partition: number,
            walk: walk(number, partition),
            until,
            end,
            reading: None,
        }
    }

    /// The segment that is next, if what counts goes as far.
    fn wants(&self) -> Option<Segment> {
        let segment = self.walk.wants().copied();
        segment.filter(|segment| segment.first_group < self.until)
    }

    /// The group after the last one that counts in the segment that is next, and how far that is written, at most.
    fn end_of_next(&self, segment_bytes: u32) -> (u64, u32) {
        match self.walk.first_group_after() {
            Some(next) if next < self.until => (next, segment_bytes),
            _ => (self.until, self.end),
        }
    }

    /// Follows the chain through a segment, all of whose bytes that count are there: the first bad place, if there is one.
    fn follow(&mut self, journal: &JournalPlace, bytes: &Bytes) -> Option<(u64, usize)> {
        let segment = self.wants().expect("a segment was read");
        let (until, _) = self.end_of_next(journal.layout.segment_bytes);
        let block = &bytes[..HEADER_BLOCK];
        let header = chain::from_header(journal, segment.index, Some(block));
        let is_header_sound = header
            == SegmentFound::Used {
                partition: self.partition,
                segment,
                header: HeaderFound::Sound,
            };
        self.walk.take(journal, bytes, &mut Vec::new());
        let (reached, cursor) = self.walk.expected();
        let ends_early = (reached < until).then_some((reached, cursor));
        let bad_group = self.walk.first_bad().or(ends_early);
        let bad_header = (!is_header_sound).then_some((segment.first_group, 0));
        bad_header.or(bad_group)
    }
}

/// A walk over all that is in a chain now.
fn walk(number: u16, partition: &Partition) -> Walk {
    let segments = partition.segments().copied().collect();
    let oldest = partition.segments().next();
    let oldest_group = oldest.map_or(0, |segment| segment.first_group);
    Walk::new(number, segments, oldest_group, oldest_group, 0)
}

impl Journal {
    /// Begins to read all chains, unless that is under way.
    pub fn begin_check(&mut self) {
        if self.check.turn.is_none() {
            let turn = self.turn_of(0);
            self.check.turn = Some(turn);
            self.go_on_with_turns();
        }
    }

    /// Whether chains are being read.
    #[must_use]
    pub fn is_checking(&self) -> bool {
        self.check.turn.is_some()
    }

    /// What checks have done.
    #[must_use]
    pub fn checked(&self) -> Checked {
        let mended = self.partitions.iter().map(Partition::mended);
        Checked {
            mended: mended.sum(),
            ..self.check.checked
        }
    }

    /// Bytes that the next piece takes, if none is under way.
    #[must_use]
    pub fn next_check_bytes(&self) -> Option<u32> {
        let turn = self.check.turn.as_ref()?;
        match &turn.reading {
            Some(reading) if reading.piece.is_some() => None,
            Some(reading) => Some(reading.next_bytes()),
            None => {
                let (_, end) = turn.end_of_next(self.place.layout.segment_bytes);
                Some(PIECE_BYTES.min(end))
            }
        }
    }

    /// Begins with the next piece, if a round is under way and no piece is.
    pub fn next_check_request(&mut self) -> Option<DiskRequest> {
        self.next_check_bytes()?;
        let place = self.place;
        let turn = self.check.turn.as_mut()?;
        if turn.reading.is_none() {
            let (_, end) = turn.end_of_next(place.layout.segment_bytes);
            turn.reading = Some(Reading {
                disk: place.disk,
                segment: turn.wants().expect("a turn has something to read"),
                length: end as usize,
                bytes: BytesMut::with_capacity(end as usize),
                piece: None,
            });
        }
        let reading = turn.reading.as_mut().expect("a segment is being read");
        let from = place.layout.segment_offset(reading.segment.index);
        let offset = from + reading.bytes.len() as u64;
        let (reader, op) = PatientRead::start(offset, reading.next_bytes());
        reading.piece = Some((reader, Some(op)));
        self.rest_of_check_piece()
    }

    /// The next request of the piece under way, if one has to follow the last one.
    pub fn rest_of_check_piece(&mut self) -> Option<DiskRequest> {
        let reading = self.check.turn.as_mut()?.reading.as_mut()?;
        let (_, op) = reading.piece.as_mut()?;
        let (op, disk) = (op.take()?, reading.disk);
        let token = self.check.token(self.place.token_base);
        Some(DiskRequest { token, disk, op })
    }

    /// The next blank header for a segment that had a bad place, if there is one to be written.
    pub fn next_blank_request(&mut self) -> Option<DiskRequest> {
        if self.check.blanking.is_some() {
            return None;
        }
        let index = self.check.to_blank.pop()?;
        let token = self.check.token(self.place.token_base);
        self.check.blanking = Some((token, index));
        let mut request = blank_segment(&self.place, index);
        request.token = token;
        // Nothing flushes it: as long as it is not there each start doubts the ends of all chains.
        if let DiskOp::Write { durable, .. } = &mut request.op {
            *durable = true;
        }
        Some(request)
    }

    /// Whether a request was a check's.
    #[must_use]
    pub fn is_for_check(&self, token: DiskToken) -> bool {
        token.0 >= self.place.token_base + CHECK_TOKENS
    }

    /// Takes the end of a check's request. A bad segment, when all of it has been read, if that was not known before:
    /// it is to be trimmed out of turn, and is [`rotten`](Self::is_rotten) until then.
    ///
    /// # Errors
    /// [`BlankFailed`] if the device fails to write.
    pub fn take_checked(
        &mut self,
        completion: DiskCompletion,
    ) -> Result<Option<RottenSegment>, BlankFailed> {
        let is_blank = |(token, _): &mut (DiskToken, u32)| *token == completion.token;
        if let Some((_, index)) = self.check.blanking.take_if(is_blank) {
            completion.result.map_err(|_| BlankFailed)?;
            self.free.push_back(index);
            return Ok(None);
        }
        Ok(self.take_piece(completion))
    }

    fn take_piece(&mut self, completion: DiskCompletion) -> Option<RottenSegment> {
        let turn = self.check.turn.as_mut().expect("a check is under way");
        let reading = turn.reading.as_mut().expect("a segment is being read");
        if reading.disk != self.place.disk {
            turn.reading = None;
            self.go_on_with_turns();
            return None;
        }
        let (reader, op) = reading.piece.as_mut().expect("a piece is under way");
        match reader.take(completion.result) {
            Err(again) => {
                *op = Some(again);
                return None;
            }
            Ok(bytes) => {
                self.check.checked.bytes += bytes.len() as u64;
                reading.bytes.extend_from_slice(&bytes);
                reading.piece = None;
            }
        }
        let partition = &self.partitions[usize::from(turn.partition)];
        let is_there = partition.has_segment(&reading.segment);
        if is_there && reading.bytes.len() < reading.length {
            return None;
        }
        let reading = turn.reading.take().expect("a segment was read");
        let mut rotten = None;
        if is_there {
            let bytes = reading.bytes.freeze();
            if let Some((group, at)) = turn.follow(&self.place, &bytes) {
                rotten = self.found_rotten(&reading.segment, GroupNumber(group), at as u64);
            }
        }
        self.go_on_with_turns();
        rotten
    }

    /// Whether the oldest segment of `partition`, or one after it, has a bad place: then it is to be trimmed as soon as
    /// there is another one, although it may not be due.
    #[must_use]
    pub fn is_rotten(&self, partition: u16) -> bool {
        self.partition(partition).is_rotten()
    }

    /// Has `partition` begin another segment if the one that it writes has a bad place, and there is room.
    pub fn leave_rotten(&mut self, partition: u16) {
        let has_room = has_room_to_mend(&self.free, &self.place);
        let partition = self.partition_mut(partition);
        if partition.ends_rotten() && has_room {
            partition.force();
        }
    }

    fn found_rotten(
        &mut self,
        segment: &Segment,
        group: GroupNumber,
        at: u64,
    ) -> Option<RottenSegment> {
        let partition = self.check.turn.as_ref().expect("a turn").partition;
        if !self.partition_mut(partition).found_rotten(segment) {
            return None;
        }
        self.check.checked.rotten += 1;
        Some(RottenSegment {
            disk: self.place.disk,
            partition,
            index: segment.index,
            group,
            offset: self.place.layout.segment_offset(segment.index) + at,
        })
    }

    fn turn_of(&mut self, number: u16) -> Turn {
        let segment_bytes = self.place.layout.segment_bytes;
        self.partition_mut(number).announce();
        Turn::new(number, self.partition(number), segment_bytes)
    }

    /// Goes on to what is to be read next: past what was trimmed meanwhile, and to the next chain where one is done.
    fn go_on_with_turns(&mut self) {
        while let Some(turn) = &mut self.check.turn {
            let partition = &mut self.partitions[usize::from(turn.partition)];
            match turn.wants() {
                Some(segment) if partition.has_segment(&segment) => return,
                // What follows is there, and what came before it does not matter any more.
                Some(_) => {
                    partition.announce();
                    turn.walk = walk(turn.partition, partition);
                }
                None => {
                    let next = turn.partition + 1;
                    let is_last = next == self.place.partitions;
                    let turn = (!is_last).then(|| self.turn_of(next));
                    self.check.turn = turn;
                    self.check.checked.rounds += u64::from(is_last);
                }
            }
        }
    }
}

impl Reading {
    fn next_bytes(&self) -> u32 {
        PIECE_BYTES.min((self.length - self.bytes.len()) as u32)
    }
}
