//! What a store tells its owner, and where it leaves what it wants done.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use holdfast_format::{DEVICES_MAX, USE_COUNTER_MAX, UseIds};
use holdfast_journal::{Checked, RottenSegment};
use holdfast_model::{
    BlockRange, ClusterId, CommandId, DiskId, DiskRequest, Epoch, NodeId, Sequence, SliceId,
    StoreId,
};
use holdfast_pages::{CacheUse, ReadSource};
use holdfast_stdx::Bytes;

use crate::order::{DeviceRefused, held};

/// Names a call in the event that ends it. The caller's own; the store never looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreToken(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// The store is open: what it recovered. Comes once, before everything else.
    Opened(Recovered),
    /// The store cannot be opened or created. Nothing was changed unless the error says so, and
    /// nothing else will come.
    OpenFailed(OpenError),
    /// What was asked under the token is on stable storage. Tokens of one slice come in the order
    /// of the calls.
    Durable {
        /// The call's token.
        token: StoreToken,
    },
    /// A read is done.
    ReadDone {
        /// The call's token.
        token: StoreToken,
        /// One for each block of the range, in order.
        blocks: Vec<BlockRead>,
    },
    /// Something durable in the journal was found missing or bad where it should be. It is in memory, and is written
    /// again elsewhere; a start before that is done would lack it.
    JournalRotten(RottenSegment),
    /// What was ordered about a device has been done, or was refused. A drain has begun then.
    DeviceOrdered {
        /// The call's token.
        token: StoreToken,
        /// The device's number.
        result: Result<u16, DeviceRefused>,
    },
    /// A device has left the store, and nothing will be asked of it any more.
    DeviceLeft {
        /// The device, unless it was absent.
        disk: Option<DiskId>,
        /// Its number.
        ordinal: u16,
    },
    /// A write or flush failed: the device is out, and the store with it. Nothing that was not
    /// reported durable may be taken for it, nothing else will come but `DeviceLost` or `Unusable`, and calls do
    /// nothing.
    DeviceFailed {
        /// The device.
        disk: DiskId,
    },
    /// The list of devices says that the one that has failed is lost: the store can be opened without it. Comes
    /// only if it can, and if the device with the journal still works.
    DeviceLost {
        /// The device.
        disk: DiskId,
    },
    /// A device has failed, perhaps another one than that of `DeviceFailed`, without which nothing can be noted: the
    /// one with the journal. The store is over until it is opened with it again.
    Unusable {
        /// The device.
        disk: DiskId,
    },
}

/// One block, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockRead {
    /// Its contents, verified. Blocks that lie side by side in one buffer share it.
    Data {
        /// 4 KiB.
        data: Bytes,
        /// Their CRC-32C.
        checksum: u32,
    },
    /// There is nothing: it reads as zeros.
    Zero,
    /// It cannot be read, or what was read is not what was written. To be fetched from another
    /// replica and brought back by `install`.
    Bad {
        /// CRC-32C that the right contents have, if that is known.
        checksum: Option<u32>,
    },
}

/// Which version of a block a read is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The newest one that is known to be committed.
    Committed,
    /// The newest one.
    Prepared,
}

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The slice.
    pub slice: SliceId,
    /// The blocks.
    pub range: BlockRange,
    /// Which version.
    pub view: View,
    /// Where what is in pages may come from; what is not yet in pages comes from memory.
    pub source: ReadSource,
}

/// What an opened store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Which store it is.
    pub store: StoreId,
    /// How often the store has been opened, this time included. Rises durably before `Opened`.
    pub use_counter: u64,
    /// The ids of the latest openings, this one included.
    pub use_ids: Box<UseIds>,
    /// The slices that it holds.
    pub slices: BTreeMap<SliceId, RecoveredSlice>,
    /// Devices that were given and are not the store's. Nothing is written to them.
    pub strays: Vec<StrayDevice>,
}

/// A device that was given and is not one of those that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrayDevice {
    /// The device.
    pub disk: DiskId,
    /// What it is.
    pub stray: Stray,
}

/// What a device is that is not the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// There is nothing on it.
    Blank,
    /// It has left the store.
    Gone,
    /// It was being added to the store when the node stopped. It holds nothing.
    Joining,
    /// It is another store's.
    Foreign,
    /// It holds something that is no store, or cannot be read.
    Unreadable,
    /// It is the store's, and has failed: what it holds counts no more.
    Failed,
    /// It is the store's, and was missing in a later use than those that it knows of; or another device is still
    /// missing that was there later.
    Older,
}

impl fmt::Display for Stray {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Blank => "it is blank, and was not added to the node's store",
            Self::Gone => "it has left the node's store, and holds nothing of it any more",
            Self::Joining => "the node stopped while it was being added: add it again",
            Self::Foreign => "it belongs to another store",
            Self::Unreadable => "it holds no store that can be read",
            Self::Failed => "it has failed, and what it holds counts no more: replace it",
            Self::Older => {
                "it is an older copy of itself, or another device is missing that was there later: the node's \
                 store goes on without it"
            }
        })
    }
}

/// A slice as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredSlice {
    /// What `put_state` last made durable.
    pub state: Option<Bytes>,
    /// The newest entry in the journal; of an earlier epoch, unless the newest was numbered in it.
    pub prepared: (Epoch, Sequence),
    /// The committed point found; no entry above it counts as committed.
    pub committed: Sequence,
    /// The same: what the next recovery is certain to find.
    pub stable: Sequence,
    /// Whether nothing that was durable is missing. If false, a part of the journal that had been
    /// durable could not be read and may have held records of this slice: `prepared` and
    /// `committed` say what is certain in spite of it, blocks may be older than they should be,
    /// and the slice must not be served or promoted before peers have filled the hole and
    /// `mend` has recorded that.
    pub intact: bool,
    /// Whether pages of it were on a device of the store that is absent, and are not made up for by the
    /// journal. Their blocks are bad. The slice must not be served or promoted before peers have brought
    /// them; if the device was missing, and is there at the next opening, nothing is lacking any more.
    pub lacks: bool,
    /// Whether the last group of the slice's journal was bad: most likely torn before it was ever
    /// acknowledged, but it may have been durable and have rotted since.
    pub tail_suspect: bool,
    /// Ids of the commands of the last 8 seconds before the store stopped, or longer, with the
    /// sequences that they were given.
    pub commands: Vec<(CommandId, Sequence)>,
}

/// Why a store cannot be opened, or not be created.
///
/// The texts speak of "the device": whoever knows its name puts that before them. What to do about
/// it follows after an empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device was given, or none of tier 0.
    #[error("no flash device is given\n\nhint: the journal needs one: name a device of tier flash")]
    NoFlashDevice,
    /// The configuration breaks a limit that its documentation states.
    #[error(
        "the format's configuration is out of its limits\n\n\
         hint: a journal has 1 to 64 partitions and segments of 256 KiB to 64 MiB, in whole blocks \
         of 4 KiB; at least one request may be in flight"
    )]
    BadConfig,
    /// The journal that was asked for is too small for its partitions.
    #[error(
        "a journal of {bytes} bytes is too small for its partitions: at least {bytes_min} are \
         needed\n\nhint: make the journal larger, its segments smaller, or its partitions fewer"
    )]
    JournalTooSmall {
        /// What was asked for.
        bytes: u64,
        /// What it needs.
        bytes_min: u64,
    },
    /// The device is too small to be of use.
    #[error(
        "the device has {bytes} bytes, at least {bytes_min} are needed\n\n\
         hint: name a larger device, or give a file that many bytes"
    )]
    TooSmall {
        /// The device.
        disk: DiskId,
        /// What it has.
        bytes: u64,
        /// What it needs.
        bytes_min: u64,
    },
    /// Together the devices have more pages than can be numbered.
    #[error(
        "together the devices are too large for one store\n\nhint: name fewer of them, at most 1 PiB"
    )]
    TooLarge,
    /// There is no store on the device: its beginning is all zeros.
    #[error(
        "the device is blank: it holds no store\n\n\
         hint: name the device that holds the store, or create one here"
    )]
    Blank {
        /// The device.
        disk: DiskId,
    },
    /// A store was to be created, but there is something on the device.
    #[error(
        "the device {}, and a store is created only where nothing is lost\n\n\
         hint: name devices that are all of one store, or all blank; to give this one up, \
         overwrite its first 2 MiB with zeros", held(owner.as_ref())
    )]
    NotBlank {
        /// The device.
        disk: DiskId,
        /// The store that it holds, if it is one of ours.
        owner: Option<(ClusterId, StoreId, NodeId)>,
    },
    /// Neither superblock of the device is valid, and it is not blank.
    #[error(
        "the device holds no store that can be read: both superblocks are bad\n\n\
         hint: is it the right device? `holdfast inspect` shows what is on it; to give it up and \
         have the node filled by others, overwrite its first 2 MiB with zeros"
    )]
    BadSuperblocks {
        /// The device.
        disk: DiskId,
    },
    /// The device was written by a newer version.
    #[error(
        "the device has format version {version}, this program reads up to {known}\n\n\
         hint: run the newer program that wrote it"
    )]
    NewerVersion {
        /// The device.
        disk: DiskId,
        /// Its version.
        version: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The device belongs to another cluster, store or node than was expected.
    #[error(
        "the device belongs to cluster {cluster}, store {store}, node {node}\n\n\
         hint: name this node's own devices, or set the cluster and node that they belong to"
    )]
    Foreign {
        /// The device.
        disk: DiskId,
        /// Its cluster.
        cluster: ClusterId,
        /// Its store.
        store: StoreId,
        /// Its node.
        node: NodeId,
    },
    /// The store has a device that was not given (or was given twice in its place).
    #[error(
        "the store has {count} devices, and number {ordinal} is missing or given twice\n\n\
         hint: name each of the store's devices once; `holdfast inspect` tells their numbers"
    )]
    MissingDevice {
        /// Which one, from 0.
        ordinal: u16,
        /// How many the store has.
        count: u16,
    },
    /// A device of the store is missing, and this one, which was given, is not among those that it has: it
    /// has left the store, or was never quite added to it.
    #[error(
        "the device is not one of those that its store has now\n\n\
         hint: name all the devices that the store has; `holdfast inspect` of one of them lists them"
    )]
    NotListed {
        /// The device.
        disk: DiskId,
    },
    /// There are more devices than a store can have.
    #[error("a store has at most {DEVICES_MAX} devices\n\nhint: name fewer, larger ones")]
    TooManyDevices,
    /// The device is smaller than it was.
    #[error(
        "the device has {bytes} bytes, it had {bytes_then} when the store was created\n\n\
         hint: was it cut short when it was copied? Bring back all of its bytes"
    )]
    Shrunk {
        /// The device.
        disk: DiskId,
        /// What it has.
        bytes: u64,
        /// What it had.
        bytes_then: u64,
    },
    /// The journal's segments are too small for the changes that are to be written to it.
    #[error(
        "the device's journal has segments of {bytes} bytes, this program needs {bytes_min} at \
         least\n\nhint: open it with the program that created it, or give it up and have the node \
         filled by others: overwrite the first 2 MiB of each device with zeros"
    )]
    SmallSegments {
        /// The device.
        disk: DiskId,
        /// Bytes of a segment.
        bytes: u32,
        /// Bytes that it would need.
        bytes_min: usize,
    },
    /// The device cannot write as little at once as the format relies on.
    #[error(
        "the device has sectors of {sector} bytes, 512 or 4096 are supported\n\n\
         hint: name another device"
    )]
    BadSector {
        /// The device.
        disk: DiskId,
        /// Its sector.
        sector: u32,
    },
    /// The device has larger sectors than the one that the store was created on: what was never
    /// torn there may be torn here.
    #[error(
        "the device has sectors of {sector} bytes, those that the store was created on have \
         {sector_then}\n\nhint: bring the store to a device with sectors of {sector_then} bytes"
    )]
    LargerSector {
        /// The device.
        disk: DiskId,
        /// Its sector.
        sector: u32,
        /// What it was.
        sector_then: u32,
    },
    /// The superblocks of the store's devices say different things, or what cannot be: what one
    /// says is not to be trusted more than what another says.
    #[error(
        "the superblocks of the store's devices contradict each other\n\n\
         hint: is each device the newest copy of itself? To give the store up and have the node \
         filled by others, overwrite the first 2 MiB of each device with zeros"
    )]
    Contradiction,
    /// The journal was used in a later start than the superblocks know of: both of them are older
    /// than what they describe. Every start that is refused counts, so the numbers of a later one
    /// are new again.
    #[error(
        "the device's superblocks are older than its journal: they count {known} starts, it was \
         used in start {start}\n\n\
         hint: every start raises that count by one: start again until it has passed {start}"
    )]
    OlderSuperblocks {
        /// The device.
        disk: DiskId,
        /// How often the store has been opened, as the superblocks say.
        known: u64,
        /// In which start the journal was used.
        start: u64,
    },
    /// The device has missed a use of its store: it is an older copy of itself, and may lack what was
    /// acknowledged then.
    #[error(
        "the device is an older copy of itself: it was last used in start {known} of the store, the \
         others in start {start}\n\n\
         hint: bring back its newest copy; or give the store up and have the node filled by others: \
         overwrite the first 2 MiB of each device with zeros"
    )]
    OlderDevice {
        /// The device.
        disk: DiskId,
        /// In which start it was last used.
        known: u64,
        /// In which start the others were.
        start: u64,
    },
    /// The device has seen a use of its store that the device with the journal has missed: that one is an older copy of
    /// itself, or was one when the store was opened without this device.
    #[error(
        "the device was last used in start {start} of the store, and the one with the journal knows of {known}: \
         that one is an older copy of itself, or the store has been opened with one while this device was away\n\n\
         hint: bring back the newest copy of the device with the journal; if there is none, let other nodes bring \
         what was on this device: take it out, or overwrite its first 2 MiB with zeros"
    )]
    LaterDevice {
        /// The device.
        disk: DiskId,
        /// In which start the device with the journal was last used.
        known: u64,
        /// In which start this device was.
        start: u64,
    },
    /// The store has been opened so often that its numbers run out.
    #[error(
        "the store has been opened {USE_COUNTER_MAX} times, and cannot be once more\n\n\
         hint: give it up and have the node filled by others: overwrite the first 2 MiB of each \
         device with zeros"
    )]
    UsedUp,
    /// Reading what is needed to open the store, or writing before it is open, failed.
    #[error(
        "the device failed while the store was being opened\n\n\
         hint: the kernel's log says how (`dmesg`); a device that fails is replaced"
    )]
    DeviceFailed {
        /// The device.
        disk: DiskId,
    },
}

impl OpenError {
    /// The device that it is about, if it is about one.
    #[must_use]
    pub fn disk(&self) -> Option<DiskId> {
        match self {
            Self::TooSmall { disk, .. }
            | Self::Blank { disk }
            | Self::NotBlank { disk, .. }
            | Self::BadSuperblocks { disk }
            | Self::NewerVersion { disk, .. }
            | Self::Foreign { disk, .. }
            | Self::Shrunk { disk, .. }
            | Self::SmallSegments { disk, .. }
            | Self::BadSector { disk, .. }
            | Self::LargerSector { disk, .. }
            | Self::OlderSuperblocks { disk, .. }
            | Self::OlderDevice { disk, .. }
            | Self::LaterDevice { disk, .. }
            | Self::NotListed { disk }
            | Self::DeviceFailed { disk } => Some(*disk),
            Self::NoFlashDevice
            | Self::BadConfig
            | Self::JournalTooSmall { .. }
            | Self::TooLarge
            | Self::TooManyDevices
            | Self::Contradiction
            | Self::UsedUp
            | Self::MissingDevice { .. } => None,
        }
    }
}

/// What a replica is expected to belong to; checked when a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The cluster, if it is known.
    pub cluster: Option<ClusterId>,
    /// The store, if it is known.
    pub store: Option<StoreId>,
    /// The node, if it is known.
    pub node: Option<NodeId>,
}

/// There is no room for the pages of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no free page is left")]
pub struct NoSpace;

/// Why a copy was not installed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallRefused {
    /// The page has been destaged with entries above the copy's sequence: ask for a newer copy.
    #[error("the page holds something newer than the copy")]
    Stale,
    /// An uncommitted entry above the copy's sequence touches its blocks, or the copy is above the
    /// committed point: try again when more is committed.
    #[error("the copy cannot be ordered before more is committed")]
    Undecided,
}

/// How full a store is, in pages of 256 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pages that it can hold, on devices that are not drained.
    pub pages: u64,
    /// Pages that it holds, and that have to find room there.
    pub pages_used: u64,
    /// Pages that are promised to writes under way.
    pub pages_reserved: u64,
    /// Bytes of changes that are not yet destaged.
    pub dirty_bytes: u64,
    /// Segments of the journal.
    pub segments: u32,
    /// Segments that are in use.
    pub segments_used: u32,
    /// Copies of entries of the page table that were bad when they were checked, since the store was opened.
    pub bad_copies: u64,
    /// What was read of the journal to find what has rotted, and found.
    pub journal: Checked,
    /// What the memory of blocks that were read has done.
    pub cache: CacheUse,
}

impl Usage {
    /// Pages that have something in them, or are promised to writes under way.
    #[must_use]
    pub const fn pages_taken(&self) -> u64 {
        self.pages_used + self.pages_reserved
    }

    /// Pages that are free, and promised to nobody.
    #[must_use]
    pub const fn pages_free(&self) -> u64 {
        self.pages.saturating_sub(self.pages_taken())
    }
}

/// Where the store leaves requests and events. The driver empties it after every call.
#[derive(Debug, Default)]
pub struct Output {
    /// For the devices, in order of urgency. At most `requests_max` are in flight at a time.
    pub requests: VecDeque<DiskRequest>,
    /// For the owner: at most one for each call under way, and one more.
    pub events: VecDeque<StoreEvent>,
}
