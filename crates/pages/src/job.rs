//! What a round of destage is to do, and does.

use alloc::vec::Vec;

use holdfast_format::PageKey;
use holdfast_model::Sequence;
use holdfast_stdx::Bytes;

use crate::target::PageChecksums;

/// What a block is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paint {
    /// These contents.
    Data {
        /// 4 KiB.
        data: Bytes,
        /// Their CRC-32C.
        checksum: u32,
    },
    /// Nothing.
    Zero,
    /// Lost; with the checksum that the right contents have, if that is known.
    Bad(Option<u32>),
}

/// What is to be done with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageWork {
    /// These blocks become something else, by their place in the page, each at most once, in order.
    Paint(Vec<(u32, Paint)>),
    /// The page goes.
    Drop,
    /// The page goes to another slot, of a device that is not drained, as it is.
    Move,
    /// The page becomes what has been [placed](crate::Pages::place) in this slot, all of it, and leaves the one that it has.
    Adopt {
        /// The slot. It is the page's from now on.
        slot: u32,
        /// CRC-32C of each of its blocks.
        checksums: PageChecksums,
    },
}

/// One page of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageJob {
    /// Which page.
    pub key: PageKey,
    /// No entry above this is in the page afterwards.
    pub written: Sequence,
    /// What is to be done.
    pub work: PageWork,
}

/// The pages that a round adds and removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundPlan {
    /// Pages that are there when the round is done and were not before.
    pub added: Vec<PageKey>,
    /// Pages that are not there any more.
    pub removed: Vec<PageKey>,
}
