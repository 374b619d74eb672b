//! Which volumes were deleted.
//!
//! What nodes hold of a volume is dropped because this says so, never because nothing is said of the volume any more:
//! documents may be lost for other reasons.
//!
//! Invariants:
//! - a volume that is in it stays in it: its id is never given out again;
//! - its ranges are in order and do not touch, so there are at most as many as there are volumes, and one more, but for ids
//!   whose volumes were left out when the metadata was made again.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::VolumeId;

/// Where it is.
pub const DELETED_KEY: &str = "/holdfast/deleted";

/// The volumes that were deleted, and those whose making was given up, at [`DELETED_KEY`]; nobody has deleted any as long
/// as it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletedRecord {
    /// Schema number, 1.
    pub schema: u32,
    /// The first and the last of each range.
    volumes: Vec<(VolumeId, VolumeId)>,
}

impl Default for DeletedRecord {
    fn default() -> Self {
        Self {
            schema: 1,
            volumes: Vec::new(),
        }
    }
}

impl DeletedRecord {
    /// Whether a volume was deleted.
    #[must_use]
    pub fn contains(&self, volume: VolumeId) -> bool {
        let after = self.volumes.partition_point(|(first, _)| *first <= volume);
        let before = after.checked_sub(1);
        before.is_some_and(|place| volume <= self.volumes[place].1)
    }

    /// A volume is deleted.
    pub fn insert(&mut self, volume: VolumeId) {
        if self.contains(volume) {
            return;
        }
        let place = self.volumes.partition_point(|(first, _)| *first < volume);
        self.volumes.insert(place, (volume, volume));
        let ranges = core::mem::take(&mut self.volumes);
        for (first, last) in ranges {
            match self.volumes.last_mut() {
                Some(before) if before.1.next() == first => before.1 = last,
                _ => self.volumes.push((first, last)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn deleted(volumes: impl IntoIterator<Item = u64>) -> DeletedRecord {
        let mut record = DeletedRecord::default();
        for volume in volumes {
            record.insert(VolumeId(volume));
        }
        record
    }

    #[test]
    fn what_was_deleted_is_in_it_and_nothing_else() {
        for order in [[2, 4, 3, 9, 4], [9, 4, 2, 3, 2], [3, 9, 2, 4, 9]] {
            let record = deleted(order);
            let found: Vec<u64> = (0..12)
                .filter(|it| record.contains(VolumeId(*it)))
                .collect();
            assert_eq!(found, [2, 3, 4, 9]);
            assert_eq!(record.volumes.len(), 2);
        }
        assert!(!DeletedRecord::default().contains(VolumeId(1)));
    }

    #[test]
    fn it_is_no_longer_than_the_list_of_those_that_are_there() {
        let is_there = |volume: u64| volume.is_multiple_of(1000);
        let record = deleted((1..=10_000).rev().filter(|it| !is_there(*it)));
        assert_eq!(record.volumes.len(), 10);
        let text = record.encode();
        assert_eq!(DeletedRecord::decode(&text), Ok(record));
        assert_eq!(
            &deleted([1, 2]).encode()[..],
            br#"{"schema":1,"volumes":[[1,2]]}"#
        );
    }
}
