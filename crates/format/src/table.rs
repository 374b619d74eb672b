//! The page table: for every slot, which page it holds and the checksum of each of its blocks.
//!
//! Invariants:
//! - an entry is as long as the smallest sector, so it is never torn;
//! - each entry is there twice, in different regions; the valid one with the higher version wins;
//! - versions rise over all entries of a store and all its starts, so no two are equal;
//! - a block that is in neither mask is zeros; one in `bad` alone is lost; one in both is there,
//!   with the checksum that it should have, and is known not to match it.

use alloc::boxed::Box;
use core::fmt;
use core::mem::{offset_of, size_of};

use holdfast_model::{BLOCKS_PER_PAGE, PAGES_PER_SLICE, PageIndex, Sequence, SliceId, VolumeId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{all_zero, checksum_without};

/// Bytes of an entry.
pub const TABLE_ENTRY: usize = 512;
/// Bytes in which the table is read and written: the larger sector, eight entries.
pub const TABLE_BLOCK: usize = 4096;

const MAGIC: U32 = U32::new(u32::from_le_bytes(*b"HFpg"));
const STATE_FREE: u8 = 0;
const STATE_PAGE: u8 = 1;

/// The entry's bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct EntryBytes {
    pub(crate) magic: U32,
    pub(crate) checksum: U32,
    pub(crate) nonce: U64,
    pub(crate) version: U64,
    pub(crate) slot: U32,
    pub(crate) state: u8,
    pub(crate) tier: u8,
    pub(crate) reserved_a: U16,
    pub(crate) layer: U64,
    pub(crate) volume: U64,
    pub(crate) slice: U32,
    pub(crate) page: U32,
    pub(crate) page_version: U64,
    pub(crate) shard: U32,
    pub(crate) reserved_b: U32,
    pub(crate) written: U64,
    pub(crate) mask: U64,
    pub(crate) bad: U64,
    pub(crate) reserved_c: [u8; 160],
    pub(crate) checksums: [U32; BLOCKS_PER_PAGE as usize],
}

const _: () = assert!(size_of::<EntryBytes>() == TABLE_ENTRY);
const _: () = assert!(offset_of!(EntryBytes, checksum) == 4);
const _: () = assert!(offset_of!(EntryBytes, written) == 72);
const _: () = assert!(offset_of!(EntryBytes, checksums) == 256);

/// Which page: a slice of a volume, and a place in it. (Layers, versions and shards are in the
/// format and always zero until snapshots and erasure coding use them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The slice.
    pub slice: SliceId,
    /// The page in it.
    pub page: PageIndex,
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// Nothing.
    Free,
    /// A page.
    Page {
        /// Which one.
        key: PageKey,
        /// No entry of the slice above this sequence is in the slot.
        written: Sequence,
        /// Blocks that are there.
        mask: u64,
        /// Blocks that have been lost and must not read as anything; those that are in `mask` too
        /// have the checksum that their right contents have.
        bad: u64,
        /// CRC-32C of each block of `mask`; zero for the others.
        checksums: Box<[u32; BLOCKS_PER_PAGE as usize]>,
    },
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Higher wins.
    pub version: u64,
    /// The slot's number among all of the store: an entry that was written elsewhere is refused.
    pub slot: u32,
    /// What is in it.
    pub content: SlotContent,
}

/// A page's entry without its checksums: what is kept in memory of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// Which page.
    pub key: PageKey,
    /// No entry of the slice above this sequence is in the slot.
    pub written: Sequence,
    /// Blocks that are there.
    pub mask: u64,
    /// Blocks that have been lost.
    pub bad: u64,
}

/// A valid entry where it was read: for those who look at millions, and keep little of each.
#[derive(Clone, Copy)]
pub struct EntryView<'a>(&'a EntryBytes);

/// Why bytes are not this store's entry of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Nothing, or something of another store, or of another slot.
    #[error("this is not the slot's entry")]
    NotOurs,
    /// It has rotted.
    #[error("the entry's checksum is wrong")]
    BadChecksum,
    /// The checksum is right but the contents cannot be.
    #[error("the entry contradicts itself")]
    Malformed,
}

impl PageEntry {
    /// The entry's bytes in the store with this nonce.
    #[must_use]
    pub fn encode(&self, nonce: u64) -> [u8; TABLE_ENTRY] {
        let mut raw = EntryBytes {
            magic: MAGIC,
            checksum: U32::ZERO,
            nonce: U64::new(nonce),
            version: U64::new(self.version),
            slot: U32::new(self.slot),
            state: STATE_FREE,
            tier: 0,
            reserved_a: U16::ZERO,
            layer: U64::ZERO,
            volume: U64::ZERO,
            slice: U32::ZERO,
            page: U32::ZERO,
            page_version: U64::ZERO,
            shard: U32::ZERO,
            reserved_b: U32::ZERO,
            written: U64::ZERO,
            mask: U64::ZERO,
            bad: U64::ZERO,
            reserved_c: [0; 160],
            checksums: [U32::ZERO; BLOCKS_PER_PAGE as usize],
        };
        if let SlotContent::Page {
            key,
            written,
            mask,
            bad,
            checksums,
        } = &self.content
        {
            raw.state = STATE_PAGE;
            raw.volume = U64::new(key.slice.volume.0);
            raw.slice = U32::new(key.slice.index);
            raw.page = U32::new(key.page.0);
            raw.written = U64::new(written.0);
            raw.mask = U64::new(*mask);
            raw.bad = U64::new(*bad);
            for (block, checksum) in checksums.iter().enumerate() {
                if mask & (1 << block) != 0 {
                    raw.checksums[block] = U32::new(*checksum);
                }
            }
        }
        let field = offset_of!(EntryBytes, checksum);
        raw.checksum = U32::new(checksum_without(raw.as_bytes(), field));
        let mut bytes = [0; TABLE_ENTRY];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads the entry of `slot` in the store with this nonce.
    ///
    /// # Errors
    /// [`EntryError`] for anything else.
    pub fn decode(bytes: &[u8], nonce: u64, slot: u32) -> Result<Self, EntryError> {
        EntryView::read(bytes, nonce, slot).map(|view| view.to_entry())
    }
}

impl<'a> EntryView<'a> {
    /// Finds the entry of `slot` in the store with this nonce.
    ///
    /// # Errors
    /// [`EntryError`] for anything else.
    pub fn read(bytes: &'a [u8], nonce: u64, slot: u32) -> Result<Self, EntryError> {
        let raw = EntryBytes::ref_from_bytes(bytes).map_err(|_| EntryError::NotOurs)?;
        if raw.magic != MAGIC || raw.nonce.get() != nonce {
            return Err(EntryError::NotOurs);
        }
        let checksum = checksum_without(bytes, offset_of!(EntryBytes, checksum));
        if checksum != raw.checksum.get() {
            return Err(EntryError::BadChecksum);
        }
        if raw.slot.get() != slot {
            return Err(EntryError::NotOurs);
        }
        if raw.is_sound() {
            Ok(Self(raw))
        } else {
            Err(EntryError::Malformed)
        }
    }

    /// Its version: higher wins.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.get()
    }

    /// The page that the slot holds, if it holds one.
    #[must_use]
    pub fn page(&self) -> Option<PageHead> {
        let Self(raw) = self;
        let slice = SliceId {
            volume: VolumeId(raw.volume.get()),
            index: raw.slice.get(),
        };
        (raw.state == STATE_PAGE).then_some(PageHead {
            key: PageKey {
                slice,
                page: PageIndex(raw.page.get()),
            },
            written: Sequence(raw.written.get()),
            mask: raw.mask.get(),
            bad: raw.bad.get(),
        })
    }

    /// All that it says.
    #[must_use]
    pub fn to_entry(&self) -> PageEntry {
        let Self(raw) = self;
        let page = |head: PageHead| SlotContent::Page {
            key: head.key,
            written: head.written,
            mask: head.mask,
            bad: head.bad,
            checksums: Box::new(raw.checksums.map(U32::get)),
        };
        PageEntry {
            version: self.version(),
            slot: raw.slot.get(),
            content: self.page().map_or(SlotContent::Free, page),
        }
    }
}

impl fmt::Debug for EntryView<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_entry().fmt(formatter)
    }
}

impl EntryBytes {
    /// Whether it can be what it says.
    fn is_sound(&self) -> bool {
        let is_known = match self.state {
            STATE_FREE => true,
            STATE_PAGE => self.page.get() < PAGES_PER_SLICE,
            _ => false,
        };
        is_known
            && self.tier == 0
            && self.reserved_a == U16::ZERO
            && self.layer == U64::ZERO
            && self.page_version == U64::ZERO
            && self.shard == U32::ZERO
            && self.reserved_b == U32::ZERO
            && all_zero(&self.reserved_c)
    }
}
