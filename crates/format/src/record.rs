//! Records of the journal: what a group's header says, one after the other.
//!
//! Every record says which slice it is of and how far that slice was known to be committed when it
//! was written. Redo happens in the order of records.

use alloc::vec::Vec;

use holdfast_model::{BlockRange, Change, CommandId, Entry, Epoch, PageIndex, Sequence, SliceId};
use holdfast_stdx::Bytes;

use crate::page_set::PageSet;

/// Bytes of a replica's own state at most: it lies in a group's header with everything else.
pub const STATE_BYTES_MAX: usize = 16 << 10;
/// Command ids in one record at most, to keep headers small.
pub const COMMANDS_PER_RECORD_MAX: usize = 512;
/// Changes of the set of pages in one record at most; more are worth a checkpoint.
pub const PAGE_CHANGES_MAX: usize = 1024;

/// Holes that one record names at most: a journal with more of them is not worth filling, the slice
/// begins anew.
pub const HOLES_PER_RECORD_MAX: usize = 64;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The slice.
    pub slice: SliceId,
    /// Its committed point when the record was written.
    pub committed: Sequence,
    /// What the record says.
    pub body: Body,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The slice's next entry, or, carried forward, an earlier one again.
    Entry(Entry),
    /// The slice's next entry, or an earlier one again: a write of whole pages whose data is not in the group but in slots, in each
    /// of these one page of it, on stable storage since before the group was written.
    Placed {
        /// The entry. One that was read has no data, until somebody reads the slots.
        entry: Entry,
        /// Numbers of the slots, in the order of the pages.
        slots: Vec<u32>,
    },
    /// A copy from another replica: counts as committed, and holds what the blocks were as of a
    /// sequence.
    Install {
        /// Entries up to this one are in it.
        as_of: Sequence,
        /// The copy.
        install: Install,
    },
    /// An epoch begins: entries above `after` that are recorded before this are void.
    BeginEpoch {
        /// The epoch.
        epoch: Epoch,
        /// The last entry that stays.
        after: Sequence,
    },
    /// A committed point with its epoch, for when the entries themselves have been trimmed.
    Position {
        /// Epoch of the entry at that point.
        epoch: Epoch,
        /// The point.
        sequence: Sequence,
        /// The log begins anew after the point: entries recorded before this that were not
        /// committed then are void.
        restart: bool,
        /// A part of this slice's journal has been lost, and nobody has filled the hole.
        damaged: bool,
    },
    /// What the slice had lost before is there again. Names the holes that were known then: one that
    /// came into being later is not filled by it, wherever it is.
    Mended(Vec<Hole>),
    /// The replica's own state; the latest one counts.
    State(Bytes),
    /// Pages that the slice has from now on, or has no longer.
    Pages(Vec<PageChange>),
    /// All pages that the slice has.
    Checkpoint(PageSet),
    /// Ids of recent commands whose entries are being trimmed.
    Commands(Vec<(CommandId, Sequence)>),
    /// The slice is gone, with everything that was said of it before.
    DropSlice,
}

/// Consecutive groups of a partition that had been durable and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The first one that is missing.
    pub first_group: u64,
    /// The group after the last one that is missing.
    pub next_group: u64,
}

impl Hole {
    /// Whether all that is missing in `other` is missing here.
    #[must_use]
    pub fn covers(&self, other: &Hole) -> bool {
        self.first_group <= other.first_group && self.next_group >= other.next_group
    }
}

/// The contents of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Install {
    /// A write or a clear, never [`Change::Nothing`].
    Change(Change),
    /// The blocks are bad where they come from, and are to be bad here.
    Bad(BlockRange),
}

impl Install {
    /// The blocks.
    #[must_use]
    pub fn range(&self) -> BlockRange {
        match self {
            Self::Change(change) => change.range().expect("a copy has blocks"),
            Self::Bad(range) => *range,
        }
    }
}

/// A page comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageChange {
    /// Which page.
    pub page: PageIndex,
    /// Whether it is there from now on.
    pub present: bool,
}

impl Record {
    /// The data that the record carries beside the header.
    #[must_use]
    pub fn data(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Entry(Entry {
                change: Change::Write { data, .. },
                ..
            })
            | Body::Install {
                install: Install::Change(Change::Write { data, .. }),
                ..
            } => Some(data),
            _ => None,
        }
    }
}
