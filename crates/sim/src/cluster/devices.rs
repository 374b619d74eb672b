//! What goes wrong with a node's devices.
//!
//! Invariant: what they lose for good, or bring back wrong, is somewhere else: an in-sync replica of
//! every slice is on the devices that the record knows. One fault says in its name that it does not
//! care.

use holdfast_engine::OpenFailure;
use holdfast_format::{
    DeviceLayout, PageEntry, SUPERBLOCK_BYTES, SlotContent, Superblock, TABLE_BLOCK, TABLE_ENTRY,
};
use holdfast_model::record::SliceRecord;
use holdfast_model::{BLOCK_SIZE, NodeId, PAGE_SIZE};
use holdfast_stdx::{Duration, crc32c};
use holdfast_store::OpenError;

use super::node::{Misplaced, Node};
use super::{Cluster, Fault};
use crate::disk::SimDisk;

/// Sectors of a device that rot at a time.
const ROTTEN_SECTORS: usize = 12;
/// Entries of a device's table that are lost at a time.
const LOST_ENTRIES: usize = 3;
/// Writes to a device that turn out to be lost at a time.
const LOST_WRITES: usize = 6;
/// How long it takes to replace devices.
const REPLACED_IN: Duration = Duration::from_millis(100);

impl Cluster {
    /// Something goes wrong with a node's devices, or right again. Says whether it did: what would lose
    /// the last good copy of something is held back.
    pub(super) fn device_fault(&mut self, node: NodeId, fault: Fault) -> bool {
        let now = self.now;
        let is_spare = self.is_spare(node);
        let is_spare_unknowing = self.is_spare_unknowing(node);
        let state = self.node(node);
        let is_off = state.process.is_none();
        match fault {
            Fault::StickDisks(_) => {
                state.disks_bad = true;
                state.disks.iter_mut().for_each(SimDisk::stick);
            }
            Fault::HangReads(_) => {
                state.disks_bad = true;
                state.disks.iter_mut().for_each(SimDisk::hang_reads);
            }
            Fault::UnstickDisks(_) => {
                state.disks.iter_mut().for_each(|disk| disk.unstick(now));
                if let Some(process) = state.process.as_ref().map(|process| process.id) {
                    self.set_timers(process);
                }
            }
            Fault::SlowDisks(_, slowness) => {
                for disk in &mut state.disks {
                    disk.slow_down(slowness);
                }
            }
            Fault::FailDisks(_) => {
                state.disks_bad = true;
                let journal = state.journal_disk();
                state.disks[usize::from(journal.0)].fail();
                for disk in state.disks.iter().filter(|it| it.id() != journal) {
                    state.bays.doom(disk.id());
                }
            }
            Fault::Wipe(_) if is_off && is_spare => state.replace_disks(),
            Fault::CopyDisks(_) => state.copy_disks(),
            Fault::RollBack(_) if is_off && is_spare => return state.roll_back_disks(),
            Fault::RollBackJournal(_) if is_off && is_spare => return state.roll_back_journal(),
            Fault::SwapDisks(_, other) => return self.swap_disks(node, other),
            Fault::Lie(_) => state.disks.iter_mut().for_each(SimDisk::lie),
            Fault::Rot(_) if is_spare_unknowing => state.disks.iter_mut().for_each(rot),
            Fault::RotTable(_) if is_spare_unknowing => state.disks.iter_mut().for_each(rot_table),
            Fault::RotTableCopy(_) => state.disks.iter_mut().for_each(rot_second_copies),
            Fault::RotJournal(_) if is_off && is_spare => {
                state.disks.iter_mut().for_each(rot_journal);
            }
            Fault::LoseHeader(_) if is_off => {
                let disk = usize::from(state.journal_disk().0);
                lose_header(&mut state.disks[disk]);
            }
            Fault::RotJournalInUse(_) => state.disks.iter_mut().for_each(rot_journal),
            Fault::RotForGood(_) => state.disks.iter_mut().for_each(rot),
            Fault::RotPagesForGood(_) => state.disks.iter_mut().for_each(rot_pages),
            Fault::RotPages(_) if is_spare_unknowing => state.disks.iter_mut().for_each(rot_pages),
            Fault::Alter(_) if is_off && is_spare => state.disks.iter_mut().for_each(alter),
            Fault::LoseWrites(_) if is_spare_unknowing => {
                state.disks.iter_mut().for_each(lose_writes);
            }
            _ => return false,
        }
        true
    }

    /// The devices with the journals of two nodes, which are off, change places.
    fn swap_disks(&mut self, one: NodeId, other: NodeId) -> bool {
        // A blank device would be refused for that, or formatted, whoever it belongs to.
        let ready = |node: &Node| {
            node.process.is_none() && node.aside.is_none() && node.journal_place().is_some()
        };
        if !ready(&self.nodes[&one]) || !ready(&self.nodes[&other]) {
            return false;
        }
        let [first, second] = [one, other].map(|node| self.nodes[&node].journal_disk());
        self.node(one).set_aside(Misplaced::Foreign);
        self.node(other).set_aside(Misplaced::Foreign);
        let [first_place, second_place] = [first, second].map(|disk| usize::from(disk.0));
        let foreign = self.node(other).disks[second_place].clone();
        let own = &mut self.node(one).disks[first_place];
        let own = std::mem::replace(own, foreign.in_place_of(first));
        self.node(other).disks[second_place] = own.in_place_of(second);
        true
    }

    /// Devices that have lied, and are refused, are replaced, with the same exception.
    pub(super) fn replace_liars(&mut self, node: NodeId) {
        if self.is_spare(node) {
            self.node(node).replace_disks();
            self.plan_fault(REPLACED_IN, Fault::Start(node));
        }
    }

    /// A device was away while its store was opened with an older copy of the one with the journal: it is overwritten, for
    /// that one cannot be had any more. Says whether that is so.
    pub(super) fn erase_later_device(&mut self, node: NodeId, failure: &OpenFailure) -> bool {
        let OpenFailure::Store(OpenError::LaterDevice { disk, .. }) = failure else {
            return false;
        };
        let state = self.node(node);
        if !state.is_forked || state.aside.is_some() {
            return false;
        }
        state.erase(*disk);
        self.watch
            .coverage
            .reach("device", "later than its journal");
        self.start_soon(node);
        true
    }

    /// A node has its own devices again. Says whether they were away.
    pub(super) fn put_back(&mut self, node: NodeId) -> bool {
        if self.node(node).aside.is_none() {
            return false;
        }
        self.kill(node);
        let state = self.node(node);
        if let Some(aside) = state.aside.take() {
            state.disks = aside.disks;
            // They may have been stuck when they were set aside.
            state.disks.iter_mut().for_each(SimDisk::kill);
        }
        true
    }

    /// Whether every slice has an in-sync replica elsewhere, on the devices that it had then; and nothing
    /// that a dead process has asked of the metadata is on its way still, for that may take the others out, whether the node
    /// itself has asked for it or another one that was to leave. Nor is a volume being made, to which the node may belong.
    pub(super) fn is_spare(&self, node: NodeId) -> bool {
        self.is_spare_beside(node, |_| true)
    }

    /// The same, of a node that does not know what it loses: those whom it does not hear do not count, for it may be about to take them out.
    fn is_spare_unknowing(&self, node: NodeId) -> bool {
        let process = self.nodes[&node].process.as_ref();
        let peers = process.map(|process| process.engine.status().peers);
        let hears = |other| peers.as_ref().is_none_or(|peers| peers.contains(&other));
        self.is_spare_beside(node, hears)
    }

    fn is_spare_beside(&self, node: NodeId, counts: impl Fn(NodeId) -> bool) -> bool {
        !self.agreement.is_haunted()
            && !self.guests.is_making()
            && self.slices().all(|record| {
                let mut others = record.in_sync().filter(|it| *it != node);
                others.any(|other| counts(other) && self.is_whole(other, record))
            })
    }

    /// Whether a node has what a record says that it has: all of a slice.
    pub(super) fn is_whole(&self, node: NodeId, record: &SliceRecord) -> bool {
        let node = &self.nodes[&node];
        let replica = record.replica(node.id);
        if replica.is_none_or(|it| it.store != node.store) || node.aside.is_some() {
            return false;
        }
        if !node.is_wounded {
            return true;
        }
        let Some(process) = &node.process else {
            return false;
        };
        let shown = node.clock.shows(self.now);
        let mut views = process.engine.views(shown);
        let view = views.find(|view| view.slice == record.slice);
        let status = process.engine.status();
        let mut replicas = status.replicas.iter();
        let replica = replicas.find(|replica| replica.slice == record.slice);
        view.is_some_and(|view| view.in_sync == Some(record.epoch))
            && replica.is_some_and(|replica| replica.bad_blocks == 0)
    }
}

/// Where everything is on a device that has been formatted.
fn layout_of(disk: &SimDisk) -> Option<DeviceLayout> {
    let superblock = Superblock::decode(&disk.peek(0, SUPERBLOCK_BYTES as u32));
    superblock.ok().map(|superblock| superblock.layout)
}

fn rot(disk: &mut SimDisk) {
    rot_some(disk);
    rot_table(disk);
}

fn rot_table(disk: &mut SimDisk) {
    for _ in 0..LOST_ENTRIES {
        rot_entry(disk);
    }
}

/// Bits change in some of the sectors that hold anything. One superblock stays: without both there is
/// no store to repair. Nor does the second copy of the table rot by itself: writes to the first one may
/// be lost, and with both nobody could tell that an entry is an old one.
fn rot_some(disk: &mut SimDisk) {
    let Some(layout) = layout_of(disk) else {
        return;
    };
    for _ in 0..ROTTEN_SECTORS {
        let Some(sector) = disk.draw_sector(SUPERBLOCK_BYTES as u64, disk.bytes()) else {
            return;
        };
        if sector < layout.table_offsets[1] {
            disk.rot(sector);
        }
    }
}

/// Bits change in some of the sectors of pages.
fn rot_pages(disk: &mut SimDisk) {
    let Some(layout) = layout_of(disk) else {
        return;
    };
    for _ in 0..ROTTEN_SECTORS {
        if let Some(sector) = disk.draw_sector(layout.slots_offset, layout.table_offsets[1]) {
            disk.rot(sector);
        }
    }
}

/// Every sector of the journal that holds anything rots.
fn rot_journal(disk: &mut SimDisk) {
    let Some(layout) = layout_of(disk) else {
        return;
    };
    for sector in disk.sectors_held(layout.journal_offset, layout.table_offsets[0]) {
        disk.rot(sector);
    }
}

/// The header of a segment that holds something is what it was before that was begun: one of an earlier use, where
/// there is any, which is harder to tell than none.
fn lose_header(disk: &mut SimDisk) {
    let Some(layout) = layout_of(disk) else {
        return;
    };
    let (start, end) = (layout.journal_offset, layout.table_offsets[0]);
    let Some(drawn) = disk.draw_sector(start, end) else {
        return;
    };
    let in_segment = |sector: u64| (sector - start) % u64::from(layout.segment_bytes);
    let drawn = drawn - in_segment(drawn);
    let mut headers = disk.sectors_held(start, end);
    headers.retain(|sector| in_segment(*sector) == 0);
    let from_drawn = headers.partition_point(|header| *header < drawn);
    headers.rotate_left(from_drawn);
    if !headers.into_iter().any(|header| disk.lose_write(header)) {
        disk.erase_sector(drawn);
    }
}

/// Both copies of an entry of the table rot: a page is lost with them. Of the entries in a sector it is the same
/// one in both: of another one there would be one copy left, which may be an old one.
fn rot_entry(disk: &mut SimDisk) {
    if let Some(copies) = draw_entry(disk) {
        for copy in copies {
            disk.rot_within(copy, TABLE_ENTRY);
        }
    }
}

fn rot_second_copies(disk: &mut SimDisk) {
    for _ in 0..LOST_ENTRIES {
        if let Some([_, second]) = draw_entry(disk) {
            disk.rot(second);
        }
    }
}

/// Where both copies of an entry are.
fn draw_entry(disk: &mut SimDisk) -> Option<[u64; 2]> {
    let layout = layout_of(disk)?;
    let [first, second] = layout.table_offsets;
    let entry = disk.draw_sector(first, first + layout.table_bytes())?;
    Some([entry, entry - first + second])
}

/// Some of the latest writes to slots, and to one of the two copies of the table, were not done, or
/// done to another such place. Not to the journal: a journal that forgets its end without a trace has
/// forgotten what it acknowledged, and no replica that leads alone could tell.
fn lose_writes(disk: &mut SimDisk) {
    let Some(layout) = layout_of(disk) else {
        return;
    };
    let (start, end) = (layout.table_offsets[0], layout.table_offsets[1]);
    for number in 0..LOST_WRITES {
        let Some(from) = disk.draw_sector(start, end) else {
            return;
        };
        if number % 2 == 0 {
            disk.lose_write(from);
        } else if let Some(to) = disk.draw_sector(start, end) {
            disk.misdirect(from, to);
        }
    }
}

/// Whatever was overwritten last of pages, and of their table, is as it was before: one looks like the other, and
/// like what was there once.
pub(super) fn go_back(disk: &mut SimDisk) {
    if let Some(layout) = layout_of(disk) {
        disk.go_back(layout.table_offsets[0]);
    }
}

/// One block of every page becomes another, and the entries of the table say so.
fn alter(disk: &mut SimDisk) {
    let superblock = Superblock::decode(&disk.peek(0, SUPERBLOCK_BYTES as u32));
    let Ok(superblock) = superblock else {
        return;
    };
    let layout = superblock.layout;
    for local in 0..layout.slot_count {
        let offset = u64::from(local) * TABLE_ENTRY as u64;
        let copies = layout.table_offsets.map(|table| table + offset);
        let slot = superblock.slot_base + local;
        let entries = copies.map(|copy| {
            let within = copy % TABLE_BLOCK as u64;
            let block = disk.peek(copy - within, TABLE_BLOCK as u32);
            let raw = &block[within as usize..within as usize + TABLE_ENTRY];
            PageEntry::decode(raw, superblock.nonce, slot).ok()
        });
        let newest = entries
            .into_iter()
            .flatten()
            .max_by_key(|entry| entry.version);
        let Some(mut entry) = newest else {
            continue;
        };
        let SlotContent::Page {
            mask, checksums, ..
        } = &mut entry.content
        else {
            continue;
        };
        if *mask == 0 {
            continue;
        }
        let block = mask.trailing_zeros();
        let place = layout.slots_offset
            + u64::from(local) * PAGE_SIZE as u64
            + u64::from(block) * BLOCK_SIZE as u64;
        let mut data = disk.peek(place, BLOCK_SIZE as u32);
        data.iter_mut().for_each(|byte| *byte = !*byte);
        checksums[block as usize] = crc32c(&data);
        disk.poke(place, &data);
        let raw = entry.encode(superblock.nonce);
        copies.iter().for_each(|copy| overwrite(disk, *copy, &raw));
    }
}

/// Overwrites a part of a block of the table.
fn overwrite(disk: &mut SimDisk, offset: u64, bytes: &[u8]) {
    let within = offset % TABLE_BLOCK as u64;
    let start = offset - within;
    let mut block = disk.peek(start, TABLE_BLOCK as u32);
    block[within as usize..within as usize + bytes.len()].copy_from_slice(bytes);
    disk.poke(start, &block);
}
