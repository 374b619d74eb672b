//! One partition: a chain of groups over the segments that it has taken from the pool.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::segment::SEGMENT_HEADER_BYTES;
use holdfast_format::{GroupHeader, GroupWriter, HEADER_BLOCK, Record, SegmentHeader};
use holdfast_model::{DiskOp, Sequence, SliceId};

use crate::{Chain, ChainSegment, Footprint, GROUP_DATA_BYTES_MAX, GroupNumber, JournalPlace};

/// A segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) index: u32,
    pub(crate) ordinal: u64,
    pub(crate) first_group: u64,
}

/// What a group that is being written holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its number.
    pub group: GroupNumber,
    /// From where it says that changes have to be redone.
    pub redo_from: GroupNumber,
    /// Its records, in order.
    pub records: Vec<WrittenRecord>,
}

/// A record in a group that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenRecord {
    /// The tag that it was appended with.
    pub tag: u64,
    /// Its slice.
    pub slice: SliceId,
    /// The committed point that it states.
    pub committed: Sequence,
}

#[derive(Debug)]
pub(crate) struct Partition {
    number: u16,
    /// Oldest first; the last one is being written.
    segments: VecDeque<Segment>,
    /// Trimmed; to be released when a durable group has said so. With the oldest group to be said.
    trimmed: Vec<(u64, Segment)>,
    /// Where the next group goes in the last segment.
    cursor: u32,
    next_group: u64,
    /// Checksum of the last group's header.
    previous: u32,
    oldest_group: u64,
    pins: BTreeMap<GroupNumber, u32>,
    pending: VecDeque<(Record, u64)>,
    /// What is pending takes so much.
    footprint: Footprint,
    forced: bool,
    /// What the group in flight says is the oldest.
    in_flight: Option<u64>,
    /// Where the last group begins that was begun, in bytes from the beginning of its segment.
    last_from: u32,
    /// The last segment's header is not written yet.
    header_due: bool,
    /// The newest group that was written, or will be, over a bad one; zero if none is known of.
    overwrote: u64,
    /// The ordinals of segments with a bad place, until a durable group has said that they are trimmed.
    rotten: BTreeSet<u64>,
    /// How many have been so far.
    mended: u64,
}

impl Partition {
    pub(crate) fn new(number: u16) -> Self {
        Self::resumed(number, VecDeque::new(), 0, 1, 0, 1)
    }

    /// The group that is written next takes the place of one that is bad, and may have been durable.
    pub(crate) fn doubt_end(&mut self) {
        self.overwrote = self.next_group;
    }

    /// Some group was written over a bad one, says whatever was written last.
    pub(crate) fn has_overwritten(&mut self, overwrote: u64) {
        self.overwrote = overwrote;
    }

    /// The group before which something may be missing that had been durable, if that is not trimmed.
    pub(crate) fn overwrote(&self) -> Option<GroupNumber> {
        let is_known = self.overwrote > 0 && self.overwrote >= self.oldest_group;
        is_known.then_some(GroupNumber(self.overwrote))
    }

    /// A chain that goes on at `cursor` of its last segment.
    pub(crate) fn resumed(
        number: u16,
        segments: VecDeque<Segment>,
        cursor: u32,
        next_group: u64,
        previous: u32,
        oldest_group: u64,
    ) -> Self {
        Self {
            number,
            segments,
            trimmed: Vec::new(),
            cursor,
            next_group,
            previous,
            oldest_group,
            pins: BTreeMap::new(),
            pending: VecDeque::new(),
            footprint: Footprint::default(),
            forced: false,
            in_flight: None,
            last_from: 0,
            header_due: false,
            overwrote: 0,
            rotten: BTreeSet::new(),
            mended: 0,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn push(&mut self, record: Record, tag: u64) {
        let (header, data) = GroupWriter::size(&record);
        self.footprint.add(header, data);
        self.pending.push_back((record, tag));
    }

    /// Segments that are begun at most until `more` is written behind what is pending.
    pub(crate) fn segments_for(&self, place: &JournalPlace, more: &Footprint) -> u32 {
        let room = match self.segments.is_empty() {
            true => 0,
            false => self.room(place),
        };
        let all = self.footprint.and(more);
        all.segments(place.layout.segment_bytes, room)
    }

    pub(crate) fn force(&mut self) {
        self.forced = true;
    }

    /// Has a group say what has been trimmed, if none says all of it yet.
    pub(crate) fn announce(&mut self) {
        let last = self.trimmed.last().map(|(oldest, _)| *oldest);
        self.forced |= last > self.in_flight;
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        self.in_flight.is_none() && (self.forced || !self.pending.is_empty())
    }

    /// Whether the next record does not fit in what is left of the last segment.
    pub(crate) fn needs_segment(&self, place: &JournalPlace) -> bool {
        if self.segments.is_empty() {
            return true;
        }
        let room = self.room(place);
        let needed = match self.pending.front() {
            None => HEADER_BLOCK,
            Some((record, _)) => {
                let (header, data) = GroupWriter::size(record);
                GroupWriter::new()
                    .bytes_with(header, data)
                    .expect("one record fits in a header")
            }
        };
        needed > room
    }

    fn room(&self, place: &JournalPlace) -> usize {
        assert!(
            self.cursor <= place.layout.segment_bytes,
            "the cursor lies in the segment"
        );
        (place.layout.segment_bytes - self.cursor) as usize
    }

    /// The segments of the chain, each with how far it may be written, in bytes from its beginning.
    pub(crate) fn written(&self, segment_bytes: u32) -> impl Iterator<Item = (u32, u32)> {
        let last = self.segments.len().saturating_sub(1);
        let segments = self.segments.iter().enumerate();
        segments.map(move |(place, segment)| {
            let end = if place == last {
                self.cursor
            } else {
                segment_bytes
            };
            (segment.index, end)
        })
    }

    pub(crate) fn open_segment(&mut self, index: u32, ordinal: u64) {
        assert!(self.in_flight.is_none(), "the last segment is quiet");
        if let Some(last) = self.segments.back() {
            assert!(last.ordinal < ordinal, "ordinals rise");
        }
        self.segments.push_back(Segment {
            index,
            ordinal,
            first_group: self.next_group,
        });
        self.cursor = SEGMENT_HEADER_BYTES as u32;
        self.header_due = true;
        if self.segments.len() == 1 {
            self.oldest_group = self.next_group;
        }
    }

    pub(crate) fn write_group(
        &mut self,
        place: &JournalPlace,
        mut committed: impl FnMut(SliceId) -> Sequence,
    ) -> (DiskOp, Written) {
        assert!(self.in_flight.is_none(), "one group at a time");
        let room = self.room(place);
        let mut writer = GroupWriter::new();
        let mut records = Vec::new();
        let mut data_bytes = 0;
        while let Some((record, _)) = self.pending.front() {
            let (header, data) = GroupWriter::size(record);
            let fits = writer
                .bytes_with(header, data)
                .is_some_and(|bytes| bytes <= room);
            if !fits || (data_bytes > 0 && data_bytes + data > GROUP_DATA_BYTES_MAX) {
                break;
            }
            let (mut record, tag) = self.pending.pop_front().expect("there is a front");
            self.footprint.remove(header, data);
            record.committed = committed(record.slice);
            writer.push(&record);
            data_bytes += data;
            records.push(WrittenRecord {
                tag,
                slice: record.slice,
                committed: record.committed,
            });
        }
        self.forced = false;
        let redo_from = GroupNumber(self.redo_from());
        (
            self.write(place, writer),
            Written {
                group: GroupNumber(self.next_group - 1),
                redo_from,
                records,
            },
        )
    }

    fn write(&mut self, place: &JournalPlace, writer: GroupWriter) -> DiskOp {
        let segment = *self.segments.back().expect("a segment is open");
        let header = GroupHeader {
            store: place.store,
            nonce: place.nonce,
            partition: self.number,
            ordinal: segment.ordinal,
            group: self.next_group,
            previous: self.previous,
            durable_up_to: self.next_group - 1,
            oldest_group: self.oldest_group,
            redo_from: self.redo_from(),
            overwrote: self.overwrote().map_or(0, |group| group.0),
        };
        let (mut parts, checksum) = writer.finish(&header);
        let bytes: usize = parts.iter().map(holdfast_stdx::Bytes::len).sum();
        let mut offset = place.layout.segment_offset(segment.index) + u64::from(self.cursor);
        if self.header_due {
            let mut with_header = vec![self.segment_header(place, segment).encode()];
            with_header.append(&mut parts);
            parts = with_header;
            offset -= SEGMENT_HEADER_BYTES as u64;
            self.header_due = false;
        }
        self.last_from = self.cursor;
        self.cursor += bytes as u32;
        assert!(
            self.cursor <= place.layout.segment_bytes,
            "a group ends in its segment"
        );
        self.previous = checksum;
        self.next_group += 1;
        self.in_flight = Some(self.oldest_group);
        DiskOp::Write {
            offset,
            parts,
            durable: true,
        }
    }

    /// The header of one of its segments.
    pub(crate) fn segment_header(&self, place: &JournalPlace, segment: Segment) -> SegmentHeader {
        SegmentHeader {
            store: place.store,
            nonce: place.nonce,
            index: segment.index,
            ordinal: segment.ordinal,
            partition: Some(self.number),
            first_group: segment.first_group,
            oldest_group: self.oldest_group,
        }
    }

    /// The group in flight is durable; gives the segments that can be used again, and of each whether it had a bad place.
    pub(crate) fn complete(&mut self) -> Vec<(u32, bool)> {
        let announced = self.in_flight.take().expect("a group was in flight");
        let (released, kept): (Vec<_>, Vec<_>) = self
            .trimmed
            .iter()
            .partition(|(oldest, _)| *oldest <= announced);
        self.trimmed = kept;
        let released: Vec<(u32, bool)> = released
            .iter()
            .map(|(_, segment)| (segment.index, self.rotten.remove(&segment.ordinal)))
            .collect();
        self.mended += released.iter().filter(|(_, rotten)| *rotten).count() as u64;
        released
    }

    /// The group after the last one that is durable, and where that one ends in its segment at the latest.
    pub(crate) fn durable_end(&self, segment_bytes: u32) -> (u64, u32) {
        let last = self.segments.back().map(|segment| segment.first_group);
        match self.in_flight {
            None => (self.next_group, self.cursor),
            // It is the first one of the last segment.
            Some(_) if last == Some(self.next_group - 1) => (self.next_group - 1, segment_bytes),
            Some(_) => (self.next_group - 1, self.last_from),
        }
    }

    /// Whether a segment is part of the chain.
    pub(crate) fn has_segment(&self, wanted: &Segment) -> bool {
        self.segments.contains(wanted)
    }

    /// A segment of the chain has a bad place, and is to be trimmed with all before it. Whether that is news.
    pub(crate) fn found_rotten(&mut self, segment: &Segment) -> bool {
        assert!(self.has_segment(segment), "what is trimmed does not matter");
        self.rotten.insert(segment.ordinal)
    }

    /// Whether the oldest segment is to be trimmed out of turn.
    pub(crate) fn is_rotten(&self) -> bool {
        let oldest = self.segments.front().map(|segment| segment.ordinal);
        oldest.is_some_and(|oldest| self.rotten.range(oldest..).next().is_some())
    }

    /// Whether the segment that is being written has a bad place.
    pub(crate) fn ends_rotten(&self) -> bool {
        let last = self.segments.back();
        last.is_some_and(|last| self.rotten.contains(&last.ordinal))
    }

    pub(crate) fn mended(&self) -> u64 {
        self.mended
    }

    pub(crate) fn pin(&mut self, group: GroupNumber) {
        assert!(group.0 >= self.oldest_group, "what is trimmed is gone");
        *self.pins.entry(group).or_default() += 1;
    }

    pub(crate) fn unpin(&mut self, group: GroupNumber) {
        let count = self.pins.get_mut(&group).expect("the group is pinned");
        *count -= 1;
        if *count == 0 {
            self.pins.remove(&group);
        }
    }

    /// How many pins there are on groups before `group`.
    pub(crate) fn pins_before(&self, group: GroupNumber) -> u64 {
        let pins = self.pins.range(..group);
        pins.map(|(_, count)| u64::from(*count)).sum()
    }

    /// The oldest group from which changes have to be redone.
    pub(crate) fn redo_from(&self) -> u64 {
        let oldest = self.pins.first_key_value();
        oldest.map_or(self.next_group, |(group, _)| group.0)
    }

    pub(crate) fn oldest_segment(&self) -> Option<(GroupNumber, bool)> {
        let next = self.segments.get(1)?;
        let last = GroupNumber(next.first_group - 1);
        let pinned = self
            .pins
            .first_key_value()
            .is_some_and(|(group, _)| *group <= last);
        Some((last, !pinned))
    }

    pub(crate) fn trim(&mut self) {
        let (_, free_of_pins) = self.oldest_segment().expect("there is more than one");
        assert!(free_of_pins, "nothing pinned is trimmed");
        let segment = self.segments.pop_front().expect("there is more than one");
        self.oldest_group = self.segments[0].first_group;
        self.trimmed.push((self.oldest_group, segment));
    }

    pub(crate) fn unannounced(&self) -> usize {
        self.trimmed.len()
    }

    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn chain(&self) -> Chain {
        let segments = self.segments.iter().map(|segment| ChainSegment {
            index: segment.index,
            ordinal: segment.ordinal,
            first_group: GroupNumber(segment.first_group),
        });
        Chain {
            segments: segments.collect(),
            oldest_group: GroupNumber(self.oldest_group),
            next_group: GroupNumber(self.next_group),
            cursor: self.cursor,
        }
    }

    pub(crate) fn next_group(&self) -> GroupNumber {
        GroupNumber(self.next_group)
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }
}
