//! A write that its host has given up and repeated elsewhere never lands over a later one
//! (`architecture.md`, invariant 2): once a host was told that a write is done, no entry brings its
//! content back to a sector that holds something else by then. What still sits in the sockets of a
//! node that stands still is such a write.
//!
//! Seen where it would happen, in the order of the slice's entries: a history of reads shows it only
//! if somebody reads before the next write.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{BLOCK_SIZE, Change, Entry, NodeId, SLICE_SIZE, Sequence, SliceId};

use crate::content::{SECTOR_SIZE, Value, value_claimed};
use crate::failure::Failure;
use crate::volumes::SECTORS_PER_BLOCK;

/// What was committed, by sector, and which writes are over.
#[derive(Debug, Default)]
pub(super) struct LateWrites {
    over: BTreeSet<Value>,
    /// Nobody is to blame for a late one.
    allowed: bool,
    slices: BTreeMap<SliceId, Contents>,
}

/// A slice after the last of its entries that was seen.
#[derive(Debug, Default)]
struct Contents {
    through: Sequence,
    sectors: BTreeMap<u64, Value>,
    /// An entry was missed: sectors that are not known may hold anything.
    has_gaps: bool,
}

impl LateWrites {
    /// A host was told that this write is done. Zeros do not tell who wrote them.
    pub(super) fn done(&mut self, write: Value) {
        if write != 0 && !self.allowed {
            self.over.insert(write);
        }
    }

    /// From now on nobody is to blame.
    pub(super) fn are_allowed(&mut self) {
        self.allowed = true;
    }

    /// An entry is seen committed for the first time.
    pub(super) fn check(
        &mut self,
        node: NodeId,
        slice: SliceId,
        entry: &Entry,
    ) -> Result<(), Failure> {
        let contents = self.slices.entry(slice).or_default();
        if entry.sequence <= contents.through {
            return Ok(());
        }
        if entry.sequence != contents.through.next() {
            contents.sectors.clear();
            contents.has_gaps = true;
        }
        contents.through = entry.sequence;
        match &entry.change {
            Change::Write { start, data, .. } => {
                let first = u64::from(start.0) * SECTORS_PER_BLOCK;
                for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR_SIZE)) {
                    let Some(value) = value_claimed(bytes, sector_of_volume(slice, sector)) else {
                        continue;
                    };
                    let before = contents.put(sector, value);
                    if self.over.contains(&value) && before.is_some_and(|before| before != value) {
                        return Err(late(node, slice, entry, sector, value, before));
                    }
                }
            }
            Change::Clear(range) => {
                let sectors = u64::from(range.start()) * SECTORS_PER_BLOCK
                    ..u64::from(range.end()) * SECTORS_PER_BLOCK;
                contents.clear(sectors);
            }
            Change::Nothing => {}
        }
        Ok(())
    }
}

impl Contents {
    /// What the sector held before, if that is known.
    fn put(&mut self, sector: u64, value: Value) -> Option<Value> {
        let before = self.sectors.insert(sector, value);
        before.or((!self.has_gaps).then_some(0))
    }

    fn clear(&mut self, sectors: std::ops::Range<u64>) {
        for (_, value) in self.sectors.range_mut(sectors) {
            *value = 0;
        }
    }
}

fn sector_of_volume(slice: SliceId, sector: u64) -> u64 {
    u64::from(slice.index) * (SLICE_SIZE / BLOCK_SIZE as u64) * SECTORS_PER_BLOCK + sector
}

fn late(
    node: NodeId,
    slice: SliceId,
    entry: &Entry,
    sector: u64,
    value: Value,
    before: Option<Value>,
) -> Failure {
    let before = before.unwrap_or_default();
    let (sequence, command) = (entry.sequence, entry.command);
    Failure::LateWrite(format!(
        "{node} commits {sequence} of {slice} for {command:?}: write {value:x}, which its host has \
         long been told is done, lands on sector {sector} over {before:x}"
    ))
}

#[cfg(test)]
mod tests {
    use holdfast_model::{BlockIndex, CommandId, Epoch, Fence, VolumeId};

    use super::*;
    use crate::content::filled;

    const SLICE: SliceId = SliceId {
        volume: VolumeId(1),
        index: 1,
    };

    fn entry(sequence: u64, value: Value) -> Entry {
        let block = 5;
        let first = sector_of_volume(SLICE, block * SECTORS_PER_BLOCK);
        let data = filled(value, first, SECTORS_PER_BLOCK);
        Entry {
            epoch: Epoch(1),
            sequence: Sequence(sequence),
            fence: Fence::ZERO,
            command: CommandId::default(),
            change: Change::write(BlockIndex(block as u32), data),
        }
    }

    fn lands(late: &mut LateWrites, sequence: u64, value: Value) -> bool {
        late.check(NodeId(1), SLICE, &entry(sequence, value))
            .is_ok()
    }

    #[test]
    fn a_write_may_land_again_until_its_host_is_told() {
        let mut late = LateWrites::default();
        assert!(lands(&mut late, 1, 7));
        assert!(lands(&mut late, 2, 8));
        assert!(lands(&mut late, 3, 7), "its host waits for it still");
        late.done(7);
        assert!(lands(&mut late, 4, 7), "it changes nothing");
        assert!(lands(&mut late, 5, 9));
        assert!(!lands(&mut late, 6, 7), "it lands over a later one");
    }

    #[test]
    fn what_was_not_seen_is_no_ground_for_blame() {
        let mut late = LateWrites::default();
        late.done(7);
        assert!(lands(&mut late, 3, 7), "it may have been there before");
        assert!(lands(&mut late, 4, 8));
        assert!(!lands(&mut late, 5, 7));
    }

    #[test]
    fn zeros_are_nobodys() {
        let mut late = LateWrites::default();
        late.done(7);
        late.done(0);
        assert!(!lands(&mut late, 1, 7), "the sector was zeros");
        let clear = Entry {
            change: Change::Clear(holdfast_model::BlockRange::new(5, 1)),
            ..entry(2, 7)
        };
        assert!(late.check(NodeId(1), SLICE, &clear).is_ok());
        assert!(!lands(&mut late, 3, 7), "and is again");
    }
}
