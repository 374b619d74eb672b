//! The page table: which page every slot holds, as the two copies of its entries say.
//!
//! Invariants:
//! - of two valid copies the one with the higher version counts, as when a store is opened;
//! - memory is bounded by one chunk of each copy and 4 KiB a slice, of so many slices at most.

use std::collections::BTreeMap;
use std::ops::Range;

use holdfast_format::{
    EntryError, PageEntry, PageKey, PageSet, SlotContent, TABLE_BLOCK, TABLE_ENTRY,
};
use holdfast_model::SliceId;

use super::damage::{Damages, Severity};
use super::device::Device;
use super::document::SlotCounts;
use super::progress::Progress;
use super::source::Reading;

/// Bytes of each copy that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;
const ENTRIES_PER_BLOCK: u32 = (TABLE_BLOCK / TABLE_ENTRY) as u32;
/// Slices whose pages are told apart: as many as make 256 TiB. Beyond, pages are only counted.
const SLICES_MAX: usize = 1 << 16;
/// Pages in several slots that are remembered. A move that was cut short leaves a few.
const DOUBLES_MAX: usize = 1 << 20;

/// An entry that was never written, on a device that was blank.
static ZEROS: [u8; TABLE_ENTRY] = [0; TABLE_ENTRY];

/// What is wrong with a slot of which nothing is known.
const NO_COPY: &str = "entries of the page table: neither copy can be read";

/// What a copy of an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EntryCopy {
    Valid(PageEntry),
    /// Zeros: never written, or its write was lost.
    Blank,
    /// What was here before the store, or ours and no longer to be known as such.
    Other,
    /// Ours, and bad.
    Bad,
    Unreadable,
}

/// What the two copies of an entry say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The entry that counts.
    Entry(PageEntry),
    /// Neither copy was ever written.
    NeverUsed,
    /// Neither can be read.
    Unknown,
}

/// Where a slot and its entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotPlace {
    /// Its number among all of the store.
    pub(crate) slot: u32,
    /// Its number on its device.
    pub(crate) local: u32,
    /// The two copies of its entry, on the device.
    pub(crate) entries: [u64; 2],
}

/// Pages of one slice that the table knows.
#[derive(Debug, Default)]
pub(crate) struct SlicePages {
    pub(crate) seen: PageSet,
    pub(crate) pages: u64,
    pub(crate) superseded: u64,
    pub(crate) bad_blocks: u64,
}

/// What the tables of all devices say.
#[derive(Debug, Default)]
pub(crate) struct TableLook {
    /// By device, in the order in which they are given.
    pub(crate) counts: Vec<SlotCounts>,
    pub(crate) slices: BTreeMap<SliceId, SlicePages>,
    /// Pages of slices that are not among them.
    pub(crate) pages_uncounted: u64,
    /// Of pages that are in more than one slot, the version that counts.
    doubles: BTreeMap<PageKey, u64>,
}

impl TableLook {
    /// Whether this is the entry of the page that counts.
    pub(crate) fn is_current(&self, key: PageKey, version: u64) -> bool {
        self.doubles
            .get(&key)
            .is_none_or(|newest| *newest == version)
    }
}

/// Looks at the tables of all devices.
pub(crate) fn look(devices: &[Device], damages: &mut Damages, progress: &Progress) -> TableLook {
    let mut look = TableLook::default();
    // Versions of pages that are in more than one slot are needed for the first slot too.
    let mut twice: BTreeMap<PageKey, u64> = BTreeMap::new();
    for device in devices {
        let mut counts = SlotCounts::default();
        progress.begin("page table", 2 * device.superblock.layout.table_bytes());
        for_each_entry(
            device,
            Some((&mut counts, damages)),
            progress,
            |_, verdict| {
                if let Verdict::Entry(entry) = verdict {
                    take(&mut look, &mut twice, &entry);
                }
            },
        );
        look.counts.push(counts);
    }
    if !twice.is_empty() {
        for device in devices {
            for_each_entry(device, None, progress, |_, verdict| {
                if let Verdict::Entry(PageEntry {
                    version,
                    content: SlotContent::Page { key, .. },
                    ..
                }) = verdict
                    && let Some(newest) = twice.get_mut(&key)
                {
                    *newest = version.max(*newest);
                }
            });
        }
    }
    look.doubles = twice;
    look
}

fn take(look: &mut TableLook, twice: &mut BTreeMap<PageKey, u64>, entry: &PageEntry) {
    let SlotContent::Page { key, bad, .. } = &entry.content else {
        return;
    };
    if look.slices.len() >= SLICES_MAX && !look.slices.contains_key(&key.slice) {
        look.pages_uncounted += 1;
        return;
    }
    let slice = look.slices.entry(key.slice).or_default();
    if slice.seen.set(key.page, true) {
        slice.pages += 1;
    } else {
        slice.superseded += 1;
        if twice.len() < DOUBLES_MAX {
            twice.entry(*key).or_default();
        }
    }
    slice.bad_blocks += u64::from(bad.count_ones());
}

/// Gives what the table of a device says of each of its slots, in order; counts, and says what is
/// wrong, if that is asked for.
pub(crate) fn for_each_entry(
    device: &Device,
    mut told: Option<(&mut SlotCounts, &mut Damages)>,
    progress: &Progress,
    mut take: impl FnMut(SlotPlace, Verdict),
) {
    let layout = device.superblock.layout;
    let table_bytes = layout.table_bytes();
    for from in (0..table_bytes).step_by(CHUNK_BYTES as usize) {
        let rest = layout.table_offsets.map(|offset| offset + from);
        if rest.iter().all(|offset| *offset >= device.source.bytes()) {
            // The device was cut short: however long the tables were, there is nothing to read.
            if let Some((counts, damages)) = &mut told {
                counts.unknown += (table_bytes - from) / TABLE_ENTRY as u64;
                for offset in rest {
                    let place = (offset, table_bytes - from);
                    damages.add(device.source.path(), place, Severity::Lost, NO_COPY);
                }
            }
            return;
        }
        let length = CHUNK_BYTES.min(table_bytes - from) as usize;
        let copies = layout
            .table_offsets
            .map(|offset| device.source.read_patiently(offset + from, length));
        progress.add(2 * length as u64);
        let first = (from / TABLE_ENTRY as u64) as u32;
        for entry in entries(device, &copies, from, first) {
            let (place, copies) = entry;
            if let Some((counts, damages)) = &mut told {
                count(device, place, &copies, counts, damages);
            }
            take(place, judge(copies));
        }
    }
}

/// The entry of one slot, by its number on its device.
pub(crate) fn range_of_slots(device: &Device) -> Range<u32> {
    0..device.superblock.layout.slot_count / ENTRIES_PER_BLOCK * ENTRIES_PER_BLOCK
}

fn entries<'a>(
    device: &'a Device,
    copies: &'a [Reading; 2],
    from: u64,
    first: u32,
) -> impl Iterator<Item = (SlotPlace, [EntryCopy; 2])> + 'a {
    let superblock = &device.superblock;
    let slots = range_of_slots(device);
    let [a, b] = copies;
    let entries = a
        .bytes
        .chunks_exact(TABLE_ENTRY)
        .zip(b.bytes.chunks_exact(TABLE_ENTRY));
    entries
        .zip(first..slots.end)
        .map(move |((a_bytes, b_bytes), local)| {
            let at = from + u64::from(local - first) * TABLE_ENTRY as u64;
            let place = SlotPlace {
                slot: superblock.slot_base + local,
                local,
                entries: superblock.layout.table_offsets.map(|offset| offset + at),
            };
            let read = |reading: &Reading, copy: usize, bytes: &[u8]| {
                if reading.is_readable(place.entries[copy], TABLE_ENTRY) {
                    read(bytes, superblock.nonce, place.slot)
                } else {
                    EntryCopy::Unreadable
                }
            };
            (place, [read(a, 0, a_bytes), read(b, 1, b_bytes)])
        })
}

fn read(bytes: &[u8], nonce: u64, slot: u32) -> EntryCopy {
    match PageEntry::decode(bytes, nonce, slot) {
        Ok(entry) => EntryCopy::Valid(entry),
        Err(EntryError::NotOurs) if bytes == ZEROS => EntryCopy::Blank,
        Err(EntryError::NotOurs) => EntryCopy::Other,
        Err(EntryError::BadChecksum | EntryError::Malformed) => EntryCopy::Bad,
    }
}

/// Which of the copies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winner {
    First,
    Second,
    NeverUsed,
    Unknown,
}

fn winner(copies: &[EntryCopy; 2]) -> Winner {
    match copies {
        [EntryCopy::Valid(a), EntryCopy::Valid(b)] if a.version < b.version => Winner::Second,
        [EntryCopy::Valid(_), _] => Winner::First,
        [_, EntryCopy::Valid(_)] => Winner::Second,
        [
            EntryCopy::Blank | EntryCopy::Other,
            EntryCopy::Blank | EntryCopy::Other,
        ] => Winner::NeverUsed,
        _ => Winner::Unknown,
    }
}

fn judge(copies: [EntryCopy; 2]) -> Verdict {
    match (winner(&copies), copies) {
        (Winner::First, [EntryCopy::Valid(entry), _])
        | (Winner::Second, [_, EntryCopy::Valid(entry)]) => Verdict::Entry(entry),
        (Winner::NeverUsed, _) => Verdict::NeverUsed,
        _ => Verdict::Unknown,
    }
}

fn count(
    device: &Device,
    place: SlotPlace,
    copies: &[EntryCopy; 2],
    counts: &mut SlotCounts,
    damages: &mut Damages,
) {
    let path = device.source.path();
    let size = TABLE_ENTRY as u64;
    let entry = match winner(copies) {
        Winner::NeverUsed => {
            counts.never_used += 1;
            counts.free += 1;
            return;
        }
        Winner::Unknown => {
            counts.unknown += 1;
            for offset in place.entries {
                damages.add(path, (offset, size), Severity::Lost, NO_COPY);
            }
            return;
        }
        Winner::First => &copies[0],
        Winner::Second => &copies[1],
    };
    let holds_page = matches!(entry, EntryCopy::Valid(entry) if entry.content != SlotContent::Free);
    if holds_page {
        counts.used += 1;
    } else {
        counts.free += 1;
    }
    match copies {
        [EntryCopy::Valid(a), EntryCopy::Valid(b)] => {
            counts.copies_differ += u64::from(a.version != b.version);
        }
        [EntryCopy::Blank, _] | [_, EntryCopy::Blank] => counts.copies_differ += 1,
        _ => {
            counts.copies_bad += 1;
            for (copy, offset) in copies.iter().zip(place.entries) {
                if !matches!(copy, EntryCopy::Valid(_)) {
                    let what = "entries of the page table: the other copy is good";
                    damages.add(path, (offset, size), Severity::Spare, what);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: u64) -> EntryCopy {
        EntryCopy::Valid(PageEntry {
            version,
            slot: 3,
            content: SlotContent::Free,
        })
    }

    fn version(copies: [EntryCopy; 2]) -> Option<u64> {
        match judge(copies) {
            Verdict::Entry(entry) => Some(entry.version),
            Verdict::NeverUsed | Verdict::Unknown => None,
        }
    }

    #[test]
    fn the_newer_of_the_valid_copies_counts() {
        assert_eq!(version([entry(1), entry(2)]), Some(2));
        assert_eq!(version([entry(3), entry(2)]), Some(3));
        for other in [
            EntryCopy::Blank,
            EntryCopy::Other,
            EntryCopy::Bad,
            EntryCopy::Unreadable,
        ] {
            assert_eq!(version([entry(1), other.clone()]), Some(1));
            assert_eq!(version([other, entry(1)]), Some(1));
        }
        let blank = [EntryCopy::Blank, EntryCopy::Other];
        assert_eq!(judge(blank), Verdict::NeverUsed);
        assert_eq!(judge([EntryCopy::Blank, EntryCopy::Bad]), Verdict::Unknown);
        let unreadable = [EntryCopy::Unreadable, EntryCopy::Blank];
        assert_eq!(judge(unreadable), Verdict::Unknown);
    }
}
