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
//! - no segment with a pinned group is trimmed, nor the one being written.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod chain;
mod partition;
mod recover;
#[cfg(test)]
mod tests;
mod walk;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::{DeviceLayout, GroupWriter, Record, SegmentHeader};
use holdfast_model::{DiskId, DiskOp, DiskRequest, DiskToken, Sequence, SliceId, StoreId};

pub use partition::{Written, WrittenRecord};
pub use recover::{Found, Recovery, RecoveryFailed};

use partition::{Partition, Segment};

/// Bytes of a group's data beyond which further records wait for the next one: enough to keep a
/// device busy, little enough to keep the wait for it short.
pub const GROUP_DATA_BYTES_MAX: usize = 2 << 20;

/// Where an ordinal has the start of the store in which the segment was begun; below is a number
/// within that start.
const START_BITS: u32 = 32;

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

/// A journal that takes records.
#[derive(Debug)]
pub struct Journal {
    place: JournalPlace,
    partitions: Vec<Partition>,
    free: VecDeque<u32>,
    next_ordinal: u64,
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
    ) -> Option<(DiskRequest, Written)> {
        let state = &mut self.partitions[usize::from(partition)];
        if !state.wants_to_write() {
            return None;
        }
        if state.needs_segment(&self.place) {
            let index = self.free.pop_front()?;
            let ordinal = self.next_ordinal;
            self.next_ordinal += 1;
            state.open_segment(index, ordinal);
        }
        let (op, written) = state.write_group(&self.place, committed);
        let request = DiskRequest {
            token: DiskToken(self.place.token_base + u64::from(partition)),
            disk: self.place.disk,
            op,
        };
        Some((request, written))
    }

    /// The partition whose group's write bears this token.
    #[must_use]
    pub fn partition_of(&self, token: DiskToken) -> u16 {
        let partition = token.0 - self.place.token_base;
        assert!(
            partition < u64::from(self.place.partitions),
            "the token is one of a partition's"
        );
        partition as u16
    }

    /// The group of `partition` that was in flight is on stable storage.
    pub fn complete(&mut self, partition: u16) {
        let released = self.partitions[usize::from(partition)].complete();
        self.free.extend(released);
    }

    /// Keeps the segment that holds `group` until as many [`unpin`](Self::unpin)s.
    pub fn pin(&mut self, partition: u16, group: GroupNumber) {
        self.partition_mut(partition).pin(group);
    }

    /// Takes one pin away.
    pub fn unpin(&mut self, partition: u16, group: GroupNumber) {
        self.partition_mut(partition).unpin(group);
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
    ) -> Self {
        assert!(
            place.use_counter >> START_BITS == 0,
            "a start has half of an ordinal's bits"
        );
        let next_ordinal = place.use_counter << START_BITS;
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
            partitions,
            free,
            next_ordinal,
        }
    }
}

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
    DiskRequest {
        token: DiskToken(place.token_base + u64::from(index)),
        disk: place.disk,
        op: DiskOp::Write {
            offset: place.layout.segment_offset(index),
            parts: alloc::vec![header.encode()],
            durable: false,
        },
    }
}
