//! Both superblocks of each device, read before a new list is written to them: one of them may have rotted
//! since the last time, and the other is not to be torn then.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use holdfast_model::{DiskCompletion, DiskId, DiskOp, DiskToken};

use crate::members::Member;
use crate::superblocks::{Copies, written_first};

/// What is being read.
#[derive(Debug, Default)]
pub(crate) struct Look {
    asked: BTreeMap<DiskToken, (DiskId, usize)>,
    copies: BTreeMap<DiskId, Copies>,
}

/// What is asked for: both copies, of each of these devices.
pub(crate) fn reads(members: &[Member]) -> Vec<(DiskId, usize, DiskOp)> {
    let mut reads = Vec::new();
    for (geometry, _) in members {
        for (copy, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
            let length = SUPERBLOCK_BYTES as u32;
            reads.push((geometry.disk, copy, DiskOp::Read { offset, length }));
        }
    }
    reads
}

impl Look {
    /// A copy of a device's superblock is being read.
    pub(crate) fn ask(&mut self, token: DiskToken, disk: DiskId, copy: usize) {
        self.asked.insert(token, (disk, copy));
    }

    /// It was read, or could not be.
    pub(crate) fn take(&mut self, completion: DiskCompletion) {
        let asked = self.asked.remove(&completion.token);
        let (disk, copy) = asked.expect("what ends was asked for");
        self.copies.entry(disk).or_default()[copy] = Some(completion.result);
    }

    /// Whether everything was read.
    pub(crate) fn is_done(&self) -> bool {
        self.asked.is_empty()
    }

    /// Of each device the copy that is written first.
    pub(crate) fn written_first(&self) -> BTreeMap<DiskId, usize> {
        let copies = self.copies.iter();
        copies
            .map(|(disk, copies)| (*disk, written_first(copies)))
            .collect()
    }
}
