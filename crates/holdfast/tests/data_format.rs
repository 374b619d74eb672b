//! A reader of stores that knows nothing but `docs/data-format.md`: none of the code that writes
//! them, no structure of it, not even its checksum. What it reads must be what was written; if it
//! is not, the document is wrong, or the format has changed under it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use holdfast_stdx::{Duration, Prng};

use crate::made::{FIRST_BYTES, Made, SECOND_BYTES, contents, slice, typical};

const BLOCK: usize = 4096;
const PAGE: usize = 64 * BLOCK;

/// CRC-32C as the document defines it, a byte at a time.
fn crc(bytes: &[u8]) -> u32 {
    static BY_BYTE: LazyLock<[u32; 256]> = LazyLock::new(|| {
        std::array::from_fn(|byte| {
            // The polynomial 1EDC6F41h, reflected.
            (0..8).fold(byte as u32, |crc, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1)))
        })
    });
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ BY_BYTE[(crc as u8 ^ byte) as usize];
    !bytes.iter().fold(u32::MAX, step)
}

fn crc_without(bytes: &[u8], field: usize) -> u32 {
    let mut copy = bytes.to_vec();
    copy[field..field + 4].fill(0);
    crc(&copy)
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let digits = bytes[at..at + size].iter().rev();
    digits.fold(0, |value, digit| value << 8 | u64::from(*digit))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 8)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    number(bytes, at, 4) as u32
}

/// A slice: its volume and index.
type Slice = (u64, u32);
/// Blocks that are not zeros, by slice and number.
type Blocks = BTreeMap<Slice, BTreeMap<u32, Vec<u8>>>;
/// Entries of the page table with the contents of their slots, by page.
type Pages<'a> = BTreeMap<(Slice, u32), (u64, Vec<u8>, &'a [u8])>;

/// What a superblock says.
struct Superblock {
    update: u64,
    store: Vec<u8>,
    nonce: u64,
    id: u64,
    /// The ids of the list.
    devices: Vec<u64>,
    generation: u64,
    has_journal: bool,
    partitions: u64,
    journal: u64,
    segment_bytes: u64,
    segment_count: u64,
    tables: [u64; 2],
    slots: u64,
    slot_count: u32,
    slot_base: u32,
}

/// Whether the list says of its own device that this has the journal.
fn has_journal(bytes: &[u8]) -> bool {
    let ordinal = number(bytes, 74, 2);
    let entries = (0..number(bytes, 76, 2) as usize).map(|place| 680 + 24 * place);
    let own = entries.filter(|at| number(bytes, at + 16, 2) == ordinal);
    match half(bytes, 8) {
        ..4 => ordinal == 0,
        _ => own.map(|at| bytes[at + 23]).eq([3]),
    }
}

fn superblock(device: &[u8]) -> Superblock {
    let copies = [0, 1 << 20].map(|at: usize| &device[at..at + 4096]);
    let valid = copies.into_iter().filter(|bytes| {
        bytes.starts_with(b"HOLDFAST") && half(bytes, 12) == crc_without(bytes, 12)
    });
    valid
        .map(|bytes| Superblock {
            update: word(bytes, 16),
            store: bytes[40..56].to_vec(),
            nonce: word(bytes, 56),
            id: word(bytes, 656),
            devices: (0..number(bytes, 76, 2) as usize)
                .map(|place| word(bytes, 680 + 24 * place))
                .collect(),
            generation: word(bytes, 664),
            has_journal: has_journal(bytes),
            partitions: number(bytes, 84, 2),
            journal: word(bytes, 96),
            segment_bytes: number(bytes, 104, 4),
            segment_count: number(bytes, 108, 4),
            tables: [word(bytes, 112), word(bytes, 128)],
            slots: word(bytes, 120),
            slot_count: half(bytes, 136),
            slot_base: half(bytes, 140),
        })
        .max_by_key(|found| found.update)
        .expect("a superblock")
}

/// A group that can be read, with where its data begins.
struct Group<'a> {
    partition: u64,
    ordinal: u64,
    number: u64,
    oldest: u64,
    redo_from: u64,
    checksum: u32,
    previous: u32,
    end: usize,
    records: Vec<u8>,
    data: &'a [u8],
}

fn group<'a>(segment: &'a [u8], at: usize, ours: &Superblock) -> Option<Group<'a>> {
    let bytes = segment.get(at..)?;
    if bytes.len() < BLOCK || !bytes.starts_with(b"HFgroup\0") || bytes[16..32] != ours.store {
        return None;
    }
    let header = number(bytes, 80, 4) as usize;
    let data = number(bytes, 84, 4) as usize;
    let length = number(bytes, 88, 4) as usize;
    if word(bytes, 32) != ours.nonce || header > bytes.len() {
        return None;
    }
    let checksum = half(bytes, 8);
    if crc_without(&bytes[..header], 8) != checksum {
        return None;
    }
    let first = length.min(3936);
    let mut records = bytes[128..128 + first].to_vec();
    records.extend_from_slice(&bytes[BLOCK.min(header)..][..length - first]);
    Some(Group {
        partition: number(bytes, 96, 2),
        ordinal: word(bytes, 40),
        number: word(bytes, 48),
        oldest: word(bytes, 64),
        redo_from: word(bytes, 72),
        checksum,
        previous: half(bytes, 12),
        end: at + header + data,
        records,
        data: &bytes[header..header + data],
    })
}

/// What a change makes of a block.
#[derive(Clone)]
enum Effect {
    Data(Vec<u8>),
    /// Data that is in a slot: its number, the block in it, and the checksum.
    Placed(u32, usize, u32),
    Zeros,
    Lost,
}

/// A change with its rank: its sequence, and whether it is an install.
type Change = ((u64, bool), Vec<(u32, Effect)>);

/// A slice as the journal tells of it.
#[derive(Default)]
struct Told {
    committed: u64,
    entries: BTreeMap<u64, Vec<(u32, Effect)>>,
    apart: Vec<Change>,
    pages: BTreeSet<u32>,
}

fn change(bytes: &[u8], data: &[u8]) -> Vec<(u32, Effect)> {
    let (start, count) = (half(bytes, 4), half(bytes, 8));
    let from = half(bytes, 12) as usize * BLOCK;
    (0..count)
        .map(|place| {
            let made = match bytes[0] {
                1 => {
                    let at = from + place as usize * BLOCK;
                    let block = &data[at..at + BLOCK];
                    if crc(block) == half(bytes, 16 + 4 * place as usize) {
                        Effect::Data(block.to_vec())
                    } else {
                        Effect::Lost
                    }
                }
                2 => Effect::Zeros,
                4 => Effect::Lost,
                kind => panic!("a change of kind {kind} has blocks"),
            };
            (start + place, made)
        })
        .collect()
}

/// What a "placed" makes of its blocks.
fn placed(bytes: &[u8]) -> Vec<(u32, Effect)> {
    let (start, count) = (half(bytes, 4), half(bytes, 8) as usize);
    assert_eq!((bytes[0], start % 64, count % 64), (1, 0, 0));
    let slots = 16 + 4 * count;
    let effect = |place: usize| {
        let slot = half(bytes, slots + 4 * (place / 64));
        Effect::Placed(slot, place % 64, half(bytes, 16 + 4 * place))
    };
    let places = (0..count).zip(start..);
    places
        .map(|(place, block)| (block, effect(place)))
        .collect()
}

fn take_group(group: &Group<'_>, redo: bool, slices: &mut BTreeMap<Slice, Told>) {
    let mut left = &group.records[..];
    while !left.is_empty() {
        let length = half(left, 4) as usize;
        let (record, rest) = left.split_at(length);
        left = rest;
        let id = (word(record, 8), half(record, 16));
        let body = &record[32..];
        if record[0] == 10 {
            slices.remove(&id);
            continue;
        }
        let told = slices.entry(id).or_default();
        told.committed = told.committed.max(word(record, 24));
        match record[0] {
            1 if redo => {
                let entry = change(&body[48..], group.data);
                told.entries.insert(word(body, 8), entry);
            }
            11 if redo => {
                let entry = placed(&body[48..]);
                told.entries.insert(word(body, 8), entry);
            }
            2 if redo => {
                let copy = change(&body[8..], group.data);
                told.apart.push(((word(body, 0), true), copy));
            }
            3 => drop(told.entries.split_off(&(word(body, 8) + 1))),
            4 => {
                if half(body, 16) & 1 != 0 {
                    drop(told.entries.split_off(&(told.committed + 1)));
                    let stay = std::mem::take(&mut told.entries).into_iter();
                    told.apart
                        .extend(stay.map(|(sequence, entry)| ((sequence, false), entry)));
                }
                told.committed = told.committed.max(word(body, 8));
            }
            7 => {
                let list = &body[8..8 + 2 * half(body, 0) as usize];
                assert_eq!(crc(list), half(body, 4));
                for page in list.chunks(2) {
                    let page = number(page, 0, 2) as u32;
                    if page & 1 << 15 != 0 {
                        told.pages.insert(page & 0x7FFF);
                    } else {
                        told.pages.remove(&page);
                    }
                }
            }
            8 => {
                let set = &body[8..8 + 2048];
                assert_eq!(crc(set), half(body, 4));
                let is_in = |page: &u32| set[*page as usize / 8] & 1 << (page % 8) != 0;
                told.pages = (0..16384).filter(is_in).collect();
                assert_eq!(told.pages.len() as u32, half(body, 0));
            }
            1 | 2 | 5 | 6 | 9 | 11 => {}
            kind => panic!("there are no records of kind {kind}"),
        }
    }
}

/// Steps 2 to 5 of the document, for a journal without damage but for a torn last group.
fn journal(device: &[u8], ours: &Superblock) -> BTreeMap<Slice, Told> {
    let mut slices = BTreeMap::new();
    let segment = |index: u64| {
        let at = (ours.journal + index * ours.segment_bytes) as usize;
        &device[at..at + ours.segment_bytes as usize]
    };
    for partition in 0..ours.partitions {
        // By ordinal: the first group and the segment.
        let mut chain: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for index in 0..ours.segment_count {
            let header = &segment(index)[..4096];
            assert!(header.starts_with(b"HFsegmnt"));
            assert_eq!(half(header, 8), crc_without(header, 8));
            if number(header, 64, 2) == partition {
                chain.insert(word(header, 40), (word(header, 48), index));
            }
        }
        // A segment's groups, of the use that its header tells.
        let of = |ordinal: u64, index: u64| {
            let mut at = 4096;
            let mut groups = Vec::new();
            while let Some(group) = group(segment(index), at, ours)
                && (group.partition, group.ordinal) == (partition, ordinal)
            {
                at = group.end;
                groups.push(group);
            }
            groups
        };
        let newest = chain.iter().rev().find_map(|(ordinal, (_, index))| {
            let last = of(*ordinal, *index).pop()?;
            Some((last.oldest, last.redo_from))
        });
        let Some((oldest, redo_from)) = newest else {
            continue;
        };
        let mut expected = (oldest, None);
        for (ordinal, (first, index)) in chain {
            if first < oldest {
                continue;
            }
            for group in of(ordinal, index) {
                let (number, previous) = expected;
                assert_eq!(group.number, number, "no group is missing");
                assert!(previous.is_none_or(|previous| previous == group.previous));
                expected = (number + 1, Some(group.checksum));
                take_group(&group, group.number >= redo_from, &mut slices);
            }
        }
    }
    slices
}

/// The newest valid entry of every page, with the contents of its slot.
fn table<'a>(device: &'a [u8], ours: &Superblock, pages: &mut Pages<'a>) {
    for local in 0..ours.slot_count as usize {
        let copies = ours.tables.map(|table| {
            let at = table as usize + local * 512;
            &device[at..at + 512]
        });
        let entry = copies
            .into_iter()
            .filter(|entry| {
                entry.starts_with(b"HFpg")
                    && word(entry, 8) == ours.nonce
                    && half(entry, 24) == ours.slot_base + local as u32
                    && half(entry, 4) == crc_without(entry, 4)
            })
            .max_by_key(|entry| word(entry, 16));
        let Some(entry) = entry.filter(|entry| entry[28] == 1) else {
            continue;
        };
        let key = ((word(entry, 40), half(entry, 48)), half(entry, 52));
        let version = word(entry, 16);
        let at = ours.slots as usize + local * PAGE;
        let newer = pages.get(&key).is_none_or(|(other, _, _)| *other < version);
        if newer {
            pages.insert(key, (version, entry.to_vec(), &device[at..at + PAGE]));
        }
    }
}

/// All blocks of all slices that are not zeros.
fn read(devices: &[Vec<u8>]) -> Blocks {
    let superblocks: Vec<Superblock> = devices.iter().map(|device| superblock(device)).collect();
    let mut pages = BTreeMap::new();
    let mut slots = BTreeMap::new();
    let mut told = BTreeMap::new();
    let first = superblocks.iter().filter(|found| found.has_journal);
    let first = first.max_by_key(|found| found.generation);
    let first = first.expect("the device with the journal");
    let listed = &first.devices;
    for (device, ours) in devices.iter().zip(&superblocks) {
        if !listed.contains(&ours.id) {
            continue;
        }
        table(device, ours, &mut pages);
        for local in 0..ours.slot_count {
            let at = ours.slots as usize + local as usize * PAGE;
            slots.insert(ours.slot_base + local, &device[at..at + PAGE]);
        }
        if ours.id == first.id {
            told = journal(device, ours);
        }
    }
    let mut contents = Blocks::new();
    for (id, told) in told {
        let blocks = contents.entry(id).or_default();
        for page in &told.pages {
            let (_, entry, slot) = pages.get(&(id, *page)).expect("no page is lost");
            assert_eq!(word(entry, 88), 0, "no block is lost");
            for block in (0..64).filter(|block| word(entry, 80) >> block & 1 != 0) {
                let bytes = &slot[block * BLOCK..(block + 1) * BLOCK];
                let good = crc(bytes) == half(entry, 256 + 4 * block);
                if good {
                    blocks.insert(page * 64 + block as u32, bytes.to_vec());
                }
            }
        }
        let in_pages = blocks.clone();
        let mut changes = told.apart;
        let committed = told
            .entries
            .into_iter()
            .filter(|(at, _)| *at <= told.committed);
        changes.extend(committed.map(|(sequence, entry)| ((sequence, false), entry)));
        changes.sort_by_key(|(rank, _)| *rank);
        for (block, made) in changes.into_iter().flat_map(|(_, blocks)| blocks) {
            let made = match made {
                Effect::Placed(slot, place, checksum) => {
                    let is_right = |bytes: &[u8]| crc(bytes) == checksum;
                    let placed = slots[&slot][place * BLOCK..(place + 1) * BLOCK].to_vec();
                    let in_page = in_pages.get(&block).cloned();
                    let found = [Some(placed), in_page].into_iter().flatten();
                    let found = found.into_iter().find(|bytes| is_right(bytes));
                    // What is not there any more a later change has.
                    found.map_or(Effect::Zeros, Effect::Data)
                }
                other => other,
            };
            match made {
                Effect::Data(bytes) if bytes.iter().any(|byte| *byte != 0) => {
                    blocks.insert(block, bytes)
                }
                Effect::Data(_) | Effect::Zeros => blocks.remove(&block),
                Effect::Lost | Effect::Placed(..) => panic!("no block is lost"),
            };
        }
    }
    contents
}

#[test]
fn the_checksum_is_the_one_that_is_described() {
    assert_eq!(crc(b"123456789"), 0xE306_9283);
}

/// What was written, by slice and block.
#[derive(Default)]
struct Model(Blocks);

impl Model {
    fn write(&mut self, index: u32, block: u32, bytes: &[u8]) {
        let blocks = self.0.entry((1, index)).or_default();
        for (bytes, block) in bytes.chunks(BLOCK).zip(block..) {
            blocks.remove(&block);
            if bytes.iter().any(|byte| *byte != 0) {
                blocks.insert(block, bytes.to_vec());
            }
        }
    }
}

/// Whether both have the same blocks; slices without any do not matter.
fn agree(found: &Blocks, model: &Model, when: &str) {
    let some = |slices: &Blocks| -> Blocks {
        let with_any = slices.iter().filter(|(_, blocks)| !blocks.is_empty());
        with_any.map(|(id, blocks)| (*id, blocks.clone())).collect()
    };
    assert!(some(found) == some(&model.0), "{when}");
}

#[test]
fn a_store_is_read_by_the_document_alone() {
    for seed in 0..6 {
        let mut prng = Prng::from_seed(seed);
        let two = [FIRST_BYTES, SECOND_BYTES];
        let mut made = Made::create(&two[..1 + (seed % 2) as usize]);
        let mut model = Model::default();
        for step in 0..80_u32 {
            let index = prng.below(3) as u32;
            let block = prng.below(6 * 64) as u32;
            let count = prng.between(1, 20) as usize;
            match prng.below(24) {
                22..=23 => {
                    // One page or two, as a whole.
                    let pages = prng.between(1, 2) as u32;
                    let block = prng.below(u64::from(6 - pages)) as u32 * 64;
                    let bytes = contents(step as u8, pages as usize * 64);
                    made.write(slice(index), block, &bytes);
                    model.write(index, block, &bytes);
                }
                0..=9 => {
                    let bytes = contents(step as u8, count);
                    made.write(slice(index), block, &bytes);
                    model.write(index, block, &bytes);
                }
                10 => {
                    made.write(slice(index), block, &vec![0; count * BLOCK]);
                    model.write(index, block, &vec![0; count * BLOCK]);
                }
                11..=13 => {
                    let range = holdfast_model::BlockRange::new(block, count as u32 * 8);
                    made.clear(slice(index), range);
                    model.write(index, block, &vec![0; count * 8 * BLOCK]);
                }
                14..=15 => {
                    let bytes = contents(0x80 | step as u8, count);
                    made.wait(Duration::from_secs(5));
                    made.install(slice(index), block, &bytes);
                    model.write(index, block, &bytes);
                }
                16 => made.wait(Duration::from_secs(20)),
                17 => made.put_state(slice(index), &[step as u8; 36]),
                18 => {
                    made.drop_slice(slice(index));
                    model.0.remove(&(1, index));
                }
                19 => made.write_void(slice(index), block, &contents(step as u8, count)),
                20 => made.write_before_restart(slice(index), block, &contents(1, count)),
                _ => made = made.reopened(),
            }
            // What is committed is known to the journal after a while, or with the next record.
            made.wait(Duration::from_millis(100));
            agree(
                &read(&made.devices),
                &model,
                &format!("seed {seed}, step {step}"),
            );
        }
    }
}

#[test]
fn what_is_only_in_the_journal_is_read_too() {
    let made = typical(&[FIRST_BYTES]);
    let found = read(&made.devices);
    let blocks = &found[&(1, 0)];
    // Written to the page, and partly again, which has not been destaged.
    assert!(blocks[&0] == contents(0, 8)[..BLOCK]);
    assert!(blocks[&2] == contents(0xC0, 3)[..BLOCK]);
    assert!(!found.contains_key(&(1, 2)), "it was dropped");
}
