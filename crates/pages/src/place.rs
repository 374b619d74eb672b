//! Where the slots and their table entries are, over all devices of the store.

use alloc::vec::Vec;

use holdfast_format::{DeviceLayout, TABLE_BLOCK, TABLE_ENTRY};
use holdfast_model::{DiskId, Tier};

/// Slots whose entries share a block of the table.
pub(crate) const SLOTS_PER_TABLE_BLOCK: u32 = (TABLE_BLOCK / TABLE_ENTRY) as u32;

/// A device with slots.
#[derive(Clone, Copy, Debug)]
pub struct PagesDevice {
    /// Its name in requests.
    pub disk: DiskId,
    /// Where its slots and tables are.
    pub layout: DeviceLayout,
    /// Number of its first slot among all of the store; a multiple of eight.
    pub slot_base: u32,
    /// Its class.
    pub tier: Tier,
    /// Its slots are not given out, and its pages have to move.
    pub is_drained: bool,
}

/// All devices of a store.
#[derive(Clone, Debug)]
pub struct PagesPlace {
    /// By rising `slot_base`.
    pub devices: Vec<PagesDevice>,
    /// The store's nonce.
    pub nonce: u64,
    /// The store's use counter: versions of this start are above those of earlier ones.
    pub use_counter: u64,
    /// First of the tokens that the page store may use for its requests.
    pub token_base: u64,
}

/// Eight slots whose entries share a block of the table: their numbers divided by eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableBlockId(pub(crate) u32);

impl TableBlockId {
    pub(crate) const fn of_slot(slot: u32) -> Self {
        Self(slot / SLOTS_PER_TABLE_BLOCK)
    }

    pub(crate) fn slots(self) -> impl Iterator<Item = u32> {
        let first = self.0 * SLOTS_PER_TABLE_BLOCK;
        first..first + SLOTS_PER_TABLE_BLOCK
    }
}

impl PagesPlace {
    /// Slots of all devices but those that are drained.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        self.devices
            .iter()
            .filter(|device| !device.is_drained)
            .map(|device| device.layout.slot_count)
            .sum()
    }

    pub(crate) fn device_of_slot(&self, slot: u32) -> &PagesDevice {
        self.find_slot(slot).expect("the slot exists")
    }

    /// The device of a slot; none if it is not there.
    pub(crate) fn find_slot(&self, slot: u32) -> Option<&PagesDevice> {
        let after = self
            .devices
            .partition_point(|device| device.slot_base <= slot);
        let device = self.devices.get(after.checked_sub(1)?)?;
        (slot - device.slot_base < device.layout.slot_count).then_some(device)
    }

    pub(crate) fn slot_offset(&self, slot: u32) -> (DiskId, u64) {
        let device = self.device_of_slot(slot);
        (
            device.disk,
            device.layout.slot_offset(slot - device.slot_base),
        )
    }

    pub(crate) fn table_offset(&self, copy: usize, block: TableBlockId) -> (DiskId, u64) {
        let device = self.device_of_slot(block.0 * SLOTS_PER_TABLE_BLOCK);
        let local = block.0 - device.slot_base / SLOTS_PER_TABLE_BLOCK;
        (device.disk, device.layout.table_block_offset(copy, local))
    }
}
