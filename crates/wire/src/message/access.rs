//! How access to a volume is changed everywhere. Since version 7.

use alloc::vec::Vec;

use holdfast_model::metadata::Revision;
use holdfast_model::{Epoch, Fence, NodeId, VolumeId};
use holdfast_stdx::Bytes;

/// The access to a volume has changed: the receiver goes by it from now on, and says when nothing is left here that was
/// numbered under what was before. Where it is not `to`, it passes the question on, if it has it from its `origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforce {
    /// Names the question in its answer, among those of its origin.
    pub number: u64,
    /// The node that asks.
    pub origin: NodeId,
    /// The node that is asked.
    pub to: NodeId,
    /// The volume.
    pub volume: VolumeId,
    /// As of when the access is so.
    pub revision: Revision,
    /// The record of the volume's access, as the metadata has it.
    pub record: Bytes,
}

/// It goes by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforced {
    /// The question.
    pub number: u64,
    /// The node that asked.
    pub origin: NodeId,
    /// The node that was asked.
    pub from: NodeId,
    /// The volume.
    pub volume: VolumeId,
    /// The fence that it goes by.
    pub fence: Fence,
    /// The slices of the volume, by index, that it leads, and the epochs: everything that it numbered in them under an
    /// older fence is committed.
    pub led: Vec<(u32, Epoch)>,
}
