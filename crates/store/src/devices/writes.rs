//! What an order reads and writes: superblocks, one copy after the other.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use holdfast_model::{DiskId, DiskOp, DiskRequest, DiskToken};
use holdfast_stdx::Bytes;

use super::Step;
use crate::look::{self, Look};
use crate::machine::Core;
use crate::requests::Urgency;

impl Core {
    pub(super) fn ask_device(&mut self, disk: DiskId, op: DiskOp) -> DiskToken {
        let token = DiskToken(self.devices.next_token);
        self.devices.next_token += 1;
        let under_way = self.devices.under_way.as_mut();
        under_way.expect("an order is under way").in_flight += 1;
        // Few, and somebody waits for them.
        let request = DiskRequest { token, disk, op };
        self.requests.push(request, Urgency::Read);
        token
    }

    /// Reads what the list is written over.
    pub(super) fn look(&mut self) {
        let mut look = Look::default();
        for (disk, copy, op) in look::reads(&self.devices.members) {
            let token = self.ask_device(disk, op);
            look.ask(token, disk, copy);
        }
        self.step(Step::Look(look));
    }

    fn write_superblock(&mut self, disk: DiskId, copy: usize, bytes: Bytes) {
        let op = DiskOp::Write {
            offset: SUPERBLOCK_OFFSETS[copy],
            parts: vec![bytes],
            durable: true,
        };
        self.ask_device(disk, op);
    }

    /// Writes one copy of a device's list after the other.
    fn write_list(&mut self, disk: DiskId, copy: usize, bytes: Bytes) {
        let first = self.devices.written_first.get(&disk).copied();
        self.write_superblock(disk, copy ^ first.unwrap_or(0), bytes);
    }

    pub(super) fn write_first(&mut self, copy: usize) {
        let (geometry, superblock) = &self.devices.members[0];
        let (disk, bytes) = (geometry.disk, superblock.encode());
        self.write_list(disk, copy, bytes);
        self.step(Step::First { copy });
    }

    pub(super) fn write_others(&mut self, copy: usize) {
        let others = self.devices.members[1..].iter();
        let writes: Vec<(DiskId, Bytes)> = others
            .map(|(geometry, superblock)| (geometry.disk, superblock.encode()))
            .collect();
        for (disk, bytes) in writes {
            self.write_list(disk, copy, bytes);
        }
        self.step(Step::Others { copy });
    }

    pub(super) fn write_joining(&mut self, copy: usize) {
        let under_way = self.devices.under_way.as_ref();
        let member = under_way.and_then(|under_way| under_way.member.as_ref());
        let (geometry, superblock) = member.expect("a device is being added");
        let (disk, bytes) = (geometry.disk, superblock.encode());
        self.write_superblock(disk, copy, bytes);
        self.step(Step::Join { copy });
    }

    /// The device that has left becomes blank, the second copy first.
    pub(super) fn wipe(&mut self, copy: usize) {
        let under_way = self.devices.under_way.as_ref();
        let member = under_way.and_then(|under_way| under_way.member.as_ref());
        let (geometry, _) = member.expect("a device is leaving");
        let disk = geometry.disk;
        self.write_superblock(disk, copy, Bytes::from(vec![0; SUPERBLOCK_BYTES]));
        self.step(Step::Wipe { copy });
    }
}
