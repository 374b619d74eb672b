//! Stores that real code made, whole and damaged, looked at: what is said is what a real opening
//! finds, and where it is.

use std::path::PathBuf;

use holdfast_format::{
    DeviceList, DeviceState, JournalMark, ListedDevice, SUPERBLOCK_OFFSETS, Superblock,
};
use holdfast_model::{BLOCK_SIZE, PAGE_SIZE};
use holdfast_stdx::Prng;

use self::made::{FIRST_BYTES, Made, SECOND_BYTES, contents, save, slice, typical};
use super::damage::{Damage, Severity};
use super::document::{PartitionReport, SliceReport, Standing};
use super::*;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../tests/support/store.rs"]
mod made;

/// Everything that there is to look at.
fn everything(paths: Vec<PathBuf>) -> Options {
    Options {
        section: Section::All,
        paths,
        slice: None,
        page: None,
        segments: true,
        records: true,
        verify: true,
    }
}

/// What is said of these devices, and of paths of which nothing can be said.
fn inspect_with(devices: &[Vec<u8>], change: impl FnOnce(&mut Options)) -> Vec<StoreLook> {
    let folder = tempfile::tempdir().unwrap();
    let paths = save(devices, folder.path());
    let mut options = everything(paths.clone());
    change(&mut options);
    let (stores, failed) = look(&options, &Output::new(true));
    assert_eq!(failed.len(), 0, "{failed:?}");
    for (path, bytes) in paths.iter().zip(devices) {
        assert!(std::fs::read(path).unwrap() == *bytes, "nothing is written");
    }
    // Everything can be said in both ways.
    for store in &stores {
        text::write(&store.report, options.section, &mut io::sink()).unwrap();
        if let Some(records) = records(store, &options) {
            records.write(&mut io::sink()).unwrap();
        }
        let document = StoreDocument {
            report: &store.report,
            records: records(store, &options),
        };
        serde_json::to_writer(io::sink(), &document).unwrap();
    }
    stores
}

fn inspect(devices: &[Vec<u8>]) -> StoreReport {
    let mut stores = inspect_with(devices, |_| {});
    assert_eq!(stores.len(), 1);
    stores.remove(0).report
}

fn superblock(device: &[u8]) -> Superblock {
    Superblock::decode(&device[..4096]).unwrap()
}

fn slice_report(report: &StoreReport, index: u32) -> &SliceReport {
    let slices = report.slices.as_ref().unwrap();
    slices
        .iter()
        .find(|report| report.slice == slice(index))
        .unwrap()
}

/// What is said of a slice must be what the store finds when it is opened.
fn agrees_with_opening(report: &StoreReport, devices: &[Vec<u8>]) {
    let opened = Made::open(devices.to_vec()).expect("it opens");
    let recovered = opened.recovered.as_ref().unwrap();
    let known: Vec<&SliceReport> = report
        .slices
        .iter()
        .flatten()
        .filter(|report| report.journal.is_some())
        .collect();
    assert_eq!(known.len(), recovered.slices.len());
    for report in known {
        let found = &recovered.slices[&report.slice];
        let journal = report.journal.as_ref().unwrap();
        let said = (journal.epoch, journal.prepared, journal.committed);
        let is = (found.prepared.0.0, found.prepared.1.0, found.committed.0);
        assert_eq!(said, is, "{}", report.slice);
        assert_eq!(journal.intact, found.intact, "{}", report.slice);
        assert_eq!(journal.tail_suspect, found.tail_suspect);
        assert_eq!(journal.commands, found.commands.len());
    }
}

/// The only damage that there is.
fn only_damage(report: &StoreReport) -> &Damage {
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    assert!(!report.sound);
    &report.damage[0]
}

/// The partition whose chain has most groups, and the places of its groups by number.
fn longest_chain(store: &StoreLook) -> (&PartitionReport, Vec<(u64, u64)>) {
    let partitions = &store.report.journal.as_ref().unwrap().partitions;
    let partition = partitions
        .iter()
        .max_by_key(|report| report.groups)
        .unwrap();
    let (device, chains) = store.journal().unwrap();
    let chain = &chains[usize::from(partition.partition)];
    let mut places = Vec::new();
    for segment in &chain.segments {
        let begin = device.superblock.layout.segment_offset(segment.index);
        journal::for_each_group(
            device,
            partition.partition,
            chain,
            segment,
            |offset, _, group| places.push((group.header.group, begin + offset as u64)),
        );
    }
    (partition, places)
}

#[test]
fn a_whole_store_is_told_as_it_is() {
    let made = typical(&[FIRST_BYTES, SECOND_BYTES]);
    let report = inspect(&made.devices);
    assert!(report.sound, "{:?}", report.damage);
    assert_eq!((report.store, report.node), (made::STORE, made::NODE));
    assert_eq!((report.use_counter, report.device_count), (1, 2));
    let standings = report.devices.iter().map(|device| device.standing);
    assert!(standings.eq([Standing::InUse; 2]));
    agrees_with_opening(&report, &made.devices);
    for index in [0, 1] {
        let found = slice_report(&report, index);
        let journal = found.journal.as_ref().unwrap();
        let table = found.table.unwrap();
        assert_eq!(journal.prepared, made.prepared(slice(index)).0);
        assert_eq!((table.lost, table.left_over), (Some(0), Some(0)));
        assert_eq!(u64::from(journal.pages), table.pages);
    }
    let [first, second] = [0, 1].map(|index| slice_report(&report, index));
    assert_eq!(first.table.unwrap().pages, 6);
    assert_eq!(second.table.unwrap().pages, 5, "one was cleared");
    assert_eq!(first.journal.as_ref().unwrap().redo_blocks, 3 + 8);
    assert_eq!(first.journal.as_ref().unwrap().state_bytes, Some(17));
    let used: u64 = report.devices.iter().map(|it| it.slots.unwrap().used).sum();
    assert_eq!(used, 11);
    let verified = report.verified.unwrap();
    assert_eq!((verified.pages, verified.bad_blocks), (11, 0));
    assert_eq!(verified.blocks, 6 * 8 + 5 * 2);
    let journal = report.journal.unwrap();
    let segments = journal.every_segment.unwrap();
    assert_eq!(segments.len(), made::SEGMENTS as usize);
    let in_use = segments
        .iter()
        .filter(|segment| segment.state == document::SegmentState::InUse);
    assert_eq!(
        in_use.count() as u64,
        journal.segments[&document::SegmentState::InUse]
    );
    assert_eq!(journal.records["drop slice"], 1);
}

#[test]
fn one_page_is_told_by_block() {
    let made = typical(&[FIRST_BYTES]);
    let stores = inspect_with(&made.devices, |options| {
        options.slice = Some(slice(0));
        options.page = Some(PageIndex(0));
    });
    let pages = stores[0].report.pages.as_ref().unwrap();
    assert_eq!(pages.len(), 1);
    let blocks = pages[0].blocks.as_ref().unwrap();
    assert_eq!(blocks.len(), 8);
    assert!(blocks.iter().all(|block| block.state == "good"));
    // They are where it is said.
    for block in blocks {
        let at = block.offset as usize;
        let expected = &contents(0, 8)[block.block as usize * BLOCK_SIZE..][..BLOCK_SIZE];
        assert!(made.devices[0][at..at + BLOCK_SIZE] == *expected);
    }
    assert_eq!(pages[0].redo, format!("{:016x}", 0b11100));
    let all = inspect_with(&made.devices, |options| options.slice = Some(slice(0)));
    assert_eq!(all[0].report.pages.as_ref().unwrap().len(), 6);
    let none = inspect_with(&made.devices, |options| options.slice = Some(slice(9)));
    assert_eq!(none[0].report.pages.as_ref().unwrap().len(), 0);
}

#[test]
fn a_torn_last_group_is_a_suspect_tail_and_no_damage() {
    let mut made = typical(&[FIRST_BYTES]);
    let stores = inspect_with(&made.devices, |_| {});
    let (partition, places) = longest_chain(&stores[0]);
    let (last, at) = *places.last().unwrap();
    let number = usize::from(partition.partition);
    assert_eq!(partition.next_group, last + 1);
    made.devices[0][at as usize + 4000] ^= 1;
    let report = inspect(&made.devices);
    let torn = &report.journal.as_ref().unwrap().partitions[number];
    assert!(report.sound, "{:?}", report.damage);
    assert_eq!((torn.tail, torn.next_group), ("suspect", last));
    assert_eq!(torn.end.unwrap().offset, at);
    agrees_with_opening(&report, &made.devices);
}

#[test]
fn a_bad_group_in_the_middle_is_a_hole_with_its_place() {
    let mut made = typical(&[FIRST_BYTES]);
    let stores = inspect_with(&made.devices, |_| {});
    let (partition, places) = longest_chain(&stores[0]);
    let number = usize::from(partition.partition);
    let pair = places.windows(2).rev().nth(1).unwrap();
    let [(group, at), (next, end)] = [pair[0], pair[1]];
    made.devices[0][at as usize + 40] ^= 1;
    let report = inspect(&made.devices);
    let holes = &report.journal.as_ref().unwrap().partitions[number].holes;
    assert_eq!(holes.len(), 1);
    assert_eq!(
        (holes[0].first_group, holes[0].last_group),
        (group, next - 1)
    );
    assert_eq!((holes[0].offset, holes[0].bytes), (at, end - at));
    let first = &report.damage[0];
    assert_eq!((first.offset, first.severity), (Some(at), Severity::Lost));
    assert!(report.damage[1].what.contains("is not intact"));
    agrees_with_opening(&report, &made.devices);
}

#[test]
fn bad_data_in_the_journal_is_told_by_block() {
    let mut made = typical(&[FIRST_BYTES]);
    let block = &contents(0xC0, 3)[BLOCK_SIZE..2 * BLOCK_SIZE];
    let at = made.devices[0]
        .chunks_exact(BLOCK_SIZE)
        .position(|found| found == block)
        .unwrap()
        * BLOCK_SIZE;
    made.devices[0][at + 99] ^= 1;
    let report = inspect(&made.devices);
    let damage = only_damage(&report);
    assert_eq!(damage.offset, Some(at as u64));
    assert_eq!(damage.bytes, BLOCK_SIZE as u64);
    assert!(damage.what.contains("slice v1/0"), "{}", damage.what);
    agrees_with_opening(&report, &made.devices);
}

#[test]
fn bad_entries_of_the_page_table_are_told() {
    let made = typical(&[FIRST_BYTES]);
    let layout = superblock(&made.devices[0]).layout;
    let stores = inspect_with(&made.devices, |options| options.slice = Some(slice(1)));
    let page = stores[0].report.pages.as_ref().unwrap()[0].clone();
    let entry = |copy: usize| layout.table_offsets[copy] + u64::from(page.slot) * 512;

    let mut one = made.devices.clone();
    one[0][entry(1) as usize + 100] ^= 1;
    let report = inspect(&one);
    let damage = only_damage(&report);
    assert_eq!((damage.offset, damage.bytes), (Some(entry(1)), 512));
    assert_eq!(damage.severity, Severity::Spare);
    assert_eq!(report.devices[0].slots.unwrap().copies_bad, 1);
    agrees_with_opening(&report, &one);

    let mut both = one;
    both[0][entry(0) as usize + 100] ^= 1;
    let report = inspect(&both);
    assert_eq!(report.devices[0].slots.unwrap().unknown, 1);
    assert_eq!(slice_report(&report, 1).table.unwrap().lost, Some(1));
    let lost = format!("page {} of slice v1/1: in no slot", page.page);
    assert!(report.damage.iter().any(|it| it.what.contains(&lost)));
    agrees_with_opening(&report, &both);

    // Zeros are no entry at all; the page is missed all the same.
    let mut zeros = made.devices;
    for copy in [0, 1] {
        zeros[0][entry(copy) as usize..][..512].fill(0);
    }
    let report = inspect(&zeros);
    assert_eq!(slice_report(&report, 1).table.unwrap().lost, Some(1));
}

#[test]
fn rotten_pages_are_found_when_they_are_read() {
    let mut made = typical(&[FIRST_BYTES]);
    let stores = inspect_with(&made.devices, |options| options.slice = Some(slice(0)));
    let pages = stores[0].report.pages.clone().unwrap();
    // Blocks 2 to 4 of page 0 are in the journal too; of page 1 none.
    let rot = |device: &mut [u8], page: usize, block: usize| {
        device[pages[page].offset as usize + block * BLOCK_SIZE + 7] ^= 1;
        pages[page].offset + (block * BLOCK_SIZE) as u64
    };
    rot(&mut made.devices[0], 0, 3);
    let first = rot(&mut made.devices[0], 1, 5);
    rot(&mut made.devices[0], 1, 6);
    let unread = inspect_with(&made.devices, |options| options.verify = false);
    assert!(unread[0].report.sound);
    let report = inspect(&made.devices);
    let verified = report.verified.unwrap();
    assert_eq!((verified.bad_blocks, verified.redo_blocks), (2, 1));
    let damage = only_damage(&report);
    assert_eq!((damage.offset, damage.bytes), (Some(first), 8192));
    assert!(damage.what.contains("page 1 of slice v1/0"));
}

#[test]
fn a_store_without_one_of_its_superblocks_is_looked_at() {
    let made = typical(&[FIRST_BYTES]);
    for (copy, offset) in SUPERBLOCK_OFFSETS.into_iter().enumerate() {
        let mut devices = made.devices.clone();
        devices[0][offset as usize + 60] ^= 1;
        let report = inspect(&devices);
        let damage = only_damage(&report);
        assert_eq!((damage.offset, damage.bytes), (Some(offset), 4096));
        assert!(report.devices[0].superblocks[copy].problem.is_some());
        agrees_with_opening(&report, &devices);
    }
}

#[test]
fn superblocks_older_than_the_journal_are_told() {
    let new = Made::create(&[FIRST_BYTES]);
    let old = new.devices[0][..2 << 20].to_vec();
    let reopened = Made::open(new.devices).unwrap();
    let mut made = Made::open(reopened.devices).unwrap();
    // New segments are begun only now.
    for number in 0..200 {
        made.write(slice(0), number % 64, &contents(number as u8, 8));
        made.wait(holdfast_stdx::Duration::from_secs(2));
    }
    let mut devices = made.devices;
    devices[0][..2 << 20].copy_from_slice(&old);
    let report = inspect(&devices);
    assert!(
        report.damage[0].what.contains("older than"),
        "{:?}",
        report.damage
    );
    let prepared = slice_report(&report, 0).journal.as_ref().unwrap().prepared;
    assert_eq!(prepared, 200);
}

#[test]
fn a_store_with_devices_missing_is_looked_at_as_far_as_it_goes() {
    let made = typical(&[FIRST_BYTES, SECOND_BYTES]);
    let first = inspect(&made.devices[..1]);
    assert_eq!(first.devices_missing, [1]);
    assert!(first.sound, "{:?}", first.damage);
    assert_eq!(slice_report(&first, 0).table.unwrap().lost, None);
    let second = inspect(&made.devices[1..]);
    assert_eq!(second.devices_missing, [0]);
    assert!(second.journal.is_none());
    // A device and a copy of it are not one store.
    let three = vec![
        made.devices[0].clone(),
        made.devices[1].clone(),
        made.devices[0].clone(),
    ];
    let stores = inspect_with(&three, |_| {});
    assert_eq!(stores.len(), 2);
    assert_eq!(stores[0].report.devices.len(), 2);
}

/// That a slice is nowhere is said only where it could be seen.
#[test]
fn a_slice_that_is_not_there_is_missed() {
    let made = typical(&[FIRST_BYTES, SECOND_BYTES]);
    let missed = |devices: &[Vec<u8>], wanted, section| {
        let stores = inspect_with(devices, |options| {
            options.slice = Some(wanted);
            options.section = section;
        });
        miss(&stores, Some(wanted), &Output::new(true)).is_err()
    };
    let all = &made.devices;
    assert!(!missed(all, slice(1), Section::All));
    assert!(missed(all, slice(99), Section::All));
    assert!(!missed(all, slice(99), Section::Journal));
    assert!(
        !missed(&all[..1], slice(99), Section::All),
        "a device is missing"
    );
    let mut damaged = made.devices.clone();
    let entry = superblock(&damaged[0]).layout.table_offsets[0] as usize;
    damaged[0][entry + 100] ^= 1;
    assert!(!missed(&damaged, slice(99), Section::All));
}

#[test]
fn a_copy_that_was_cut_short_is_looked_at() {
    let made = typical(&[FIRST_BYTES]);
    let layout = superblock(&made.devices[0]).layout;
    for length in [
        4096,
        (1 << 20) + 100,
        (3 << 20) + 5000,
        layout.table_offsets[0] + 600,
        layout.slots_offset + PAGE_SIZE as u64 + 1,
        layout.table_offsets[1] + 512,
    ] {
        let mut device = made.devices[0].clone();
        device.truncate(length as usize);
        let report = inspect(&[device]);
        let ends = format!("it had {FIRST_BYTES} bytes");
        let found = report
            .damage
            .iter()
            .find(|damage| damage.what.contains(&ends))
            .unwrap();
        assert_eq!(found.offset, Some(length));
    }
}

/// A superblock that says what it likes, with a good checksum: bounded time and memory all the same.
#[test]
fn a_superblock_that_was_made_up_is_looked_at() {
    let made = typical(&[FIRST_BYTES]);
    let good = superblock(&made.devices[0]);
    let mut prng = Prng::from_seed(5);
    let mut looked = 0;
    for _ in 0..200 {
        let [a, b, c] = [(4, 31), (2, 28), (10, 40)].map(|(low, high)| prng.between(low, high));
        let segment_count = prng.between(8, 1 << a) as u32;
        let segment_bytes = 4096 * prng.between(64, 1 << 14) as u32;
        let slot_count = 8 * prng.between(1, 1 << b) as u32;
        let journal_offset = 4096 * prng.between(512, 1 << c);
        let journal = u64::from(segment_count) * u64::from(segment_bytes);
        let first = journal_offset + journal;
        let slots_offset = first + u64::from(slot_count) * 512;
        let second = slots_offset + u64::from(slot_count) * PAGE_SIZE as u64;
        let slot_base = 8 * prng.below(1000) as u32;
        let more = prng.below(100) as u16;
        let list = made_up_list(&good, (slot_base, slot_count), more);
        let made_up = Superblock {
            update: good.update + 1,
            partitions: prng.between(1, 64) as u16,
            use_counter: prng.next_u64(),
            device_count: 1 + more,
            list,
            device_bytes: second + u64::from(slot_count) * 512,
            slot_base,
            layout: holdfast_format::DeviceLayout {
                journal_offset,
                segment_bytes,
                segment_count,
                table_offsets: [first, second],
                slots_offset,
                slot_count,
            },
            ..good.clone()
        };
        let mut device = made.devices[0][..3 << 20].to_vec();
        device[..4096].copy_from_slice(&made_up.encode());
        if Superblock::decode(&device[..4096]).is_ok() {
            let report = inspect(&[device]);
            assert!(!report.sound);
            looked += 1;
        }
    }
    assert!(looked > 150, "only {looked} are superblocks");
}

/// Somewhere in a device, more often where there is something than where there is nothing.
fn somewhere(prng: &mut Prng, regions: &[std::ops::Range<u64>], groups: &[(u64, u64)]) -> usize {
    if prng.chance(1, 2) {
        let (_, at) = *prng.choose(groups);
        return (at + prng.below(2 * BLOCK_SIZE as u64)) as usize;
    }
    let region = prng.choose(regions);
    prng.between(region.start, region.end - 1) as usize
}

fn harm(device: &mut [u8], at: usize, prng: &mut Prng) {
    let length = match prng.below(3) {
        0 => 1,
        1 => prng.between(1, 5000),
        _ => prng.between(1, 300_000),
    };
    let end = (at + length as usize).min(device.len());
    match prng.below(4) {
        0 => device[at..end].fill(0),
        1 => {
            let from = prng.below(device.len() as u64 - length) as usize;
            device.copy_within(from..from + (end - at), at);
        }
        2 => device[at] ^= 1,
        _ => device[at..end].fill_with(|| prng.below(256) as u8),
    }
}

/// Damage of all kinds in all places: always a report, and never another one than what an opening
/// finds.
#[test]
fn whatever_is_damaged_is_told_as_an_opening_finds_it() {
    let made = typical(&[FIRST_BYTES]);
    let layout = superblock(&made.devices[0]).layout;
    let [first, second] = layout.table_offsets;
    let regions = [
        0..FIRST_BYTES,
        layout.journal_offset..first,
        first..first + layout.table_bytes(),
        second..second + layout.table_bytes(),
    ];
    let stores = inspect_with(&made.devices, |_| {});
    let (_, groups) = longest_chain(&stores[0]);
    let (mut opened, mut not_intact, mut suspect, mut sound) = (0, 0, 0, 0);
    for seed in 0..150 {
        let mut prng = Prng::from_seed(seed);
        let mut devices = made.devices.clone();
        for _ in 0..=prng.below(4) {
            let at = somewhere(&mut prng, &regions, &groups);
            harm(&mut devices[0], at, &mut prng);
        }
        let stores = inspect_with(&devices, |options| {
            options.slice = (seed % 3 == 0).then_some(slice(0));
        });
        if seed % 3 != 0 && Made::open(devices.clone()).is_ok() {
            let report = &stores[0].report;
            agrees_with_opening(report, &devices);
            opened += 1;
            let slices = report.slices.iter().flatten();
            let mut journals = slices.filter_map(|slice| slice.journal.as_ref());
            not_intact += usize::from(journals.clone().any(|slice| !slice.intact));
            suspect += usize::from(journals.any(|slice| slice.tail_suspect));
            sound += usize::from(report.sound);
        }
    }
    // All of it has happened.
    assert!(opened > 80, "only {opened} opened");
    assert!(not_intact > 20, "only {not_intact} not intact");
    assert!(suspect > 5, "only {suspect} suspect");
    assert!(sound < opened / 2, "{sound} of {opened} sound");
}

/// A list of the device and of others that are nowhere.
fn made_up_list(first: &Superblock, (slot_base, slot_count): (u32, u32), more: u16) -> DeviceList {
    let end = slot_base + slot_count;
    let device = |id, ordinal, slot_base, slot_count| ListedDevice {
        id,
        ordinal,
        slot_base,
        slot_count,
        state: DeviceState::InUse,
        absent: None,
        journal: JournalMark::unmarked(ordinal),
    };
    let others = (1..=more).map(|ordinal| {
        let base = end + 8 * u32::from(ordinal);
        device(u64::from(ordinal), ordinal, base, 8)
    });
    let mut devices = vec![device(first.device_id, 0, slot_base, slot_count)];
    devices.extend(others);
    DeviceList {
        generation: 1,
        next_slot: end + 8 * (u32::from(more) + 1),
        next_ordinal: more + 1,
        devices,
    }
}
