//! A node's store as one pure machine: the journal and the page store composed.
//!
//! It keeps, for every slice: the log (entries, in order, durable when it says so), the committed
//! content as of any moment after a crash, and the replica's own state. It refuses to know who is
//! primary, what an epoch means and whether an entry may be dropped: the replica decides, the
//! store obeys.
//!
//! # The interface
//! ```text
//! Store::create(now, StoreConfig, &[DeviceGeometry], StoreIdentity, use_id, &mut Output) -> Store
//! Store::open(now, StoreConfig, &[DeviceGeometry], Expected, use_id, &mut Output) -> Store
//!
//! // Durable when the event Durable { token } comes; in order per slice.
//! append(now, SliceId, Entry, committed: Sequence, StoreToken, out)     // sequence = prepared + 1
//! begin_epoch(now, SliceId, Epoch, after: Sequence, StoreToken, out)    // voids entries above after
//! restart_log(now, SliceId, (Epoch, Sequence), StoreToken, out)         // log begins after a point
//! put_state(now, SliceId, Bytes, StoreToken, out)                       // at most 16 KiB, latest wins
//! install(now, SliceId, Change, as_of: Sequence, StoreToken, out) -> Result<(), InstallRefused>
//! install_bad(now, SliceId, BlockRange, as_of, StoreToken, out) -> Result<(), InstallRefused>
//! mend(now, SliceId, StoreToken, out)                                   // a hole has been filled
//! drop_slice(now, SliceId, StoreToken, out)
//!
//! set_committed(now, SliceId, Sequence)                    // in memory; rides on the next record
//! prepared(SliceId) -> (Epoch, Sequence); committed(SliceId) -> Sequence; stable(SliceId) -> Sequence
//! entries_above(SliceId, Sequence) -> impl Iterator<Item = &Entry>      // complete from stable up
//!
//! read(now, SliceId, BlockRange, View, StoreToken, out)    // ends with ReadDone
//! is_dirty(SliceId, BlockRange) -> bool                    // prepared, not known committed
//! allocated(SliceId) -> impl Iterator<Item = (PageIndex, u64)>; allocated_pages(SliceId) -> u64
//! allocated_in(SliceId, RangeInclusive<PageIndex>); written(SliceId, PageIndex) -> Option<Sequence>
//! page_changed_above(SliceId, PageIndex, Sequence) -> u64
//! changed_above(SliceId, Sequence) -> Vec<ChangedPage>     // what a replica lacks that has all up to it
//!
//! reserve(SliceId, BlockRange) -> Result<(), NoSpace>      // before every append and install of data
//! release_reservations(SliceId)
//! destage_waits() -> bool; destage(now, out) -> (u64, u64)  // where it waits to be told (StoreConfig)
//! check_journal(); is_checking_journal() -> bool            // reads it, and mends it by writing it again
//! check_waits() -> Option<u64>; check_piece(out)           // each piece waits to be told
//! order_device(now, DeviceOrder, StoreToken, out); devices() -> Vec<DeviceStatus>
//! is_congested() -> bool; oldest_unfinished_append() -> Option<Instant>; usage() -> Usage
//!
//! handle_disk(now, DiskCompletion, out); handle_timeout(now, out); next_timeout() -> Option<Instant>
//! ```
//!
//! A slice exists from the first call that writes to it until `drop_slice`. A reservation holds
//! while an entry of its page waits to be destaged, and at least 8 seconds from the last `reserve`:
//! a replica reserves again right before it appends, which costs nothing when it still holds.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod absent;
mod ahead;
mod append;
mod changed;
mod check;
mod config;
mod destage;
mod devices;
mod dropping;
mod event;
mod install;
mod item;
mod journal_move;
mod log;
mod look;
mod machine;
mod members;
mod moves;
mod opener;
mod order;
mod overlay;
mod placed;
mod read;
mod rebuild;
mod recovered;
#[cfg(test)]
mod recovered_tests;
mod refusals;
mod requests;
mod room;
mod slice;
mod space;
mod store;
mod stranded;
mod superblocks;
mod survey;
mod trim;
mod unfinished;
mod withdrawn;

pub use holdfast_format::{Absence, DeviceState, JournalMark, UseIds};
pub use holdfast_journal::{Checked, GroupNumber, RottenSegment};
pub use holdfast_pages::{CacheUse, ReadSource};

pub use config::{BLOCK_CACHE_BYTES, DeviceGeometry, FormatConfig, StoreConfig, StoreIdentity};
pub use event::{
    BlockRead, Expected, InstallRefused, NoSpace, OpenError, Output, ReadRequest, Recovered,
    RecoveredSlice, StoreEvent, StoreToken, Stray, StrayDevice, Usage, View,
};
pub use order::{DeviceOrder, DeviceRefused, DeviceStatus};
pub use read::READ_BLOCKS_MAX;
pub use store::Store;
pub use superblocks::device_bytes_min;
pub use survey::{Survey, Surveyed, SurveyedSlice};
