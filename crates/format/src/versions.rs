//! The versions of the format. The list only ever grows at its end, by one sentence each, and each
//! version comes with the step that turns a store of the version before it into one of its own.

/// Version 1: superblock twice, journal of partitions, page table twice, 256 KiB slots.
pub const VERSION_1: u32 = 1;

/// Version 2: the superblock has the list of the store's devices, with the device's own id. The step:
/// [`Superblock::upgrade`](crate::Superblock::upgrade), done by the first opening.
pub const VERSION_2: u32 = 2;

/// Version 3: an entry of that list may say that the device is missing, or has failed, and since when.
/// The step: there is none, for a list without such an entry is written as one of version 2.
pub const VERSION_3: u32 = 3;

/// Version 4: the entries of that list may say which device has the journal, which is about to have it, and
/// which has room for it. The step: there is none, for a list that says no more than that it is on device 0 is
/// written as one of an earlier version.
pub const VERSION_4: u32 = 4;

/// Version 5: the journal may have entries whose data is in slots ([`Body::Placed`](crate::Body::Placed)). The step: the
/// first opening says so in every superblock, before any of them is written.
pub const VERSION_5: u32 = 5;

/// The newest version that this program writes, and that it reads.
pub const FORMAT_VERSION: u32 = VERSION_5;
