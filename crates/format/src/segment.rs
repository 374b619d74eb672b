//! The header of a segment: the first 4 KiB of every segment of the journal.
//!
//! It is written together with the first group of the segment's use, and once with nothing to say
//! when the store is created. A segment whose header cannot be read is searched for groups instead.

use core::mem::{offset_of, size_of};

use holdfast_model::StoreId;
use holdfast_stdx::Bytes;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{all_zero, checksum_without};

/// Bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"HFsegmnt";
const NO_PARTITION: u16 = u16::MAX;

/// The header's bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct SegmentBytes {
    pub(crate) magic: [u8; 8],
    pub(crate) checksum: U32,
    pub(crate) index: U32,
    pub(crate) store: U128,
    pub(crate) nonce: U64,
    pub(crate) ordinal: U64,
    pub(crate) first_group: U64,
    pub(crate) oldest_group: U64,
    pub(crate) partition: U16,
    pub(crate) reserved: [u8; 4030],
}

const _: () = assert!(size_of::<SegmentBytes>() == SEGMENT_HEADER_BYTES);
const _: () = assert!(offset_of!(SegmentBytes, checksum) == 8);
const _: () = assert!(offset_of!(SegmentBytes, reserved) == 66);

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store.
    pub store: StoreId,
    /// The store's nonce.
    pub nonce: u64,
    /// Which segment.
    pub index: u32,
    /// Which use of a segment this is: rises over all uses of all segments, 0 for none yet.
    pub ordinal: u64,
    /// Which partition uses it; `None` if it was never used.
    pub partition: Option<u16>,
    /// Number of the group that follows.
    pub first_group: u64,
    /// Groups of the partition before this one were trimmed when the segment was begun.
    pub oldest_group: u64,
}

/// Why bytes are not the header of one of this store's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Something else, or nothing, is here.
    #[error("this is not a segment's header")]
    NotOurs,
    /// It is a header that has rotted or was torn.
    #[error("the segment header's checksum is wrong")]
    BadChecksum,
}

impl SegmentHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut raw = SegmentBytes {
            magic: MAGIC,
            checksum: U32::ZERO,
            index: U32::new(self.index),
            store: U128::new(self.store.0),
            nonce: U64::new(self.nonce),
            ordinal: U64::new(self.ordinal),
            first_group: U64::new(self.first_group),
            oldest_group: U64::new(self.oldest_group),
            partition: U16::new(self.partition.unwrap_or(NO_PARTITION)),
            reserved: [0; 4030],
        };
        raw.checksum = U32::new(checksum_without(
            raw.as_bytes(),
            offset_of!(SegmentBytes, checksum),
        ));
        Bytes::copy_from_slice(raw.as_bytes())
    }

    /// Reads the header of segment `index` of the store with this identity.
    ///
    /// # Errors
    /// [`SegmentError`] for anything else.
    pub fn decode(
        bytes: &[u8],
        store: StoreId,
        nonce: u64,
        index: u32,
    ) -> Result<Self, SegmentError> {
        let raw = SegmentBytes::ref_from_bytes(bytes).map_err(|_| SegmentError::NotOurs)?;
        if raw.magic != MAGIC || raw.store.get() != store.0 || raw.nonce.get() != nonce {
            return Err(SegmentError::NotOurs);
        }
        let checksum = checksum_without(bytes, offset_of!(SegmentBytes, checksum));
        if checksum != raw.checksum.get() || !all_zero(&raw.reserved) {
            return Err(SegmentError::BadChecksum);
        }
        if raw.index.get() != index {
            return Err(SegmentError::NotOurs);
        }
        let partition = raw.partition.get();
        Ok(Self {
            store,
            nonce,
            index,
            ordinal: raw.ordinal.get(),
            partition: (partition != NO_PARTITION).then_some(partition),
            first_group: raw.first_group.get(),
            oldest_group: raw.oldest_group.get(),
        })
    }
}
