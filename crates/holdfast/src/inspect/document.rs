//! What an inspection says to programs. Names are kept; new ones may be added.

use std::collections::BTreeMap;

use holdfast_api::Problem;
use holdfast_format::layout::{Field, Region, Structure};
use holdfast_model::{ClusterId, NodeId, SliceId, StoreId, Tier};
use serde::{Serialize, Serializer};

use super::damage::Damage;
use super::source::InUse;

/// Sizes and offsets of all structures.
#[derive(Debug, Serialize)]
pub(crate) struct LayoutDocument {
    pub(crate) format_version: u32,
    pub(crate) structures: Vec<StructureReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StructureReport {
    name: &'static str,
    bytes: usize,
    fields: Vec<FieldReport>,
}

#[derive(Debug, Serialize)]
struct FieldReport {
    name: &'static str,
    offset: usize,
    bytes: usize,
}

impl From<Structure> for StructureReport {
    fn from(structure: Structure) -> Self {
        let field = |field: Field| FieldReport {
            name: field.name,
            offset: field.offset,
            bytes: field.bytes,
        };
        Self {
            name: structure.name,
            bytes: structure.bytes,
            fields: structure.fields.into_iter().map(field).collect(),
        }
    }
}

/// One store: what is on the devices of one node that belong together.
#[derive(Debug, Serialize)]
pub(crate) struct StoreReport {
    pub(crate) store: StoreId,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) use_counter: u64,
    pub(crate) partitions: u16,
    pub(crate) device_count: u16,
    /// Of the list of devices: how often it has been made anew. 0 where there is none, in version 1.
    pub(crate) list_generation: u64,
    /// Numbers of the devices that were not given.
    pub(crate) devices_missing: Vec<u16>,
    pub(crate) devices: Vec<DeviceReport>,
    /// Absent if it was not looked at, or its device was not given.
    pub(crate) journal: Option<JournalReport>,
    /// Absent if neither the journal nor the page table was looked at.
    pub(crate) slices: Option<Vec<SliceReport>>,
    /// Pages of slices that are not among them: there are too many slices to tell them apart.
    pub(crate) pages_uncounted: u64,
    /// The pages of one slice, or one page of it; if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pages: Option<Vec<PageReport>>,
    /// What reading the pages themselves has shown; if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<Verified>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) damage_unlisted: u64,
    /// Whether nothing that was looked at is damaged.
    pub(crate) sound: bool,
}

impl StoreReport {
    /// Whether the store holds something of a slice, as far as can be seen.
    pub(crate) fn shows(&self, slice: SliceId) -> bool {
        let mut slices = self.slices.iter().flatten();
        slices.any(|report| report.slice == slice)
    }

    /// Whether everything was looked at that could hold a slice, and could be read.
    pub(crate) fn shows_all(&self) -> bool {
        let tables = self.devices.iter().all(|device| device.slots.is_some());
        let whole = self.devices_missing.is_empty() && self.pages_uncounted == 0;
        whole && tables && self.journal.is_some() && self.sound
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct DeviceReport {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) in_use: Option<InUse>,
    pub(crate) ordinal: u16,
    pub(crate) standing: Standing,
    pub(crate) tier: Tier,
    pub(crate) sector: u32,
    /// The device's size when the store was created.
    pub(crate) bytes_then: u64,
    pub(crate) superblocks: Vec<SuperblockReport>,
    pub(crate) regions: Vec<RegionReport>,
    pub(crate) segment_bytes: u32,
    pub(crate) segment_count: u32,
    pub(crate) slot_base: u32,
    pub(crate) slot_count: u32,
    /// Absent if the page table was not looked at.
    pub(crate) slots: Option<SlotCounts>,
}

/// What the store's list of devices says of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// It takes pages; in version 1 all do.
    InUse,
    /// Its pages go to other devices.
    Draining,
    /// The same, and then it leaves.
    Leaving,
    /// The store was used without it, for it was not there.
    Missing,
    /// It failed: what is on it does not count.
    Lost,
    /// It was being added.
    Joining,
    /// It is not in the list: it has left the store.
    Gone,
}

impl Standing {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::InUse => "in use",
            Self::Draining => "draining",
            Self::Leaving => "draining, to be removed",
            Self::Missing => "was missing when the store was last opened",
            Self::Lost => "has failed, and counts no more",
            Self::Joining => "being added when the node stopped; not one of the store's",
            Self::Gone => "not one of the store's any more",
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct SuperblockReport {
    pub(crate) offset: u64,
    /// Absent if it cannot be used.
    pub(crate) update: Option<u64>,
    pub(crate) use_counter: Option<u64>,
    /// Why it cannot.
    pub(crate) problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RegionReport {
    pub(crate) name: &'static str,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl From<Region> for RegionReport {
    fn from(region: Region) -> Self {
        Self {
            name: region.name,
            offset: region.offset,
            bytes: region.bytes,
        }
    }
}

/// What the page table says of a device's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SlotCounts {
    /// Slots that hold a page.
    pub(crate) used: u64,
    /// Slots that do not, those of `never_used` counted.
    pub(crate) free: u64,
    pub(crate) never_used: u64,
    /// Slots of which neither copy of the entry can be read.
    pub(crate) unknown: u64,
    /// Entries of which one copy is older or missing: made alike at the next start.
    pub(crate) copies_differ: u64,
    /// Entries of which one copy cannot be read.
    pub(crate) copies_bad: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct JournalReport {
    /// The device that carries it.
    pub(crate) path: String,
    pub(crate) offset: u64,
    pub(crate) segment_bytes: u32,
    /// How many segments are in which state.
    pub(crate) segments: BTreeMap<SegmentState, u64>,
    pub(crate) partitions: Vec<PartitionReport>,
    /// If that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) every_segment: Option<Vec<SegmentReport>>,
    /// How many records recovery would take, by kind.
    pub(crate) records: BTreeMap<&'static str, u64>,
}

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SegmentState {
    InUse,
    Trimmed,
    NeverUsed,
    Bad,
}

impl SegmentState {
    pub(crate) const ALL: [Self; 4] = [Self::InUse, Self::Trimmed, Self::NeverUsed, Self::Bad];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in use",
            Self::Trimmed => "trimmed",
            Self::NeverUsed => "never used",
            Self::Bad => "bad header",
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct SegmentReport {
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    pub(crate) state: SegmentState,
    pub(crate) partition: Option<u16>,
    /// In which start of the store it was begun.
    pub(crate) start: Option<u64>,
    pub(crate) ordinal: Option<u64>,
    pub(crate) first_group: Option<u64>,
    pub(crate) problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PartitionReport {
    pub(crate) partition: u16,
    /// Its chain, oldest first.
    pub(crate) segments: Vec<u32>,
    pub(crate) oldest_group: u64,
    /// The group that would be written next.
    pub(crate) next_group: u64,
    /// Changes before this group need not be redone.
    pub(crate) redo_from: Option<u64>,
    pub(crate) groups: u64,
    pub(crate) records: u64,
    /// Where the last valid group ends.
    pub(crate) end: Option<Place>,
    /// "clean", or "suspect": what stands after the end looks like a group that is torn or rotten, or one that
    /// was written since took the place of such a group.
    pub(crate) tail: &'static str,
    pub(crate) holes: Vec<Hole>,
    /// Blocks of data that are not what their checksums say.
    pub(crate) bad_blocks: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    /// On the device.
    pub(crate) offset: u64,
}

/// Groups that had been durable and cannot be read.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Hole {
    pub(crate) first_group: u64,
    pub(crate) last_group: u64,
    /// Between the groups that can be read before and after.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A slice, as an opening of the store would find it.
#[derive(Debug, Serialize)]
pub(crate) struct SliceReport {
    #[serde(serialize_with = "as_text")]
    pub(crate) slice: SliceId,
    /// What the journal says; absent if it was not looked at, or says nothing.
    pub(crate) journal: Option<SliceJournal>,
    /// What the page table says; absent if it was not looked at.
    pub(crate) table: Option<SliceTable>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SliceJournal {
    pub(crate) partition: u16,
    pub(crate) epoch: u64,
    pub(crate) prepared: u64,
    pub(crate) committed: u64,
    /// Whether nothing that had been durable is missing.
    pub(crate) intact: bool,
    pub(crate) tail_suspect: bool,
    pub(crate) pages: u32,
    /// Whether no record of them can be missing.
    pub(crate) pages_certain: bool,
    pub(crate) redo_changes: u64,
    pub(crate) redo_blocks: u64,
    pub(crate) commands: usize,
    pub(crate) state_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SliceTable {
    pub(crate) pages: u64,
    /// Slots of pages that another slot holds in a newer version: freed at the next start.
    pub(crate) superseded: u64,
    /// Blocks that are known to be lost.
    pub(crate) bad_blocks: u64,
    /// Pages that the journal lists and no slot holds; absent if that cannot be told.
    pub(crate) lost: Option<u64>,
    /// Pages that a slot holds and the journal does not list: freed at the next start.
    pub(crate) left_over: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PageReport {
    pub(crate) page: u32,
    pub(crate) path: String,
    pub(crate) slot: u32,
    /// Of the slot, on its device.
    pub(crate) offset: u64,
    pub(crate) version: u64,
    pub(crate) written: u64,
    /// Blocks that are there, one bit each, in hexadecimal digits.
    pub(crate) mask: String,
    /// Blocks that are lost.
    pub(crate) bad: String,
    /// Blocks that the journal would write again.
    pub(crate) redo: String,
    /// Each block that is there or lost; if one page was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocks: Option<Vec<BlockReport>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BlockReport {
    pub(crate) block: u32,
    /// On the device.
    pub(crate) offset: u64,
    /// "good", "bad" (not what its checksum says), "lost", or "redo" (the journal writes it again).
    pub(crate) state: &'static str,
    pub(crate) checksum: u32,
    /// Absent if the block cannot be read.
    pub(crate) found: Option<u32>,
}

/// What reading all pages has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verified {
    pub(crate) pages: u64,
    pub(crate) blocks: u64,
    /// Blocks that are not what their checksums say.
    pub(crate) bad_blocks: u64,
    /// Blocks that are not, and that the journal would write again.
    pub(crate) redo_blocks: u64,
}

/// A path of which nothing could be said.
#[derive(Debug, Serialize)]
pub(crate) struct FailedPath {
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

fn as_text<S: Serializer>(slice: &SliceId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(slice)
}
