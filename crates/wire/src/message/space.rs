//! How much room nodes have. Since version 7.

use alloc::vec::Vec;

use holdfast_model::VolumeId;

/// What the sender's devices have room for, and what the slices that it leads take there. The receiver does nothing
/// by it but tell hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Pages that the sender's devices can hold.
    pub pages: u64,
    /// Pages that are free, and promised to nobody.
    pub pages_free: u64,
    /// Pages that are allocated in the slices of each volume that the sender leads. There are 65,536 volumes at most; of
    /// others nothing is said.
    pub volumes: Vec<(VolumeId, u64)>,
}

/// Volumes that [`Space`] speaks of, at most: a quarter of a message.
pub const SPACE_VOLUMES_MAX: usize = 1 << 16;
