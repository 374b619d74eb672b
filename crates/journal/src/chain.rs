//! Which segments make up which partition's chain, as far as their headers, or a search where a
//! header is bad, can say.
//!
//! Invariant: a header is not believed where the group behind it is of a later use. The write of that use's header was
//! reported, and landed elsewhere or nowhere; what is in the segment had been durable all the same.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_format::group::{ReadGroup, latest_ordinal};
use holdfast_format::{GroupHeader, HEADER_BLOCK, SegmentError, SegmentHeader};
use holdfast_stdx::Bytes;

use crate::JournalPlace;
use crate::partition::Segment;

/// What is known of the header of a segment that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFound {
    /// It is good.
    Sound,
    /// It is bad, and the first group is right behind it: what the header should say is known.
    Told,
    /// It is bad, and the first group that can be read is none that a segment begins with.
    Lost,
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentFound {
    /// Not looked at yet.
    Unknown,
    /// Its header cannot be read, or is not that of its latest use: it has to be searched.
    BadHeader,
    /// Never used, or searched without a find.
    Unused {
        /// Whether its header is bad.
        bad_header: bool,
    },
    /// Used by a partition.
    Used {
        /// The partition.
        partition: u16,
        /// Its place.
        segment: Segment,
        /// Its header.
        header: HeaderFound,
    },
}

/// Bytes at the beginning of a segment that say what it is: its header, and the block behind it.
pub(crate) const START_BYTES: usize = 2 * HEADER_BLOCK;

/// What the header of segment `index` says, given that, or [`START_BYTES`], of it; nothing if they cannot be read.
pub(crate) fn from_header(place: &JournalPlace, index: u32, start: Option<&[u8]>) -> SegmentFound {
    let header = start.and_then(|start| start.get(..HEADER_BLOCK));
    let header = match header {
        None => Err(SegmentError::BadChecksum),
        Some(block) => SegmentHeader::decode(block, place.store, place.nonce, index),
    };
    let behind = start.and_then(|start| start.get(HEADER_BLOCK..START_BYTES));
    let latest = behind.and_then(|block| latest_ordinal(block, place.nonce));
    match header {
        Err(_) => SegmentFound::BadHeader,
        Ok(header) if latest.is_some_and(|latest| latest > header.ordinal) => {
            SegmentFound::BadHeader
        }
        Ok(header) => match header.partition {
            Some(partition) if partition < place.partitions => SegmentFound::Used {
                partition,
                segment: Segment {
                    index,
                    ordinal: header.ordinal,
                    first_group: header.first_group,
                },
                header: HeaderFound::Sound,
            },
            _ => SegmentFound::Unused { bad_header: false },
        },
    }
}

/// What the groups in segment `index`, whose header is bad, say: those of its latest use.
pub(crate) fn from_groups(place: &JournalPlace, index: u32, bytes: &Bytes) -> SegmentFound {
    let mut best: Option<(u16, Segment, HeaderFound)> = None;
    let mut offset = HEADER_BLOCK;
    while let Some((at, group)) = next_group(place, bytes, offset) {
        offset = at + group.bytes;
        let header = &group.header;
        let newer = best.is_none_or(|(_, segment, _)| header.ordinal > segment.ordinal);
        if newer && header.partition < place.partitions {
            let segment = Segment {
                index,
                ordinal: header.ordinal,
                first_group: header.group,
            };
            let found = match at {
                HEADER_BLOCK => HeaderFound::Told,
                _ => HeaderFound::Lost,
            };
            best = Some((header.partition, segment, found));
        }
    }
    match best {
        None => SegmentFound::Unused { bad_header: true },
        Some((partition, segment, header)) => SegmentFound::Used {
            partition,
            segment,
            header,
        },
    }
}

/// The first readable group of any use at or after `offset`, with where it is.
fn next_group(place: &JournalPlace, bytes: &Bytes, offset: usize) -> Option<(usize, ReadGroup)> {
    (offset..bytes.len())
        .step_by(HEADER_BLOCK)
        .find_map(|offset| Some((offset, read_group(place, bytes, offset)?)))
}

/// The first readable group of this use of the segment at or after `offset`.
pub(crate) fn next_group_of(
    place: &JournalPlace,
    partition: u16,
    segment: Segment,
    bytes: &Bytes,
    offset: usize,
) -> Option<(usize, ReadGroup)> {
    (offset..bytes.len())
        .step_by(HEADER_BLOCK)
        .find_map(|offset| {
            let group = group_of(place, partition, segment, bytes, offset)?;
            Some((offset, group))
        })
}

/// The group of this use of the segment that is at `offset`.
pub(crate) fn group_of(
    place: &JournalPlace,
    partition: u16,
    segment: Segment,
    bytes: &Bytes,
    offset: usize,
) -> Option<ReadGroup> {
    let group = read_group(place, bytes, offset)?;
    let ours = group.header.partition == partition
        && group.header.ordinal == segment.ordinal
        && group.header.group >= segment.first_group;
    ours.then_some(group)
}

fn read_group(place: &JournalPlace, bytes: &Bytes, offset: usize) -> Option<ReadGroup> {
    if offset + HEADER_BLOCK > bytes.len() {
        return None;
    }
    GroupHeader::read(&bytes.slice(offset..), place.store, place.nonce).ok()
}

/// The segments of `partition`, oldest first.
pub(crate) fn of_partition(found: &[SegmentFound], wanted: u16) -> VecDeque<Segment> {
    let mut segments: Vec<Segment> = found
        .iter()
        .filter_map(|found| match found {
            SegmentFound::Used {
                partition, segment, ..
            } if *partition == wanted => Some(*segment),
            _ => None,
        })
        .collect();
    segments.sort_by_key(|segment| segment.ordinal);
    segments.into()
}
