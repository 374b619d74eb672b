//! Where things are on a device.
//!
//! ```text
//! 0         1 MiB     2 MiB
//! │superblock│superblock│ journal, or its room    │ table A │ slots … │ table B │
//! ```
//!
//! Invariants: regions do not overlap, each begins at a multiple of 4 KiB, and the two tables are
//! on different sides of the slots.

use holdfast_model::{BLOCK_SIZE, PAGE_SIZE};

use crate::table::{TABLE_BLOCK, TABLE_ENTRY};

/// Bytes at a device's beginning that are kept for superblocks.
pub const HEAD_BYTES: u64 = 2 << 20;
/// Slots of a store at most: their numbers have 32 bits, and whole table blocks are numbered.
pub const SLOT_COUNT_MAX: u32 = u32::MAX - 7;
/// Segments of a journal at least: each partition writes one while others are being trimmed.
pub const SEGMENT_COUNT_MIN: u32 = 8;
/// Smallest segment: room for the largest header and some data.
pub const SEGMENT_BYTES_MIN: u32 = 256 << 10;
/// Largest segment: recovery reads one at a time into memory.
pub const SEGMENT_BYTES_MAX: u32 = 64 << 20;

const JOURNAL_BYTES_MIN: u64 = 64 << 20;
const JOURNAL_BYTES_MAX: u64 = 8 << 30;
const JOURNAL_SHARE: u64 = 16;
const SLOT_COUNT_MIN: u32 = 4;
const BLOCK: u64 = BLOCK_SIZE as u64;
const ENTRIES_PER_BLOCK: u32 = (TABLE_BLOCK / TABLE_ENTRY) as u32;

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRole {
    /// It carries the journal, and pages.
    Journal {
        /// Bytes in a segment.
        segment_bytes: u32,
        /// Bytes of all segments together; by default a share of the device.
        journal_bytes: Option<u64>,
    },
    /// It carries pages.
    Pages,
}

/// The device cannot hold what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device needs at least {bytes_min} bytes")]
pub struct TooSmall {
    /// What it needs.
    pub bytes_min: u64,
}

/// Offsets and sizes of the regions of a device, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// The first segment.
    pub journal_offset: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments; zero if the device carries no journal.
    pub segment_count: u32,
    /// The two copies of the page table.
    pub table_offsets: [u64; 2],
    /// The first slot.
    pub slots_offset: u64,
    /// Slots.
    pub slot_count: u32,
}

impl DeviceLayout {
    /// Divides a device of `bytes` bytes.
    ///
    /// # Errors
    /// [`TooSmall`] if there is no room for the journal and a few slots.
    pub fn plan(bytes: u64, role: DeviceRole) -> Result<Self, TooSmall> {
        let (segment_bytes, segment_count) = match role {
            DeviceRole::Pages => (0, 0),
            DeviceRole::Journal {
                segment_bytes,
                journal_bytes,
            } => {
                let wanted = journal_bytes.unwrap_or_else(|| {
                    (bytes / JOURNAL_SHARE).clamp(JOURNAL_BYTES_MIN, JOURNAL_BYTES_MAX)
                });
                let count = (wanted / u64::from(segment_bytes)).max(SEGMENT_COUNT_MIN.into());
                (segment_bytes, u32::try_from(count).unwrap_or(u32::MAX))
            }
        };
        let journal_bytes = u64::from(segment_bytes) * u64::from(segment_count);
        let table_a = HEAD_BYTES + journal_bytes;
        let room = bytes.saturating_sub(table_a);
        // Per eight slots, two table blocks.
        let eight = 8 * PAGE_SIZE as u64 + 2 * TABLE_BLOCK as u64;
        let count = (room / eight).saturating_mul(ENTRIES_PER_BLOCK.into());
        let slot_count = u32::try_from(count)
            .unwrap_or(SLOT_COUNT_MAX)
            .min(SLOT_COUNT_MAX);
        if slot_count < SLOT_COUNT_MIN {
            return Err(TooSmall {
                bytes_min: table_a + eight,
            });
        }
        let table_bytes = u64::from(slot_count / ENTRIES_PER_BLOCK) * TABLE_BLOCK as u64;
        let slots_offset = table_a + table_bytes;
        let table_b = slots_offset + u64::from(slot_count) * PAGE_SIZE as u64;
        let layout = Self {
            journal_offset: HEAD_BYTES,
            segment_bytes,
            segment_count,
            table_offsets: [table_a, table_b],
            slots_offset,
            slot_count,
        };
        assert!(layout.fits(bytes), "a planned layout fits its device");
        Ok(layout)
    }

    /// Whether the regions are where they may be on a device of `bytes` bytes.
    #[must_use]
    pub fn fits(&self, bytes: u64) -> bool {
        self.fits_checked(bytes).is_some_and(|fits| fits)
    }

    fn fits_checked(&self, bytes: u64) -> Option<bool> {
        let journal_bytes = u64::from(self.segment_bytes) * u64::from(self.segment_count);
        let journal_end = self.journal_offset.checked_add(journal_bytes)?;
        let table_a_end = self.table_offsets[0].checked_add(self.table_bytes())?;
        let slot_bytes = u64::from(self.slot_count) * PAGE_SIZE as u64;
        let slots_end = self.slots_offset.checked_add(slot_bytes)?;
        let table_b_end = self.table_offsets[1].checked_add(self.table_bytes())?;
        let segments_sound = self.segment_count == 0
            || (self.segment_count >= SEGMENT_COUNT_MIN
                && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
                && u64::from(self.segment_bytes).is_multiple_of(BLOCK));
        Some(
            segments_sound
                && self.slot_count >= SLOT_COUNT_MIN
                && self.slot_count.is_multiple_of(ENTRIES_PER_BLOCK)
                && self.journal_offset >= HEAD_BYTES
                && self.table_offsets[0] >= journal_end
                && self.slots_offset >= table_a_end
                && self.table_offsets[1] >= slots_end
                && bytes >= table_b_end
                && self.journal_offset.is_multiple_of(BLOCK)
                && self.table_offsets[0].is_multiple_of(BLOCK)
                && self.slots_offset.is_multiple_of(BLOCK)
                && self.table_offsets[1].is_multiple_of(BLOCK),
        )
    }

    /// Bytes of all segments, if there are any.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.segment_count)
    }

    /// Bytes of one copy of the page table.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        u64::from(self.slot_count.div_ceil(ENTRIES_PER_BLOCK)) * TABLE_BLOCK as u64
    }

    /// Where segment `index` begins.
    #[must_use]
    pub fn segment_offset(&self, index: u32) -> u64 {
        assert!(index < self.segment_count, "the segment exists");
        self.journal_offset + u64::from(index) * u64::from(self.segment_bytes)
    }

    /// Where slot `local` of this device begins.
    #[must_use]
    pub fn slot_offset(&self, local: u32) -> u64 {
        assert!(local < self.slot_count, "the slot exists");
        self.slots_offset + u64::from(local) * PAGE_SIZE as u64
    }

    /// Where block `block` of the table's copy `copy` (0 or 1) begins: it has the entries of the
    /// local slots 8 × `block` to 8 × `block` + 7.
    #[must_use]
    pub fn table_block_offset(&self, copy: usize, block: u32) -> u64 {
        assert!(
            block < self.slot_count / ENTRIES_PER_BLOCK,
            "the table's block exists"
        );
        self.table_offsets[copy] + u64::from(block) * TABLE_BLOCK as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_fit_and_waste_little() {
        let role = DeviceRole::Journal {
            segment_bytes: 4 << 20,
            journal_bytes: None,
        };
        for bytes in [80 << 20, 16 << 30, (1 << 40) + 12_345, 20 << 40] {
            let layout = DeviceLayout::plan(bytes, role).expect("large enough");
            assert!(layout.fits(bytes));
            let slots = u64::from(layout.slot_count) * PAGE_SIZE as u64;
            let journal = u64::from(layout.segment_count) << 22;
            let overhead = bytes - slots - journal;
            assert!(
                overhead <= HEAD_BYTES + bytes / 200 + (3 << 20),
                "{bytes}: {overhead}"
            );
        }
    }

    #[test]
    fn a_small_device_is_refused_with_what_it_needs() {
        let role = DeviceRole::Journal {
            segment_bytes: 4 << 20,
            journal_bytes: None,
        };
        let TooSmall { bytes_min } = DeviceLayout::plan(1 << 20, role).expect_err("too small");
        assert!(DeviceLayout::plan(bytes_min - 1, role).is_err());
        assert!(DeviceLayout::plan(bytes_min, role).is_ok());
    }
}
