//! What an opening would find in the journal, for those who only look: the same conclusions from
//! the same records, without a store.
//!
//! It refuses to keep data: of a change that an opening would redo it keeps which blocks it is of.
//!
//! Invariant: what is said of a slice is what [`StoreEvent::Opened`](crate::StoreEvent::Opened)
//! would say of it, were the store opened now.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_format::{Body, Install, PageSet};
use holdfast_journal::{Found, GroupNumber};
use holdfast_model::{BLOCKS_PER_PAGE, BlockIndex, BlockRange, Change, Entry, PageIndex, SliceId};
use holdfast_stdx::Bytes;

use crate::event::RecoveredSlice;
use crate::item::Effect;
use crate::machine::partition_of;
use crate::recovered::{Redo, Sliver, Slivers};

/// A survey that is under way.
#[derive(Debug)]
pub struct Survey {
    slivers: Slivers,
}

/// A slice as an opening would find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedSlice {
    /// What the replica would be told.
    pub recovered: RecoveredSlice,
    /// The partition of the journal that the slice writes to.
    pub partition: u16,
    /// The pages that the slice has, as its records say.
    pub pages: PageSet,
    /// Whether that is all of them: no record of them can be missing.
    pub pages_certain: bool,
    /// Changes that would be redone.
    pub redo_changes: u64,
    /// The blocks of those changes, one bit each, by page.
    pub redo_blocks: BTreeMap<PageIndex, u64>,
}

impl SurveyedSlice {
    /// A slice of which the journal says nothing, in a partition with a hole: as damaged as can be.
    fn unknown(partition: u16, suspect: Option<GroupNumber>) -> Self {
        Self::new(Sliver::lost(), partition, suspect)
    }

    fn new(mut sliver: Sliver, partition: u16, suspect: Option<GroupNumber>) -> Self {
        let outcome = sliver.finish();
        let mut redo_changes = 0;
        let mut redo_blocks = BTreeMap::new();
        for redo in outcome.settled.iter().chain(&outcome.unsettled) {
            redo_changes += 1;
            if let Some(range) = range_of(redo) {
                add(&mut redo_blocks, range);
            }
        }
        Self {
            recovered: sliver.recovered(&outcome, suspect),
            partition,
            pages_certain: sliver.pages_certain,
            pages: sliver.pages,
            redo_changes,
            redo_blocks,
        }
    }
}

/// What a survey found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// The slices that records speak of.
    pub slices: BTreeMap<SliceId, SurveyedSlice>,
    /// Slices whose end is the last thing that was said of them.
    pub dropped: Vec<SliceId>,
    has_hole: Vec<bool>,
    suspects: Vec<Option<GroupNumber>>,
}

impl Surveyed {
    /// Whether a part of the journal is missing that had been durable.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        self.has_hole.contains(&true)
    }

    /// Takes note of a slice that has pages. If the journal does not know it, it was dropped and its
    /// pages are left over, which gives `None`; unless its records may have been lost in a hole.
    pub fn slice_with_pages(&mut self, id: SliceId) -> Option<&mut SurveyedSlice> {
        if !self.slices.contains_key(&id) {
            let partition = partition_of(id, self.has_hole.len() as u16);
            let place = usize::from(partition);
            if !self.has_hole[place] || self.dropped.contains(&id) {
                return None;
            }
            let unknown = SurveyedSlice::unknown(partition, self.suspects[place]);
            self.slices.insert(id, unknown);
        }
        self.slices.get_mut(&id)
    }
}

impl Survey {
    /// A survey of a journal with so many partitions, at least one.
    #[must_use]
    pub fn new(partitions: u16) -> Self {
        assert!(partitions > 0, "a journal has partitions");
        Self {
            slivers: Slivers::new(partitions),
        }
    }

    /// Takes what the journal's recovery found, in its order.
    pub fn take(&mut self, mut found: Found) {
        if let Found::Record { read, .. } = &mut found {
            forget_data(&mut read.record.body);
        }
        self.slivers.take(found);
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Surveyed {
        let Slivers {
            slices,
            dropped,
            holes,
            suspects,
        } = self.slivers;
        let partitions = holes.len() as u16;
        let slices = slices.into_iter().map(|(id, sliver)| {
            let partition = partition_of(id, partitions);
            let suspect = suspects[usize::from(partition)];
            (id, SurveyedSlice::new(sliver, partition, suspect))
        });
        Surveyed {
            slices: slices.collect(),
            dropped: dropped.into_keys().collect(),
            has_hole: holes.iter().map(|holes| !holes.is_empty()).collect(),
            suspects,
        }
    }
}

fn forget_data(body: &mut Body) {
    if let Body::Entry(Entry {
        change: Change::Write { data, .. },
        ..
    })
    | Body::Install {
        install: Install::Change(Change::Write { data, .. }),
        ..
    } = body
    {
        *data = Bytes::new();
    }
}

fn range_of(redo: &Redo) -> Option<BlockRange> {
    match redo.source.effect() {
        Effect::Change(change) => change.range(),
        Effect::Bad(range) => Some(range),
    }
}

fn add(blocks: &mut BTreeMap<PageIndex, u64>, range: BlockRange) {
    let last = BlockIndex(range.end() - 1).page();
    for page in BlockIndex(range.start()).page().0..=last.0 {
        let first = PageIndex(page).first_block().0;
        let from = range.start().max(first) - first;
        let to = range.end().min(first + BLOCKS_PER_PAGE) - first;
        let mask = (u64::MAX >> (BLOCKS_PER_PAGE - (to - from))) << from;
        *blocks.entry(PageIndex(page)).or_default() |= mask;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_format::{ReadRecord, Record};
    use holdfast_model::{Epoch, Fence, Sequence, VolumeId};

    use super::*;

    const SLICE: SliceId = SliceId {
        volume: VolumeId(1),
        index: 0,
    };

    fn record(group: u64, redo: bool, body: Body) -> Found {
        Found::Record {
            partition: partition_of(SLICE, 2),
            group: GroupNumber(group),
            redo,
            read: ReadRecord {
                record: Record {
                    slice: SLICE,
                    committed: Sequence(1),
                    body,
                },
                bad: Vec::new(),
            },
        }
    }

    fn hole(partition: u16) -> Found {
        Found::Hole {
            partition,
            hole: None,
        }
    }

    fn write(sequence: u64, start: u32, blocks: usize) -> Body {
        let data = Bytes::from(alloc::vec![7; blocks * holdfast_model::BLOCK_SIZE]);
        Body::Entry(Entry {
            epoch: Epoch(3),
            sequence: Sequence(sequence),
            fence: Fence(0),
            command: Default::default(),
            change: Change::write(BlockIndex(start), data),
        })
    }

    #[test]
    fn a_slice_is_found_as_an_opening_would_find_it() {
        let mut survey = Survey::new(2);
        survey.take(record(1, false, write(1, 0, 1)));
        survey.take(record(2, true, write(2, 60, 8)));
        survey.take(record(3, true, write(3, 191, 1)));
        let surveyed = survey.finish();
        let slice = &surveyed.slices[&SLICE];
        assert_eq!(slice.recovered.prepared, (Epoch(3), Sequence(3)));
        assert_eq!(slice.recovered.committed, Sequence(1));
        assert!(slice.recovered.intact);
        assert!(slice.pages_certain);
        assert_eq!(slice.redo_changes, 2);
        let blocks: Vec<(u32, u64)> = slice
            .redo_blocks
            .iter()
            .map(|(page, mask)| (page.0, *mask))
            .collect();
        assert_eq!(blocks, [(0, 0xF << 60), (1, 0xF), (2, 1 << 63)]);
    }

    #[test]
    fn a_whole_page_is_all_of_its_bits() {
        let mut blocks = BTreeMap::new();
        add(&mut blocks, BlockRange::new(64, 128));
        assert_eq!(blocks[&PageIndex(1)], u64::MAX);
        assert_eq!(blocks[&PageIndex(2)], u64::MAX);
        assert_eq!(blocks.len(), 2);
    }

    #[test]
    fn a_slice_that_only_the_table_knows_is_damaged_if_there_is_a_hole() {
        let partition = partition_of(SLICE, 2);
        assert_eq!(Survey::new(2).finish().slice_with_pages(SLICE), None);
        let mut survey = Survey::new(2);
        survey.take(hole(partition));
        let mut surveyed = survey.finish();
        assert!(surveyed.has_holes());
        let slice = surveyed.slice_with_pages(SLICE).expect("it may be one");
        assert!(!slice.recovered.intact);
        assert!(!slice.pages_certain);
        let mut survey = Survey::new(2);
        survey.take(hole(partition));
        survey.take(record(9, false, Body::DropSlice));
        assert_eq!(survey.finish().slice_with_pages(SLICE), None);
    }
}
