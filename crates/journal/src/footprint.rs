//! What records take in the journal before they are written: how many segments they fill at most.
//!
//! Segments are not filled to the last byte: a record that does not fit in what is left goes to the next one, and
//! where each is half a segment long, a segment has one. So bytes do not tell how many segments records need; the
//! largest of them has to be known.
//!
//! Invariant: however records are made into groups, those that wait together fill no more segments than
//! [`segments`](Footprint::segments) says. Proof. A segment is begun only for a record that does not fit behind the group before
//! it, so each one that is left has more than its bytes less the largest record's in it: that many new ones but the last
//! are full of the records, and of their groups' headers. Of groups there are at most two in a segment for its begin and its end, one
//! more for each [`GROUP_DATA_BYTES_MAX`] / 2 of data and one for each half of a header of records, for of two groups that such
//! a limit parts the first and the record behind it are beyond that.

use holdfast_format::HEADER_BLOCK;
use holdfast_format::group::GROUP_HEADER_BYTES_MAX;
use holdfast_format::segment::SEGMENT_HEADER_BYTES;

use crate::GROUP_DATA_BYTES_MAX;

/// What a group has beyond its records and their data, at most: its header's fixed part with the stamp, and what is
/// left of its last block.
const GROUP_BYTES: u64 = 2 * HEADER_BLOCK as u64;

/// Records that are written one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    records: u64,
    /// In headers.
    header_bytes: u64,
    data_bytes: u64,
    /// Those of the largest one, or more.
    largest_bytes: u64,
}

impl Footprint {
    /// One more record, with so many bytes in a header, and of data.
    pub fn add(&mut self, header_bytes: usize, data_bytes: usize) {
        self.records += 1;
        self.header_bytes += header_bytes as u64;
        self.data_bytes += data_bytes as u64;
        let bytes = header_bytes as u64 + data_bytes as u64;
        self.largest_bytes = self.largest_bytes.max(bytes);
    }

    /// One of them less.
    pub fn remove(&mut self, header_bytes: usize, data_bytes: usize) {
        self.records -= 1;
        self.header_bytes -= header_bytes as u64;
        self.data_bytes -= data_bytes as u64;
        if self.records == 0 {
            self.largest_bytes = 0;
        }
    }

    /// These, and others behind them.
    #[must_use]
    pub fn and(self, others: &Self) -> Self {
        Self {
            records: self.records + others.records,
            header_bytes: self.header_bytes + others.header_bytes,
            data_bytes: self.data_bytes + others.data_bytes,
            largest_bytes: self.largest_bytes.max(others.largest_bytes),
        }
    }

    /// How many segments of `segment_bytes` are begun for them at most, where `room` is left of the one that is being written.
    pub(crate) fn segments(&self, segment_bytes: u32, room: usize) -> u32 {
        let by_data = self.data_bytes / (GROUP_DATA_BYTES_MAX as u64 / 2);
        let by_header = self.header_bytes / (GROUP_HEADER_BYTES_MAX as u64 / 4);
        let groups = 2 + by_data + by_header;
        let bytes = self.header_bytes + self.data_bytes + groups * GROUP_BYTES;
        if self.records == 0 || bytes <= room as u64 {
            return 0;
        }
        // What a group of the largest one takes, and the one that ends for want of room before it.
        let left = self.largest_bytes + 2 * GROUP_BYTES;
        let here = (room as u64).saturating_sub(left);
        let segment = u64::from(segment_bytes) - SEGMENT_HEADER_BYTES as u64;
        let each = segment.saturating_sub(left).max(1);
        let segments = bytes.saturating_sub(here).div_ceil(each).max(1);
        // Each record begins one at most.
        u32::try_from(segments.min(self.records)).unwrap_or(u32::MAX)
    }
}
