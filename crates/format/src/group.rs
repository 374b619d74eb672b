//! A group of the journal: a header that describes records, and their data.
//!
//! ```text
//! │ fixed part │ records … │ stamp │ records go on … │ padding │ data blocks … │
//! 0            128         4064    4096               header_bytes            + data_bytes
//! ```
//!
//! Invariants:
//! - the header has a checksum, each data block has one in the record that describes it;
//! - a header names its partition, its place in the chain, the use of the segment and the header
//!   before it, so a group that was left over from an earlier use never continues a chain;
//! - the first block bears a stamp at its other end, so that a header with a bad sector is still
//!   seen to have been one.

use alloc::vec::Vec;
use core::mem::{offset_of, size_of};

use holdfast_model::StoreId;
use holdfast_stdx::{Bytes, BytesMut, crc32c};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::checksum_without;
use crate::record::Record;
use crate::record_bytes;

/// Headers are whole blocks of this size, and groups begin at multiples of it.
pub const HEADER_BLOCK: usize = 4096;
/// Bytes of a header at most.
pub const GROUP_HEADER_BYTES_MAX: usize = 64 << 10;

const MAGIC: [u8; 8] = *b"HFgroup\0";
const STAMP_MAGIC: [u8; 8] = *b"HFstamp\0";
const STAMP_OFFSET: usize = HEADER_BLOCK - size_of::<StampBytes>();
const FIXED: usize = size_of::<GroupBytes>();

/// The header's fixed part.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GroupBytes {
    pub(crate) magic: [u8; 8],
    pub(crate) checksum: U32,
    pub(crate) previous: U32,
    pub(crate) store: U128,
    pub(crate) nonce: U64,
    pub(crate) ordinal: U64,
    pub(crate) group: U64,
    pub(crate) durable_up_to: U64,
    pub(crate) oldest_group: U64,
    pub(crate) redo_from: U64,
    pub(crate) header_bytes: U32,
    pub(crate) data_bytes: U32,
    pub(crate) record_bytes: U32,
    pub(crate) record_count: U32,
    pub(crate) partition: U16,
    pub(crate) reserved_a: [u8; 6],
    pub(crate) overwrote: U64,
    pub(crate) reserved_b: [u8; 16],
}

/// The stamp at the end of a header's first block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct StampBytes {
    pub(crate) magic: [u8; 8],
    pub(crate) nonce: U64,
    pub(crate) ordinal: U64,
    pub(crate) group: U64,
}

const _: () = assert!(FIXED == 128);
const _: () = assert!(offset_of!(GroupBytes, checksum) == 8);
const _: () = assert!(offset_of!(GroupBytes, header_bytes) == 80);
const _: () = assert!(offset_of!(GroupBytes, overwrote) == 104);
const _: () = assert!(size_of::<StampBytes>() == 32);

/// The fixed part of a group's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The store.
    pub store: StoreId,
    /// The store's nonce.
    pub nonce: u64,
    /// The partition.
    pub partition: u16,
    /// Which use of a segment the group is in.
    pub ordinal: u64,
    /// The group's number in its partition, from 1, without gaps.
    pub group: u64,
    /// Checksum of the header of the group before, zero for the first.
    pub previous: u32,
    /// Groups up to this one were known to be on stable storage.
    pub durable_up_to: u64,
    /// Groups before this one have been trimmed.
    pub oldest_group: u64,
    /// Changes in groups before this one are in pages, or overwritten by changes that will be
    /// found, and need not be redone.
    pub redo_from: u64,
    /// The newest group, this one or an earlier one, that was written over a bad one: that may have been
    /// durable. Zero if there is none, or it has been trimmed.
    pub overwrote: u64,
}

/// Collects the records of a group.
#[derive(Debug, Default)]
pub struct GroupWriter {
    records: Vec<u8>,
    record_count: u32,
    data: Vec<Bytes>,
    data_bytes: usize,
}

impl GroupWriter {
    /// A group without records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that `record` needs in a header, and of data.
    #[must_use]
    pub fn size(record: &Record) -> (usize, usize) {
        record_bytes::size(record)
    }

    /// Bytes of the whole group if it had `record_bytes` more of records and `data_bytes` more of
    /// data; `None` if that were more than a header holds.
    #[must_use]
    pub fn bytes_with(&self, record_bytes: usize, data_bytes: usize) -> Option<usize> {
        let header = header_bytes(self.records.len() + record_bytes);
        (header <= GROUP_HEADER_BYTES_MAX).then_some(header + self.data_bytes + data_bytes)
    }

    /// Adds a record, which must fit.
    pub fn push(&mut self, record: &Record) {
        let (record_size, data_size) = record_bytes::size(record);
        assert!(
            self.bytes_with(record_size, data_size).is_some(),
            "the record fits in the header"
        );
        let data_block = (self.data_bytes / HEADER_BLOCK) as u32;
        record_bytes::encode(record, data_block, &mut self.records);
        self.record_count += 1;
        if let Some(data) = record.data() {
            assert!(
                data.len().is_multiple_of(HEADER_BLOCK),
                "data is of whole blocks"
            );
            self.data_bytes += data.len();
            self.data.push(data.clone());
        }
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.record_count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// The group's bytes, in parts, and the checksum of its header.
    #[must_use]
    pub fn finish(self, header: &GroupHeader) -> (Vec<Bytes>, u32) {
        assert!(
            header.durable_up_to < header.group,
            "a group cannot know itself durable"
        );
        assert!(
            header.oldest_group <= header.group,
            "a group is not trimmed before it is written"
        );
        assert!(
            header.overwrote <= header.group,
            "a group knows of nothing later"
        );
        let header_bytes = header_bytes(self.records.len());
        let raw = GroupBytes {
            magic: MAGIC,
            checksum: U32::ZERO,
            previous: U32::new(header.previous),
            store: U128::new(header.store.0),
            nonce: U64::new(header.nonce),
            ordinal: U64::new(header.ordinal),
            group: U64::new(header.group),
            durable_up_to: U64::new(header.durable_up_to),
            oldest_group: U64::new(header.oldest_group),
            redo_from: U64::new(header.redo_from),
            header_bytes: U32::new(header_bytes as u32),
            data_bytes: U32::new(self.data_bytes as u32),
            record_bytes: U32::new(self.records.len() as u32),
            record_count: U32::new(self.record_count),
            partition: U16::new(header.partition),
            reserved_a: [0; 6],
            overwrote: U64::new(header.overwrote),
            reserved_b: [0; 16],
        };
        let stamp = StampBytes {
            magic: STAMP_MAGIC,
            nonce: U64::new(header.nonce),
            ordinal: U64::new(header.ordinal),
            group: U64::new(header.group),
        };
        let mut bytes = BytesMut::zeroed(header_bytes);
        bytes[..FIXED].copy_from_slice(raw.as_bytes());
        bytes[STAMP_OFFSET..HEADER_BLOCK].copy_from_slice(stamp.as_bytes());
        let first = self.records.len().min(STAMP_OFFSET - FIXED);
        bytes[FIXED..FIXED + first].copy_from_slice(&self.records[..first]);
        let rest = &self.records[first..];
        bytes[HEADER_BLOCK.min(header_bytes)..][..rest.len()].copy_from_slice(rest);
        let field = offset_of!(GroupBytes, checksum);
        // It is zero still.
        let checksum = crc32c(&bytes);
        bytes[field..field + 4].copy_from_slice(&checksum.to_le_bytes());
        let mut parts = Vec::with_capacity(1 + self.data.len());
        parts.push(bytes.freeze());
        parts.extend(self.data);
        (parts, checksum)
    }
}

fn header_bytes(record_bytes: usize) -> usize {
    let beyond_first = record_bytes.saturating_sub(STAMP_OFFSET - FIXED);
    HEADER_BLOCK + beyond_first.next_multiple_of(HEADER_BLOCK)
}

/// A group as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadGroup {
    /// Its header.
    pub header: GroupHeader,
    /// The header's checksum, which the next group repeats.
    pub checksum: u32,
    /// Bytes of header and data.
    pub bytes: usize,
    /// Its records, in order.
    pub records: Vec<ReadRecord>,
}

impl ReadGroup {
    /// Whether all of its data is what its checksums say.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.records.iter().all(|record| record.bad.is_empty())
    }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// The record; its checksums are as they were written, its data is as it was read.
    pub record: Record,
    /// Blocks whose data is not what the checksum says, counted from the change's first.
    pub bad: Vec<u32>,
}

/// Why bytes are not a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Something else, or nothing, is here.
    #[error("this is not a group's header")]
    NotOurs,
    /// It is a header that has rotted or was torn.
    #[error("the group header's checksum is wrong")]
    BadHeader,
    /// The checksum is right but the contents cannot be.
    #[error("the group contradicts itself")]
    Malformed,
}

impl GroupHeader {
    /// Reads the group at the beginning of `bytes`, which reach to the end of its segment.
    ///
    /// # Errors
    /// [`GroupError`] for anything that is not a group of this store. Bad data is no error.
    pub fn read(bytes: &Bytes, store: StoreId, nonce: u64) -> Result<ReadGroup, GroupError> {
        let (raw, _) = GroupBytes::ref_from_prefix(bytes).map_err(|_| GroupError::NotOurs)?;
        if raw.magic != MAGIC || raw.store.get() != store.0 || raw.nonce.get() != nonce {
            return Err(GroupError::NotOurs);
        }
        let header_bytes = raw.header_bytes.get() as usize;
        let sound = (HEADER_BLOCK..=GROUP_HEADER_BYTES_MAX).contains(&header_bytes)
            && header_bytes.is_multiple_of(HEADER_BLOCK)
            && header_bytes <= bytes.len();
        if !sound {
            return Err(GroupError::BadHeader);
        }
        let field = offset_of!(GroupBytes, checksum);
        if checksum_without(&bytes[..header_bytes], field) != raw.checksum.get() {
            return Err(GroupError::BadHeader);
        }
        raw.parse(bytes, header_bytes).ok_or(GroupError::Malformed)
    }
}

impl GroupBytes {
    fn parse(&self, bytes: &Bytes, header_bytes_read: usize) -> Option<ReadGroup> {
        let record_bytes = self.record_bytes.get() as usize;
        let data_bytes = self.data_bytes.get() as usize;
        if header_bytes(record_bytes) != header_bytes_read
            || header_bytes_read.checked_add(data_bytes)? > bytes.len()
        {
            return None;
        }
        let first = record_bytes.min(STAMP_OFFSET - FIXED);
        let mut stream = Vec::with_capacity(record_bytes);
        stream.extend_from_slice(&bytes[FIXED..FIXED + first]);
        let rest = record_bytes - first;
        stream.extend_from_slice(&bytes[HEADER_BLOCK.min(header_bytes_read)..][..rest]);
        let data = bytes.slice(header_bytes_read..header_bytes_read + data_bytes);
        let mut records = Vec::new();
        let mut unread = stream.as_slice();
        while !unread.is_empty() {
            let (record, length, bad) = record_bytes::decode(unread, &data)?;
            unread = &unread[length..];
            records.push(ReadRecord { record, bad });
        }
        let header = GroupHeader {
            store: StoreId(self.store.get()),
            nonce: self.nonce.get(),
            partition: self.partition.get(),
            ordinal: self.ordinal.get(),
            group: self.group.get(),
            previous: self.previous.get(),
            durable_up_to: self.durable_up_to.get(),
            oldest_group: self.oldest_group.get(),
            redo_from: self.redo_from.get(),
            overwrote: self.overwrote.get(),
        };
        let sound = records.len() == self.record_count.get() as usize
            && header.group < u64::MAX
            && header.durable_up_to < header.group
            && header.oldest_group <= header.group
            && header.overwrote <= header.group;
        sound.then_some(ReadGroup {
            header,
            checksum: self.checksum.get(),
            bytes: header_bytes_read + data_bytes,
            records,
        })
    }
}

/// The latest use of a segment in which a block was a group's header, as far as its head or its stamp says, be it
/// valid or not.
#[must_use]
pub fn latest_ordinal(block: &[u8], nonce: u64) -> Option<u64> {
    let head = GroupBytes::ref_from_prefix(block)
        .ok()
        .filter(|(raw, _)| raw.magic == MAGIC && raw.nonce.get() == nonce)
        .map(|(raw, _)| raw.ordinal.get());
    let stamp = block
        .get(STAMP_OFFSET..HEADER_BLOCK)
        .and_then(|bytes| StampBytes::ref_from_bytes(bytes).ok())
        .filter(|raw| raw.magic == STAMP_MAGIC && raw.nonce.get() == nonce)
        .map(|raw| raw.ordinal.get());
    head.max(stamp)
}

/// What a block looks like that is not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Its head or its stamp says that it was this group's header.
    LikeTheGroup,
    /// Nothing of the kind.
    LikeNothing,
}

impl Looks {
    /// Looks at a block that should be the header of `group` in this use of a segment.
    #[must_use]
    pub fn at(block: &[u8], nonce: u64, ordinal: u64, group: u64) -> Self {
        let head = GroupBytes::ref_from_prefix(block).is_ok_and(|(raw, _)| {
            raw.magic == MAGIC
                && raw.nonce.get() == nonce
                && raw.ordinal.get() == ordinal
                && raw.group.get() == group
        });
        let stamp = block.len() >= HEADER_BLOCK
            && StampBytes::ref_from_bytes(&block[STAMP_OFFSET..HEADER_BLOCK]).is_ok_and(|raw| {
                raw.magic == STAMP_MAGIC
                    && raw.nonce.get() == nonce
                    && raw.ordinal.get() == ordinal
                    && raw.group.get() == group
            });
        if head || stamp {
            Self::LikeTheGroup
        } else {
            Self::LikeNothing
        }
    }
}
