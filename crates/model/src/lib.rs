//! The nouns that every layer speaks: ids, addresses and their arithmetic, policies, what a machine
//! asks of a disk, and what the cluster's metadata holds.
//!
//! It refuses to do anything: no machine lives here, only values and their invariants.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod disk;
pub mod endpoint;
pub mod entry;
pub mod id;
pub mod metadata;
pub mod origin;
pub mod policy;
pub mod record;
pub mod report;
pub mod size;

pub use address::{
    BLOCK_SIZE, BLOCKS_PER_PAGE, BLOCKS_PER_SLICE, BlockIndex, BlockRange, ChangedPage, PAGE_SIZE,
    PAGES_PER_SLICE, PageIndex, SLICE_SIZE,
};
pub use disk::{DiskCompletion, DiskError, DiskId, DiskOp, DiskRequest, DiskToken};
pub use endpoint::host_and_port;
pub use entry::{Change, Checksums, ENTRY_BYTES_MAX, Entry};
pub use id::{
    ClusterId, CommandId, Epoch, Fence, Incarnation, MachineId, NodeId, Sequence, SliceId, StoreId,
    VolumeId,
};
pub use origin::{Origin, is_this_machine, longest_of_most};
pub use policy::{Policy, Tier};
pub use size::ByteSize;
