//! What a store is made of and how much it may use.

use core::time::Duration;

use holdfast_model::{ClusterId, DiskId, ENTRY_BYTES_MAX, NodeId, StoreId, Tier};

/// Limits and delays of a store. They may differ at every start; [`FormatConfig`] is fixed when the
/// store is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Bytes of one change at most, 4 KiB to [`ENTRY_BYTES_MAX`]. A store whose segments cannot
    /// carry it is not opened, so that no append ever finds its record too large.
    pub change_bytes_max: usize,
    /// Bytes of changes that are in the journal and not yet in pages, and therefore in memory.
    /// Appends beyond it wait until destage has made room.
    pub dirty_bytes_max: u64,
    /// Bytes of page table that are kept in memory to spare reads. At least 64 KiB.
    pub table_cache_bytes: u64,
    /// Bytes of blocks that were read and are kept in memory to spare reads, with what it costs to find them.
    pub block_cache_bytes: u64,
    /// Operations that the store has in flight on its devices at most; more wait inside.
    pub requests_max: usize,
    /// Changes older than this are destaged although there is no need for room.
    pub destage_after: Duration,
    /// They wait until [`Store::destage`](crate::Store::destage) is called, though, unless there is need for
    /// room.
    pub destage_waits: bool,
    /// A committed point that no record has carried into the journal for so long gets a record of
    /// its own.
    pub commit_after: Duration,
    /// How the store is laid out when it is created; ignored when one is opened.
    pub format: FormatConfig,
}

/// Bytes of blocks that are kept unless told otherwise.
pub const BLOCK_CACHE_BYTES: u64 = 256 << 20;

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            change_bytes_max: ENTRY_BYTES_MAX,
            dirty_bytes_max: 64 << 20,
            table_cache_bytes: 16 << 20,
            block_cache_bytes: BLOCK_CACHE_BYTES,
            requests_max: 256,
            destage_after: Duration::from_secs(1),
            destage_waits: false,
            commit_after: Duration::from_millis(50),
            format: FormatConfig::default(),
        }
    }
}

/// What is fixed when a store is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatConfig {
    /// Independent chains of the journal, 1 to 64. A slice always writes to the same one.
    pub partitions: u16,
    /// Bytes in a segment of the journal: a multiple of 4 KiB, 256 KiB to 64 MiB, and twice
    /// [`StoreConfig::change_bytes_max`] at least.
    pub segment_bytes: u32,
    /// Bytes of the journal; by default 1/16 of its device, at least 64 MiB and at most 8 GiB, and
    /// on a small device what its partitions need.
    pub journal_bytes: Option<u64>,
}

impl Default for FormatConfig {
    fn default() -> Self {
        Self {
            partitions: 4,
            segment_bytes: 4 << 20,
            journal_bytes: None,
        }
    }
}

/// A device as the driver found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceGeometry {
    /// How requests name it.
    pub disk: DiskId,
    /// Its size.
    pub bytes: u64,
    /// Bytes that it writes whole or not at all: 512 or 4096.
    pub sector: u32,
    /// Its class.
    pub tier: Tier,
}

/// Whose store is being created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The store, drawn at random for this creation.
    pub store: StoreId,
    /// The node.
    pub node: NodeId,
    /// Drawn at random for this creation and told to nobody: it keeps data that an initiator
    /// writes from ever passing for one of our own structures.
    pub nonce: u64,
}
