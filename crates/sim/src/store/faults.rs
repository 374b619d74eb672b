//! What devices do wrong.

use holdfast_format::Superblock;
use holdfast_stdx::Duration;

use super::run::{Check, Host};

/// Pieces of a check at most.
const CHECK_TURNS: u32 = 1000;

impl Host {
    pub(crate) fn make_rot(&mut self) -> Check {
        if !self.options.rot {
            return Ok(());
        }
        let index = self.prng.below(self.disks.len() as u64) as usize;
        let disk = &mut self.disks[index];
        let Ok(superblock) = Superblock::decode(&disk.peek(0, 4096)) else {
            return Ok(());
        };
        let layout = superblock.layout;
        let sector = u64::from(self.options.sector);
        // Only one copy of the table rots in a run: with both, a page may be lost for good.
        let (offset, bytes) = match self.prng.below(4) {
            0 => (layout.table_offsets[self.table_copy], layout.table_bytes()),
            1 => {
                // One superblock of two.
                (holdfast_format::SUPERBLOCK_OFFSETS[1], 4096)
            }
            _ => {
                let bytes = u64::from(layout.slot_count) * (256 << 10);
                (layout.slots_offset, bytes)
            }
        };
        for _ in 0..20 {
            let at = offset + self.prng.below(bytes / sector) * sector;
            if self.prng.chance(1, 4) {
                if offset == layout.slots_offset {
                    disk.make_unreadable(at);
                    self.rotten = true;
                    self.journal_rotten |= self.options.pages;
                    break;
                }
            } else if disk.rot(at) {
                self.rotten |= offset == layout.slots_offset;
                // Of what is placed the slot is a part of the log.
                self.journal_rotten |= self.rotten && self.options.pages;
                break;
            }
        }
        Ok(())
    }

    /// The disk that the store would find its journal on.
    pub(crate) fn journal_disk(&self) -> usize {
        let mut newest = (0, 0);
        for (index, disk) in self.disks.iter().enumerate() {
            let copies = holdfast_format::SUPERBLOCK_OFFSETS.map(|at| disk.peek(at, 4096));
            let valid = copies.iter().filter_map(|it| Superblock::decode(it).ok());
            let Some(found) = valid.max_by_key(|found| found.update) else {
                continue;
            };
            if found.has_journal() {
                newest = newest.max((found.list.generation, index));
            }
        }
        newest.1
    }

    /// The journal is checked; most times it has rotted somewhere just before: when that is mended it does not matter any more.
    pub(crate) fn check_journal(&mut self) -> Check {
        let before = (self.journal_rotten, self.rotten);
        let began = self.store().usage().journal.mended;
        // While it moves nobody knows from here where it is read.
        let rots = !self.options.orders && self.prng.chance(2, 3);
        if rots {
            self.rot_journal();
        }
        // What was on its way is durable by then, and counts.
        self.advance(self.now + Duration::from_millis(100))?;
        for begins in [true, false] {
            for _ in 0..CHECK_TURNS {
                if self.device_failed || !self.store().is_checking_journal() {
                    break;
                }
                let (store, out) = self.store_and_out();
                store.check_piece(out);
                self.advance(self.now + Duration::from_millis(20))?;
            }
            if self.device_failed {
                return Ok(());
            }
            if begins {
                self.store().check_journal();
            }
        }
        if self.store().is_checking_journal() {
            return Err("a check of the journal does not end".into());
        }
        self.advance(self.now + Duration::from_secs(2))?;
        if self.device_failed {
            return Ok(());
        }
        let found = self.store().usage().journal;
        self.report.mended += found.mended - began;
        if rots && found.rotten == found.mended {
            (self.journal_rotten, self.rotten) = before;
        }
        Ok(())
    }

    pub(crate) fn rot_journal(&mut self) {
        let journal = self.journal_disk();
        let disk = &mut self.disks[journal];
        let Ok(superblock) = Superblock::decode(&disk.peek(0, 4096)) else {
            return;
        };
        let layout = superblock.layout;
        let bytes = u64::from(layout.segment_bytes) * u64::from(layout.segment_count);
        for _ in 0..self.prng.between(1, 30) {
            let sector = u64::from(self.options.sector);
            let at = layout.journal_offset + self.prng.below(bytes / sector) * sector;
            if disk.rot(at) {
                self.journal_rotten = true;
                self.journal_has_rotted = true;
                self.rotten = true;
            }
        }
    }

    pub(crate) fn fail_device(&mut self) -> Check {
        if self.options.failures {
            let index = self.prng.below(self.disks.len() as u64) as usize;
            self.disks[index].fail();
            // That may be noted, and power lost before anybody hears of it.
            self.lost_device |= index != self.journal_disk() || self.options.orders;
        }
        Ok(())
    }
}
