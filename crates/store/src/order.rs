//! What can be ordered about devices, and why not.

use core::fmt;

use holdfast_format::{Absence, DEVICES_MAX, DeviceState, JournalMark};
use holdfast_model::{ClusterId, DiskId, NodeId, StoreId, Tier};

use crate::config::DeviceGeometry;

/// What is to be done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOrder {
    /// The store gets one more, which must be blank.
    Add {
        /// The device.
        geometry: DeviceGeometry,
        /// Drawn at random for it.
        id: u64,
        /// The number of one whose pages go to others from then on, and that leaves when it is empty.
        replaces: Option<u16>,
        /// Whether it gets room for the journal. One that replaces a device which has the journal, or room for
        /// it, does anyway.
        journal_room: bool,
    },
    /// Its pages go to others, and so does the journal.
    Drain {
        /// Its number.
        ordinal: u16,
    },
    /// It takes pages again, though it was to be empty; what has left it stays where it is.
    Resume {
        /// Its number.
        ordinal: u16,
    },
    /// It leaves the store: it must be empty, without the journal, or absent with nothing lacking that was on it.
    Remove {
        /// Its number.
        ordinal: u16,
        /// What is lacking because of an absent device is given up.
        gives_up: bool,
    },
}

/// Why an order is not carried out. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceRefused {
    /// The store has no such device.
    #[error("the node has no device {ordinal}")]
    Unknown {
        /// The number that was given.
        ordinal: u16,
    },
    /// It has the journal, or is about to have it.
    #[error(
        "the journal is on this device or on its way there, and no other flash device has room for it"
    )]
    Journal,
    /// The journal would have to go there.
    #[error("the journal goes to flash devices only")]
    NotFlash,
    /// Its pages would have no room.
    #[error("the node's other devices have {bytes_free} bytes free, {bytes} would be needed")]
    NoRoom {
        /// What has to have room.
        bytes: u64,
        /// Where there is some.
        bytes_free: u64,
    },
    /// It is not empty.
    #[error("the device still holds {bytes} bytes")]
    NotEmpty {
        /// What is there.
        bytes: u64,
    },
    /// It is absent: nothing can be moved away from it.
    #[error("the device is absent")]
    Absent,
    /// It is absent, and pages are lacking that were on it.
    #[error("the device is absent, and {bytes} bytes that were there are not here again")]
    Lacking {
        /// What is lacking, because of all absent devices.
        bytes: u64,
    },
    /// It holds something.
    #[error("the device {}", held(owner.as_ref()))]
    NotBlank {
        /// The store that it holds, if it is one of ours.
        owner: Option<(ClusterId, StoreId, NodeId)>,
    },
    /// The store has it already.
    #[error("the device is one of the node's already")]
    InUse,
    /// It is too small.
    #[error("the device has {bytes} bytes, at least {bytes_min} are needed")]
    TooSmall {
        /// What it has.
        bytes: u64,
        /// What it needs.
        bytes_min: u64,
    },
    /// Its sectors are of another size.
    #[error("the device has sectors of {sector} bytes, 512 or 4096 are supported")]
    BadSector {
        /// What it has.
        sector: u32,
    },
    /// There are as many as there can be.
    #[error("the node has {DEVICES_MAX} devices, or has had 65535 over time: it takes no more")]
    TooMany,
    /// No numbers are left for its pages.
    #[error("the node's devices, with those that it has had, would hold more than 1 PiB")]
    TooLarge,
    /// It could not be read or written.
    #[error("the device failed while it was being added")]
    Failed,
    /// The store is not open, or about to be closed.
    #[error("the node's devices are not open")]
    NotOpen,
    /// Too many orders wait.
    #[error("too many orders about the node's devices wait already")]
    Busy,
}

/// A device of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// How requests name it, unless it is absent.
    pub disk: Option<DiskId>,
    /// Its number.
    pub ordinal: u16,
    /// Drawn at random when it was added.
    pub id: u64,
    /// Its class, unless it is absent.
    pub tier: Option<Tier>,
    /// What is done with it.
    pub state: DeviceState,
    /// Whether it is missing, or has failed.
    pub absent: Option<Absence>,
    /// What it has to do with the journal.
    pub journal: JournalMark,
    /// Pages of 256 KiB that it can hold.
    pub pages: u64,
    /// Pages that it holds; of one that is absent those that are lacking because of all that are.
    pub pages_used: u64,
    /// Blocks on it that are known to be bad; none of one that is absent.
    pub bad_blocks: u64,
}

/// What a device holds that is not blank.
pub(crate) fn held(owner: Option<&(ClusterId, StoreId, NodeId)>) -> impl fmt::Display {
    struct Held(Option<(ClusterId, StoreId, NodeId)>);
    impl fmt::Display for Held {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                Some((cluster, store, node)) => write!(
                    formatter,
                    "holds store {store} of node {node} in cluster {cluster}"
                ),
                None => formatter.write_str("holds data of something else"),
            }
        }
    }
    Held(owner.copied())
}
