//! Damage to the files of a node, by hand: this is where the harness knows the format.
//!
//! Invariants:
//! - only a node that does not run is damaged; one that runs is looked at, at most;
//! - what is spoiled is spoiled for certain: every byte becomes another.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_format::{
    PageEntry, PageKey, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, SegmentHeader, SlotContent,
    Superblock, TABLE_BLOCK, TABLE_ENTRY, segment::SEGMENT_HEADER_BYTES,
};
use holdfast_model::{BLOCK_SIZE, PAGE_SIZE};

use crate::demo::Demo;
use crate::process::wait_until;

/// How long the kernel may take to let go of a device after its node was killed.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// Entries in a block of the page table.
const ENTRIES: u32 = (TABLE_BLOCK / TABLE_ENTRY) as u32;

/// A device of a node that stands still.
#[derive(Debug)]
pub struct Device {
    file: File,
    superblock: Superblock,
}

/// A slot that holds a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedSlot {
    /// Its number on the device.
    pub local: u32,
    /// The page.
    pub key: PageKey,
    /// Blocks of it that are there.
    pub mask: u64,
}

impl Device {
    /// The devices of a node.
    ///
    /// # Errors
    /// The node runs, or its devices are none.
    pub fn of(demo: &Demo, node: &str) -> Result<Vec<Self>> {
        let pid = demo.file().node(node)?.pid;
        ensure!(!demo.runs(pid), "{node} runs");
        Self::find(demo, node)
    }

    /// The device that is this file. What the kernel still does to it for a node that was killed is waited
    /// for.
    ///
    /// # Errors
    /// A node has it open, or it is none.
    pub fn at_rest(path: &Path) -> Result<Self> {
        let device = Self::open(path)?;
        let what = format!("nobody has {} open", path.display());
        wait_until(&what, RELEASE_PATIENCE, || match device.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error).context("lock a device"),
        })?;
        Ok(device)
    }

    fn find(demo: &Demo, node: &str) -> Result<Vec<Self>> {
        let text = fs::read_to_string(demo.path(node).join("node.toml"))?;
        let config: toml::Table = text.parse().context("read node.toml")?;
        let devices = config.get("devices").and_then(toml::Value::as_array);
        let devices = devices.context("a configuration names devices")?.iter();
        devices
            .map(|device| {
                let path = device.get("path").and_then(toml::Value::as_str);
                Self::open(Path::new(path.context("a device has a path")?))
            })
            .collect()
    }

    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("open {}", path.display()))?;
        let copies = SUPERBLOCK_OFFSETS.iter().filter_map(|offset| {
            let mut bytes = [0; SUPERBLOCK_BYTES];
            file.read_exact_at(&mut bytes, *offset).ok()?;
            Superblock::decode(&bytes).ok()
        });
        let superblock = copies
            .max_by_key(|superblock| superblock.update)
            .with_context(|| format!("find a superblock in {}", path.display()))?;
        Ok(Self { file, superblock })
    }

    /// Waits until a node that runs has brought its journal's pages `0..count` of any slice to their
    /// slots: while it serves, that takes about a second.
    ///
    /// # Errors
    /// It does not within `patience`, or its devices are none.
    pub fn wait_for_pages(demo: &Demo, node: &str, count: u32, patience: Duration) -> Result<()> {
        wait_until("the pages are in their slots", patience, || {
            let mut found = BTreeSet::new();
            for device in Self::find(demo, node)? {
                let slots = device.used_slots()?;
                found.extend(slots.iter().map(|slot| slot.key.page.0));
            }
            Ok((0..count).all(|page| found.contains(&page)))
        })?;
        Ok(())
    }

    /// The slots that hold pages.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn used_slots(&self) -> Result<Vec<UsedSlot>> {
        let layout = self.superblock.layout;
        let mut used = Vec::new();
        for block in 0..layout.slot_count / ENTRIES {
            let mut copies = [[0; TABLE_BLOCK]; 2];
            for (copy, bytes) in copies.iter_mut().enumerate() {
                let offset = layout.table_block_offset(copy, block);
                self.file.read_exact_at(bytes, offset)?;
            }
            for place in 0..ENTRIES {
                let local = block * ENTRIES + place;
                let from = place as usize * TABLE_ENTRY;
                let entries = copies.iter().filter_map(|bytes| {
                    let bytes = &bytes[from..from + TABLE_ENTRY];
                    let slot = self.superblock.slot_base + local;
                    PageEntry::decode(bytes, self.superblock.nonce, slot).ok()
                });
                let newest = entries.max_by_key(|entry| entry.version);
                if let Some(SlotContent::Page { key, mask, .. }) = newest.map(|it| it.content) {
                    used.push(UsedSlot { local, key, mask });
                }
            }
        }
        Ok(used)
    }

    /// Spoils one block of a page, the `choice`-th of those that are there.
    ///
    /// # Errors
    /// What the operating system says, or there is no block.
    pub fn spoil_block(&self, slot: UsedSlot, choice: u32) -> Result<u32> {
        ensure!(slot.mask != 0, "the page has no block");
        let choice = choice % slot.mask.count_ones();
        let block = (0..64)
            .filter(|bit| slot.mask >> bit & 1 == 1)
            .nth(choice as usize)
            .expect("the choice is among those that are there");
        let offset = self.superblock.layout.slot_offset(slot.local);
        self.spoil(offset + u64::from(block) * BLOCK_SIZE as u64 + 100, 1000)?;
        Ok(block)
    }

    /// Spoils the whole slot.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn spoil_slot(&self, slot: UsedSlot) -> Result<()> {
        let offset = self.superblock.layout.slot_offset(slot.local);
        self.spoil(offset, PAGE_SIZE)
    }

    /// Spoils a slot's entry in these copies of the page table.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn spoil_entry(&self, slot: UsedSlot, copies: &[usize]) -> Result<()> {
        for copy in copies {
            let layout = self.superblock.layout;
            let block = layout.table_block_offset(*copy, slot.local / ENTRIES);
            let entry = u64::from(slot.local % ENTRIES) * TABLE_ENTRY as u64;
            self.spoil(block + entry + 60, 100)?;
        }
        Ok(())
    }

    /// Spoils a block in every `stride` bytes of the journal's segments in use, except in the first
    /// and the last quarter of each.
    ///
    /// # Errors
    /// What the operating system says, or no segment is in use.
    pub fn spoil_journal(&self, stride: u64) -> Result<u32> {
        let layout = self.superblock.layout;
        let mut count = 0;
        for index in 0..layout.segment_count {
            let offset = layout.segment_offset(index);
            let mut bytes = [0; SEGMENT_HEADER_BYTES];
            self.file.read_exact_at(&mut bytes, offset)?;
            let superblock = &self.superblock;
            let header = SegmentHeader::decode(&bytes, superblock.store, superblock.nonce, index);
            if header.is_ok_and(|header| header.partition.is_some()) {
                let length = u64::from(layout.segment_bytes);
                for at in (length / 4..length * 3 / 4).step_by(stride as usize) {
                    self.spoil(offset + at, BLOCK_SIZE)?;
                    count += 1;
                }
            }
        }
        ensure!(count > 0, "no segment of the journal is in use");
        Ok(count)
    }

    fn spoil(&self, offset: u64, length: usize) -> Result<()> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset)?;
        bytes.iter_mut().for_each(|byte| *byte ^= 0xA5);
        self.file.write_all_at(&bytes, offset)?;
        self.file.sync_data()?;
        Ok(())
    }
}
