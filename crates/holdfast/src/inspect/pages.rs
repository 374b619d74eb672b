//! The pages themselves: where those of a slice are, and whether their blocks are what the page
//! table says.
//!
//! Invariant: a block that the journal would write again is not called bad: what is in its place is
//! written over when the store is opened.

use holdfast_format::{PageEntry, PageKey, SlotContent};
use holdfast_model::{BLOCK_SIZE, BLOCKS_PER_PAGE, PAGE_SIZE, PageIndex, SliceId};
use holdfast_stdx::crc32c;
use holdfast_store::Surveyed;

use super::damage::{Damages, Severity};
use super::device::Device;
use super::document::{BlockReport, PageReport, Verified};
use super::progress::Progress;
use super::table::{SlotPlace, TableLook, Verdict, for_each_entry};

/// Slots that are listed: those of all pages of a slice, twice over.
const LISTED_MAX: usize = 1 << 15;

/// What the journal says of pages; nothing if it was not looked at.
#[derive(Clone, Copy)]
pub(crate) struct Redo<'a>(pub(crate) Option<&'a Surveyed>);

impl Redo<'_> {
    /// The blocks of a page that it would write again.
    fn blocks(self, key: PageKey) -> u64 {
        self.0
            .and_then(|surveyed| surveyed.slices.get(&key.slice))
            .and_then(|slice| slice.redo_blocks.get(&key.page))
            .copied()
            .unwrap_or(0)
    }

    /// Whether the slice has no such page: what is in a slot of it is left over.
    fn has_left(self, key: PageKey) -> bool {
        let Some(surveyed) = self.0 else { return false };
        match surveyed.slices.get(&key.slice) {
            Some(slice) => slice.pages_certain && !slice.pages.contains(key.page),
            None => true,
        }
    }
}

/// A page in a slot.
struct Held {
    key: PageKey,
    place: SlotPlace,
    version: u64,
    written: u64,
    mask: u64,
    bad: u64,
    checksums: Box<[u32; BLOCKS_PER_PAGE as usize]>,
}

fn for_each_page(device: &Device, progress: &Progress, mut take: impl FnMut(&Held)) {
    for_each_entry(device, None, progress, |place, verdict| {
        let Verdict::Entry(PageEntry {
            version,
            content:
                SlotContent::Page {
                    key,
                    written,
                    mask,
                    bad,
                    checksums,
                },
            ..
        }) = verdict
        else {
            return;
        };
        take(&Held {
            key,
            place,
            version,
            written: written.0,
            mask,
            bad,
            checksums,
        });
    });
}

/// Reads every page that counts and holds its blocks against their checksums.
pub(crate) fn verify(
    devices: &[Device],
    look: &TableLook,
    redo: Redo<'_>,
    damages: &mut Damages,
    progress: &Progress,
) -> Verified {
    let mut verified = Verified::default();
    let used: u64 = look.counts.iter().map(|counts| counts.used).sum();
    progress.begin("pages", used * PAGE_SIZE as u64);
    for device in devices {
        for_each_page(device, progress, |held| {
            if !look.is_current(held.key, held.version) || redo.has_left(held.key) {
                return;
            }
            progress.add(PAGE_SIZE as u64);
            verified.pages += 1;
            for block in blocks(device, held, redo) {
                match block.state {
                    BAD => {
                        verified.bad_blocks += 1;
                        let PageKey { slice, page } = held.key;
                        let what = format!("contents of page {} of slice {slice}", page.0);
                        let place = (block.offset, BLOCK_SIZE as u64);
                        damages.add(device.source.path(), place, Severity::Lost, &what);
                    }
                    REDO => verified.redo_blocks += 1,
                    LOST => continue,
                    _ => {}
                }
                verified.blocks += 1;
            }
        });
    }
    verified
}

/// Where the pages of a slice are, or one of them, and then with its blocks.
pub(crate) fn list(
    devices: &[Device],
    slice: SliceId,
    page: Option<PageIndex>,
    redo: Redo<'_>,
    progress: &Progress,
) -> Vec<PageReport> {
    let mut listed = Vec::new();
    for device in devices {
        for_each_page(device, progress, |held| {
            let asked = held.key.slice == slice && page.is_none_or(|page| page == held.key.page);
            if asked && listed.len() < LISTED_MAX {
                listed.push(report(device, held, redo, page.is_some()));
            }
        });
    }
    listed.sort_by_key(|page| (page.page, u64::MAX - page.version));
    listed
}

fn report(device: &Device, held: &Held, redo: Redo<'_>, with_blocks: bool) -> PageReport {
    let digits = |mask: u64| format!("{mask:016x}");
    PageReport {
        page: held.key.page.0,
        path: device.source.path().display().to_string(),
        slot: held.place.slot,
        offset: device.superblock.layout.slot_offset(held.place.local),
        version: held.version,
        written: held.written,
        mask: digits(held.mask),
        bad: digits(held.bad),
        redo: digits(redo.blocks(held.key)),
        blocks: with_blocks.then(|| blocks(device, held, redo).collect()),
    }
}

/// What its checksum says is there.
const GOOD: &str = "good";
/// Something else is there.
const BAD: &str = "bad";
/// It is known to be lost.
const LOST: &str = "lost";
/// The journal writes it again.
const REDO: &str = "redo";

/// The blocks of a page that are there or lost, held against their checksums.
fn blocks(device: &Device, held: &Held, redo: Redo<'_>) -> impl Iterator<Item = BlockReport> {
    let offset = device.superblock.layout.slot_offset(held.place.local);
    let reading = device.source.read_patiently(offset, PAGE_SIZE);
    let redo = redo.blocks(held.key);
    let (mask, bad) = (held.mask, held.bad);
    let checksums = held.checksums.clone();
    let there = (0..BLOCKS_PER_PAGE).filter(move |block| (mask | bad) & (1 << block) != 0);
    there.map(move |block| {
        let within = block as usize * BLOCK_SIZE;
        let offset = offset + within as u64;
        let bytes = &reading.bytes[within..within + BLOCK_SIZE];
        let found = reading
            .is_readable(offset, BLOCK_SIZE)
            .then(|| crc32c(bytes));
        let checksum = checksums[block as usize];
        let bit = 1 << block;
        let state = if bad & bit != 0 && redo & bit == 0 {
            LOST
        } else if mask & bit != 0 && found == Some(checksum) {
            GOOD
        } else if redo & bit != 0 {
            REDO
        } else {
            BAD
        };
        BlockReport {
            block,
            offset,
            state,
            checksum,
            found,
        }
    })
}
