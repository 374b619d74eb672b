//! The write-ahead log of a store as a machine: append, group commit, trim, recover.
//!
//! The journal is a region of segments shared by several partitions. Each partition is a chain of
//! groups with numbers of its own; at most one of its groups is being written, and what is appended
//! meanwhile goes with the next. It refuses to know what records mean: its owner says what is to be
//! carried forward before a segment is trimmed, and pins what must not be.
//!
//! Invariants:
//! - a group is written only when the one before it is on stable storage;
//! - a segment is written again only when a group that says it was trimmed is on stable storage;
//! - no segment with a pinned group is trimmed, nor the one being written;
//! - while there is a copy of it in another place, a group counts when it is on stable storage in both;
//! - a segment in which a check found a bad place is written no further, if others are free.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod chain;
mod check;
#[cfg(test)]
mod check_tests;
mod copy;
#[cfg(test)]
mod copy_tests;
mod footprint;
#[cfg(test)]
mod footprint_tests;
mod partition;
mod recover;
#[cfg(test)]
mod tests;
mod walk;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_format::{DeviceLayout, GroupWriter, HEADER_BLOCK, Record, SegmentHeader};
use holdfast_model::{
    DiskCompletion, DiskId, DiskOp, DiskRequest, DiskToken, Sequence, SliceId, StoreId,
};
use holdfast_stdx::Bytes;

pub use check::{BlankFailed, Checked, RottenSegment};
pub use copy::CopyFailed;
pub use footprint::Footprint;
pub use partition::{Written, WrittenRecord};
pub use recover::{Found, Recovery, RecoveryFailed};

use check::Check;
use copy::Copy;
use partition::{Partition, Segment};

/// Bytes of a group's data beyond which further records wait for the next one: enough to keep a
/// device busy, little enough to keep the wait for it short.
pub const GROUP_DATA_BYTES_MAX: usize = 2 << 20;

/// Where an ordinal has the start of the store in which the segment was begun; below is a number
/// within that start.
const START_BITS: u32 = 32;

/// Where the tokens of writes to the journal's copy begin, above those of its partitions.
const TWIN_TOKENS: u64 = 1 << 16;
/// Where those of making it begin.
const COPY_TOKENS: u64 = 1 << 40;
/// Where those of checks begin.
const CHECK_TOKENS: u64 = 1 << 41;

/// Where a journal is, and whose.
#[derive(Clone, Copy, Debug)]
pub struct JournalPlace {
    /// Its device.
    pub disk: DiskId,
    /// Its segments on that device.
    pub layout: DeviceLayout,
    /// The store.
    pub store: StoreId,
    /// The store's nonce.
    pub nonce: u64,
    /// The store's use counter: segments' ordinals of this start are above those of earlier ones.
    pub use_counter: u64,
    /// Chains.
    pub partitions: u16,
    /// First of the tokens that the journal may use for its requests.
    pub token_base: u64,
}

/// A record's place: the group that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNumber(pub u64);

/// A partition's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its segments, oldest first; the last one is being written.
    pub segments: Vec<ChainSegment>,
    /// Groups before this one have been trimmed.
    pub oldest_group: GroupNumber,
    /// The group that is written next.
    pub next_group: GroupNumber,
    /// Where it goes, in bytes from the beginning of the last segment.
    pub cursor: u32,
}

/// A segment of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSegment {
    /// Which segment of the journal.
    pub index: u32,
    /// Which use of a segment this is.
    pub ordinal: u64,
    /// The first group in it.
    pub first_group: GroupNumber,
}

/// A group that is being written.
#[derive(Debug)]
pub struct Begun {
    /// Its write.
    pub request: DiskRequest,
    /// The same in the copy, if there is one.
    pub twin: Option<DiskRequest>,
    /// What is in it.
    pub written: Written,
}

/// A journal that takes records.
#[derive(Debug)]
pub struct Journal {
    place: JournalPlace,
    partitions: Vec<Partition>,
    free: VecDeque<u32>,
    next_ordinal: u64,
    /// Writes of each partition that are under way: those of one group.
    writes: Vec<u8>,
    copy: Option<Copy>,
    next_copy_token: u64,
    check: Check,
    doubted: Doubted,
}

/// Segments with bad headers, which may have been the next ones of any chain. Each partition says first, in a segment of its own, that its
/// end is in doubt because of that; then the headers become blank. Until then the segments are taken last.
#[derive(Debug)]
struct Doubted {
    segments: Vec<u32>,
    /// The partitions that have not written since; none if there are no such segments.
    unsaid: BTreeSet<u16>,
}

impl Journal {
    /// The requests that prepare a new journal: a header for each segment. They must be on stable
    /// storage before the store's superblock is.
    pub fn format(place: &JournalPlace) -> impl Iterator<Item = DiskRequest> {
        let place = *place;
        (0..place.layout.segment_count).map(move |index| blank_segment(&place, index))
    }

    /// Segments that a journal of so many partitions needs: each partition fills one and carries
    /// forward into another, while a third waits to be announced as trimmed.
    #[must_use]
    pub fn segment_count_min(partitions: u16) -> u32 {
        4 * u32::from(partitions) + 4
    }

    /// Whether so many segments are enough for so many partitions.
    #[must_use]
    pub fn is_large_enough(segment_count: u32, partitions: u16) -> bool {
        segment_count >= Self::segment_count_min(partitions)
    }

    /// How many records wait in `partition`, the ones being written not counted.
    #[must_use]
    pub fn waiting(&self, partition: u16) -> usize {
        self.partition(partition).waiting()
    }

    /// Bytes of data that one record may carry at most.
    #[must_use]
    pub fn record_data_max(&self) -> usize {
        self.place.layout.segment_bytes as usize / 2
    }

    /// Adds a record to `partition`. `tag` comes back when it is durable.
    pub fn append(&mut self, partition: u16, record: Record, tag: u64) {
        let (_, data) = GroupWriter::size(&record);
        assert!(data <= self.record_data_max(), "a record fits in a segment");
        self.partition_mut(partition).push(record, tag);
    }

    /// Makes `partition` write a group although there may be no record: to overwrite a torn tail,
    /// or to announce what was trimmed.
    pub fn force(&mut self, partition: u16) {
        self.partition_mut(partition).force();
    }

    /// Begins to write the next group of `partition`, if there is something to write, nothing of
    /// it in flight, and a segment to write to. `committed` gives the committed point that each
    /// record states.
    pub fn start(
        &mut self,
        partition: u16,
        committed: impl FnMut(SliceId) -> Sequence,
    ) -> Option<Begun> {
        let state = &mut self.partitions[usize::from(partition)];
        if !state.wants_to_write() {
            return None;
        }
        let leaves_rotten = state.ends_rotten() && has_room_to_mend(&self.free, &self.place);
        // What is in a doubted segment would otherwise outrank what is written where the chain seemed to end, if it can be read again.
        let leaves_end = self.doubted.unsaid.contains(&partition) && !self.free.is_empty();
        let needs_segment = leaves_rotten || leaves_end || state.needs_segment(&self.place);
        if needs_segment && self.free.is_empty() {
            return None;
        }
        let copy = self.copy.as_mut();
        let twin = copy.and_then(|copy| copy.join(partition, state));
        if needs_segment {
            let index = self.free.pop_front().expect("there is a free one");
            let ordinal = self.next_ordinal;
            self.next_ordinal += 1;
            state.open_segment(index, ordinal);
        }
        let (op, written) = state.write_group(&self.place, committed);
        let token = self.place.token_base + u64::from(partition);
        let twin = twin.map(|disk| DiskRequest {
            token: DiskToken(token + TWIN_TOKENS),
            disk,
            op: op.clone(),
        });
        self.writes[usize::from(partition)] = 1 + u8::from(twin.is_some());
        let request = DiskRequest {
            token: DiskToken(token),
            disk: self.place.disk,
            op,
        };
        Some(Begun {
            request,
            twin,
            written,
        })
    }

    /// The partition whose group's write, or that in the copy, bears this token.
    #[must_use]
    pub fn partition_of(&self, token: DiskToken) -> u16 {
        let number = token.0 - self.place.token_base;
        let partition = number.checked_sub(TWIN_TOKENS).unwrap_or(number);
        assert!(
            partition < u64::from(self.place.partitions),
            "the token is one of a partition's"
        );
        partition as u16
    }

    /// The group of `partition` that was in flight is on stable storage in one place: whether it is in all.
    pub fn complete(&mut self, partition: u16) -> bool {
        let writes = &mut self.writes[usize::from(partition)];
        assert!(*writes > 0, "a group was in flight");
        *writes -= 1;
        if *writes > 0 {
            return false;
        }
        let mut released = self.partitions[usize::from(partition)].complete();
        self.has_said(partition);
        if let Some(copy) = &mut self.copy {
            copy.complete(partition);
            released.retain(|(index, _)| copy.may_release(*index));
        }
        for (index, is_rotten) in released {
            if is_rotten {
                self.check.blank_later(index);
            } else {
                self.free.push_back(index);
            }
        }
        true
    }

    /// A partition has a durable group of this start.
    fn has_said(&mut self, partition: u16) {
        let Doubted { segments, unsaid } = &mut self.doubted;
        if unsaid.remove(&partition) && unsaid.is_empty() {
            for index in core::mem::take(segments) {
                if let Some(place) = self.free.iter().position(|free| *free == index) {
                    self.free.remove(place);
                    self.check.blank_later(index);
                }
            }
        }
    }

    /// Begins to copy the journal to another device, which has segments of the same size there, and no fewer.
    /// Nothing was being copied.
    pub fn begin_copy(&mut self, disk: DiskId, layout: DeviceLayout) {
        let here = &self.place.layout;
        assert!(self.copy.is_none(), "there is one copy at a time");
        assert!(
            layout.segment_bytes == here.segment_bytes,
            "segments are copied as they are"
        );
        assert!(
            layout.segment_count >= here.segment_count,
            "every segment has its place"
        );
        self.copy = Some(Copy::new(JournalPlace {
            disk,
            layout,
            ..self.place
        }));
    }

    /// The next request that making the copy takes; none for now, or for good when it is whole.
    pub fn next_copy_request(&mut self) -> Option<DiskRequest> {
        let token = DiskToken(self.place.token_base + COPY_TOKENS + self.next_copy_token);
        let request = self.copy.as_mut()?.next(&self.place, token)?;
        self.next_copy_token += 1;
        Some(request)
    }

    /// Whether a request was for making the copy.
    #[must_use]
    pub fn is_for_copy(&self, token: DiskToken) -> bool {
        let first = self.place.token_base + COPY_TOKENS;
        (first..first + COPY_TOKENS).contains(&token.0)
    }

    /// Takes the end of a request for making the copy.
    ///
    /// # Errors
    /// [`CopyFailed`] if the device has that it is on.
    pub fn take_copied(&mut self, completion: DiskCompletion) -> Result<(), CopyFailed> {
        let copy = self.copy.as_mut().expect("a copy is being made");
        if copy.take(completion)? {
            self.partitions.iter_mut().for_each(Partition::force);
        }
        self.tidy_copy();
        Ok(())
    }

    /// Whether there is a copy that is being made, kept, or about to end.
    #[must_use]
    pub fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Whether a recovery in the copy's place would find what it finds in this one.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.copy.as_ref().is_some_and(Copy::is_whole)
    }

    /// The copy is the journal from now on, and is whole; where the journal was nothing is written any more.
    pub fn switch(&mut self) {
        let copy = self.copy.take().expect("there is a copy");
        assert!(copy.is_whole(), "nothing is lost by that");
        let count = self.place.layout.segment_count;
        self.place.disk = copy.disk();
        self.place.layout = copy.layout();
        self.check.moved();
        self.free.extend(count..self.place.layout.segment_count);
    }

    /// The copy is not wanted any more. It is gone when nothing of it is under way.
    pub fn end_copy(&mut self) {
        if let Some(copy) = &mut self.copy {
            copy.end();
            self.tidy_copy();
        }
    }

    /// Gives back what the copy does not hold any more, and forgets one that has ended.
    fn tidy_copy(&mut self) {
        if let Some(copy) = &mut self.copy {
            self.free.extend(copy.release_held());
        }
        if self.copy.as_ref().is_some_and(Copy::has_ended) {
            self.copy = None;
        }
    }

    /// Keeps the segment that holds `group` until as many [`unpin`](Self::unpin)s.
    pub fn pin(&mut self, partition: u16, group: GroupNumber) {
        self.partition_mut(partition).pin(group);
    }

    /// Takes one pin away.
    pub fn unpin(&mut self, partition: u16, group: GroupNumber) {
        self.partition_mut(partition).unpin(group);
    }

    /// How many pins of `partition` are on groups before this one.
    #[must_use]
    pub fn pins_before(&self, partition: u16, group: GroupNumber) -> u64 {
        self.partition(partition).pins_before(group)
    }

    /// The oldest group of `partition` from which a recovery would have changes redone, once a group has said so.
    #[must_use]
    pub fn redo_from(&self, partition: u16) -> GroupNumber {
        GroupNumber(self.partition(partition).redo_from())
    }

    /// The last group of the oldest segment of `partition` that is not being written, and whether
    /// it is free of pins. `None` if there is but one segment.
    #[must_use]
    pub fn oldest_segment(&self, partition: u16) -> Option<(GroupNumber, bool)> {
        self.partition(partition).oldest_segment()
    }

    /// Trims the oldest segment of `partition`, which has no pins and from which all that matters
    /// has been carried forward durably.
    pub fn trim(&mut self, partition: u16) {
        self.partition_mut(partition).trim();
    }

    /// Segments that can be written to.
    #[must_use]
    pub fn free_segments(&self) -> u32 {
        self.free.len() as u32
    }

    /// Segments that are begun at most until `more` is written behind what waits in `partition`.
    #[must_use]
    pub fn segments_for(&self, partition: u16, more: &Footprint) -> u32 {
        self.partition(partition).segments_for(&self.place, more)
    }

    /// Segments that are trimmed, but whose trimming no durable group has announced yet.
    #[must_use]
    pub fn unannounced(&self, partition: u16) -> usize {
        self.partition(partition).unannounced()
    }

    /// Segments of one partition's chain, the one being written counted.
    #[must_use]
    pub fn chain_segments(&self, partition: u16) -> usize {
        self.partition(partition).segment_count()
    }

    /// Where the chain of `partition` is, for those who only look.
    #[must_use]
    pub fn chain(&self, partition: u16) -> Chain {
        self.partition(partition).chain()
    }

    /// The group of `partition` that is written next.
    #[must_use]
    pub fn next_group(&self, partition: u16) -> GroupNumber {
        self.partition(partition).next_group()
    }

    /// All segments.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        self.place.layout.segment_count
    }

    fn partition(&self, partition: u16) -> &Partition {
        &self.partitions[usize::from(partition)]
    }

    fn partition_mut(&mut self, partition: u16) -> &mut Partition {
        &mut self.partitions[usize::from(partition)]
    }

    pub(crate) fn recovered(
        place: JournalPlace,
        partitions: Vec<Partition>,
        free: VecDeque<u32>,
        doubted: Vec<u32>,
    ) -> Self {
        assert!(
            place.use_counter >> START_BITS == 0,
            "a start has half of an ordinal's bits"
        );
        let next_ordinal = place.use_counter << START_BITS;
        let unsaid = match doubted.is_empty() {
            true => BTreeSet::new(),
            false => (0..place.partitions).collect(),
        };
        assert!(
            partitions.len() == usize::from(place.partitions),
            "every partition was recovered"
        );
        assert!(next_ordinal > 0, "a store in use has been opened");
        for partition in &partitions {
            for segment in partition.segments() {
                let Segment { ordinal, .. } = segment;
                assert!(*ordinal < next_ordinal, "ordinals rise from start to start");
            }
        }
        Self {
            place,
            writes: alloc::vec![0; partitions.len()],
            partitions,
            free,
            next_ordinal,
            copy: None,
            next_copy_token: 0,
            check: Check::default(),
            doubted: Doubted {
                segments: doubted,
                unsaid,
            },
        }
    }
}

/// Whether so many segments are free that one can be left before it is full: writing goes on as long as there is room
/// in those that are being written, and must not stop for that.
fn has_room_to_mend(free: &VecDeque<u32>, place: &JournalPlace) -> bool {
    free.len() > 2 * usize::from(place.partitions)
}

/// Gives a segment a header that says nothing, with zeros behind it: what is left there of an earlier use would
/// look like that of a later one, the header of which was not written.
pub(crate) fn blank_segment(place: &JournalPlace, index: u32) -> DiskRequest {
    let header = SegmentHeader {
        store: place.store,
        nonce: place.nonce,
        index,
        ordinal: 0,
        partition: None,
        first_group: 0,
        oldest_group: 0,
    };
    let behind = alloc::vec![Bytes::from_static(&[0; HEADER_BLOCK])];
    write_header(place, &header, behind)
}

/// Gives a segment this header, with `behind` behind it.
pub(crate) fn write_header(
    place: &JournalPlace,
    header: &SegmentHeader,
    behind: Vec<Bytes>,
) -> DiskRequest {
    let mut parts = alloc::vec![header.encode()];
    parts.extend(behind);
    DiskRequest {
        token: DiskToken(place.token_base + u64::from(header.index)),
        disk: place.disk,
        op: DiskOp::Write {
            offset: place.layout.segment_offset(header.index),
            parts,
            durable: false,
        },
    }
}
