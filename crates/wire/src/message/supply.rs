//! Copies that come from another replica than the primary.

use holdfast_model::{Epoch, NodeId, PageIndex, Sequence, SliceId};

/// The primary asks an in-sync replica to [copy](super::Copy) blocks to one that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The number that the copy is to bear: the joining replica answers the primary with it.
    pub number: u64,
    /// The joining replica.
    pub to: NodeId,
    /// The committed point when it began: blocks as of an earlier one are of no use to it.
    pub from: Sequence,
    /// The page.
    pub page: PageIndex,
    /// A bit for each of the page's blocks that are to be copied, at least one; bit 0 is its first block.
    pub blocks: u64,
}

/// What became of copies that the primary asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supplied {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The joining replica.
    pub to: NodeId,
    /// What became of them.
    pub outcome: SupplyOutcome,
}

/// What became of copies that the primary asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupplyOutcome {
    /// The copy is on its way.
    Sent {
        /// The copy.
        number: u64,
        /// Bytes of data in it.
        bytes: u64,
    },
    /// It is not, and will not be.
    NotSent {
        /// The copy.
        number: u64,
    },
    /// The link to the joining replica is gone: whatever was on its way there may be lost.
    LinkLost,
}
