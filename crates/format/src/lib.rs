//! Every byte at rest: superblocks, the journal's segments, groups and records, the page table,
//! and the versions of all that. `docs/data-format.md` says what is assumed of the medium and why
//! things are written in the order in which they are.
//!
//! It refuses to do I/O and to decide anything: bytes become types, or a typed error.
//!
//! Invariants:
//! - all integers are little-endian, no structure has padding, reserved bytes are zero;
//! - every structure carries a checksum and the store's nonce, so that neither old contents of the
//!   device nor anything that an initiator writes passes for one of ours;
//! - what a version wrote is read by every later one; [`versions`] lists them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
pub mod device;
pub mod device_list;
#[cfg(test)]
mod golden_tests;
pub mod group;
pub mod inspect;
pub mod layout;
pub mod page_set;
pub mod patient;
pub mod record;
mod record_bytes;
#[cfg(test)]
mod record_tests;
pub mod segment;
pub mod superblock;
pub mod table;
pub mod versions;
pub mod zero;

pub use device::{DeviceLayout, DeviceRole, TooSmall};
pub use device_list::{Absence, DEVICES_MAX, DeviceList, DeviceState, JournalMark, ListedDevice};
pub use group::{
    GROUP_HEADER_BYTES_MAX, GroupError, GroupHeader, GroupWriter, HEADER_BLOCK, Looks, ReadRecord,
};
pub use page_set::PageSet;
pub use patient::PatientRead;
pub use record::{Body, Hole, Install, PageChange, Record, STATE_BYTES_MAX};
pub use segment::{SegmentError, SegmentHeader};
pub use superblock::{
    SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, SuperblockError, TooManyDevices,
    USE_COUNTER_MAX, UseIds,
};
pub use table::{
    EntryError, EntryView, PageEntry, PageHead, PageKey, SlotContent, TABLE_BLOCK, TABLE_ENTRY,
};
pub use versions::FORMAT_VERSION;
