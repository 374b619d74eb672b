//! The page store of a store as a machine: which slot holds which page, and what is in it.
//!
//! It reads blocks and verifies them, and writes many pages at a time in *rounds*: blocks in place,
//! flush, table entries, flush. It refuses to know of entries and commits: its owner gives it what
//! is to be written and keeps in the journal what must be redone if a round does not end.
//!
//! Invariants:
//! - a table entry is written only when the blocks that it describes are on stable storage;
//! - a slot is given out again only when the entry that frees it is on stable storage;
//! - a block that was read is given out only if its checksum is the entry's;
//! - a page that must be there and has no valid entry is lost, never empty.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod ahead;
mod block_cache;
mod cache;
mod check;
mod found;
mod job;
mod map;
mod moves;
#[cfg(test)]
mod moves_tests;
mod open;
mod pages;
mod place;
mod placed;
mod read;
mod round;
mod slots;
mod target;
#[cfg(test)]
mod tests;

pub use block_cache::CacheUse;
pub use job::{PageJob, PageWork, Paint, RoundPlan};
pub use moves::ToMove;
pub use open::Opening;
pub use pages::{PageView, Pages, PagesMemory};
pub use place::{PagesDevice, PagesPlace};
pub use read::{BlockOutcome, Outcomes, PageReadDone, ReadSource, runs_of};
pub use target::PageChecksums;

/// What the page store tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagesEvent {
    /// A read is done.
    Read(PageReadDone),
    /// The round knows which pages it will add and remove. It writes no table entry before the
    /// owner has logged the removals and said [`Pages::proceed`].
    Planned(RoundPlan),
    /// The round's pages are in the map as they will be, those that go no longer: the table is
    /// being written.
    Mapped(RoundPlan),
    /// The round is on stable storage.
    RoundDone(RoundPlan),
    /// A page is on stable storage in the slot that was taken for it.
    Placed {
        /// With which it was written.
        id: u64,
    },
}

/// A write or a flush failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a device of the page store failed")]
pub struct PagesFailed;
