//! The page store on a device in memory: rounds, reads, and what is made of damage.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_format::{DeviceLayout, DeviceRole, PageKey, PageSet};
use holdfast_model::{
    DiskCompletion, DiskError, DiskId, DiskOp, DiskRequest, PageIndex, Sequence, SliceId, Tier,
    VolumeId,
};
use holdfast_stdx::{Bytes, crc32c};

use crate::{
    BlockOutcome, Opening, Outcomes, PageJob, PageWork, Pages, PagesDevice, PagesEvent,
    PagesMemory, PagesPlace, Paint, ReadSource,
};

const BYTES: u64 = 6 << 20;
pub(crate) const MEMORY: PagesMemory = PagesMemory {
    table_bytes: 64 << 10,
    block_bytes: 0,
};

/// A device that does everything at once, and remembers what it was asked for.
struct Memory {
    bytes: Vec<u8>,
    unreadable: Vec<u64>,
    asked: Vec<&'static str>,
}

impl Memory {
    fn new() -> Self {
        Self {
            bytes: vec![0; BYTES as usize],
            unreadable: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn perform(&mut self, request: &DiskRequest) -> DiskCompletion {
        let layout = layout();
        let result = match &request.op {
            DiskOp::Read { offset, length } => {
                let end = *offset + u64::from(*length);
                if self
                    .unreadable
                    .iter()
                    .any(|bad| (*offset..end).contains(bad))
                {
                    Err(DiskError::Os(5))
                } else {
                    let bytes = &self.bytes[*offset as usize..end as usize];
                    Ok(Bytes::copy_from_slice(bytes))
                }
            }
            DiskOp::Write { offset, parts, .. } => {
                let in_slots = (layout.slots_offset..layout.table_offsets[1]).contains(offset);
                self.asked.push(if in_slots { "blocks" } else { "table" });
                let mut at = *offset as usize;
                for part in parts {
                    self.bytes[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
                Ok(Bytes::new())
            }
            DiskOp::Flush => {
                self.asked.push("flush");
                Ok(Bytes::new())
            }
            DiskOp::Discard { .. } => Ok(Bytes::new()),
        };
        DiskCompletion {
            token: request.token,
            result,
        }
    }
}

fn layout() -> DeviceLayout {
    DeviceLayout::plan(BYTES, DeviceRole::Pages).expect("large enough")
}

fn open(memory: &mut Memory, use_counter: u64) -> Pages {
    let place = PagesPlace {
        devices: vec![PagesDevice {
            disk: DiskId(0),
            layout: layout(),
            slot_base: 0,
            tier: Tier::Flash,
            is_drained: false,
        }],
        nonce: 77,
        use_counter,
        token_base: 0,
    };
    let mut requests = Vec::new();
    let mut opening = Opening::start(place, MEMORY, &mut requests);
    while let Some(request) = requests.pop() {
        let completion = memory.perform(&request);
        opening
            .handle(completion, &mut requests)
            .expect("the device works");
    }
    memory.asked.clear();
    opening.finish()
}

fn run(
    pages: &mut Pages,
    memory: &mut Memory,
    mut requests: Vec<DiskRequest>,
    mut events: Vec<PagesEvent>,
) -> Vec<PagesEvent> {
    let mut all = Vec::new();
    loop {
        for event in core::mem::take(&mut events) {
            if matches!(event, PagesEvent::Planned(_)) {
                pages.proceed(&mut requests, &mut events);
            }
            all.push(event);
        }
        if requests.is_empty() && events.is_empty() {
            return all;
        }
        for request in core::mem::take(&mut requests) {
            let completion = memory.perform(&request);
            pages
                .handle(completion, &mut requests, &mut events)
                .expect("the device works");
        }
    }
}

fn key(page: u32) -> PageKey {
    PageKey {
        slice: SliceId {
            volume: VolumeId(1),
            index: 0,
        },
        page: PageIndex(page),
    }
}

fn data(content: u8) -> Paint {
    let data = Bytes::from(vec![content; 4096]);
    let checksum = crc32c(&data);
    Paint::Data { data, checksum }
}

fn paint(pages: &mut Pages, memory: &mut Memory, page: u32, paints: Vec<(u32, Paint)>) {
    let job = PageJob {
        key: key(page),
        written: Sequence(5),
        work: PageWork::Paint(paints),
    };
    let (mut requests, mut events) = (Vec::new(), Vec::new());
    pages.begin_round(vec![job], &mut requests, &mut events);
    let events = run(pages, memory, requests, events);
    assert!(matches!(events.last(), Some(PagesEvent::RoundDone(_))));
}

fn read(pages: &mut Pages, memory: &mut Memory, page: u32, mask: u64) -> Outcomes {
    let (mut requests, mut events) = (Vec::new(), Vec::new());
    pages.read(
        key(page),
        mask,
        ReadSource::Anywhere,
        1,
        &mut requests,
        &mut events,
    );
    let mut events = run(pages, memory, requests, events);
    match events.pop() {
        Some(PagesEvent::Read(done)) => done.blocks,
        other => panic!("{other:?} instead of a read"),
    }
}

fn contents(outcome: &BlockOutcome) -> u8 {
    match outcome {
        BlockOutcome::Data { data, .. } => data[0],
        other => panic!("{other:?} instead of data"),
    }
}

fn slot_offset(pages: &Pages, page: u32) -> u64 {
    let slot = pages.state(key(page)).expect("the page exists").slot;
    layout().slot_offset(slot)
}

#[test]
fn a_round_is_blocks_flush_table_flush() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(
        &mut pages,
        &mut memory,
        3,
        vec![(0, data(1)), (1, data(2)), (9, data(3))],
    );
    let order = ["blocks", "blocks", "flush", "table", "table", "flush"];
    assert_eq!(memory.asked, order);
    let mut pages = open(&mut memory, 2);
    let view = pages.page(key(3)).expect("the page is there");
    assert_eq!(view.mask, 0b10_0000_0011);
    assert_eq!(view.written, Sequence(5));
    let blocks = read(&mut pages, &mut memory, 3, 0b10_0000_0001);
    let found: Vec<(u32, u8)> = blocks
        .iter()
        .map(|(block, outcome)| (*block, contents(outcome)))
        .collect();
    assert_eq!(found, [(0, 1), (9, 3)]);
}

#[test]
fn a_page_without_blocks_frees_its_slot_and_clearing_nothing_writes_nothing() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    let free = pages.free_slots();
    paint(&mut pages, &mut memory, 0, vec![(4, Paint::Zero)]);
    assert_eq!(memory.asked, [] as [&str; 0]);
    paint(&mut pages, &mut memory, 0, vec![(4, data(1))]);
    assert_eq!(pages.free_slots(), free - 1);
    paint(&mut pages, &mut memory, 0, vec![(4, Paint::Zero)]);
    assert_eq!(pages.free_slots(), free);
    assert!(pages.page(key(0)).is_none());
    let pages = open(&mut memory, 2);
    assert!(pages.page(key(0)).is_none());
    assert_eq!(pages.free_slots(), free);
}

#[test]
fn rot_is_bad_with_the_checksum_on_record_and_only_where_it_is() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(
        &mut pages,
        &mut memory,
        1,
        vec![(0, data(1)), (1, data(2)), (2, data(3))],
    );
    let at = slot_offset(&pages, 1);
    memory.bytes[at as usize + 4096] ^= 1;
    memory.unreadable.push(at + 2 * 4096 + 512);
    let blocks = read(&mut pages, &mut memory, 1, 0b111);
    assert_eq!(contents(&blocks[0].1), 1);
    let sum = |content: u8| crc32c(&vec![content; 4096]);
    assert_eq!(blocks[1].1, BlockOutcome::Bad(Some(sum(2))));
    assert_eq!(blocks[2].1, BlockOutcome::Bad(Some(sum(3))));
}

#[test]
fn one_bad_copy_of_an_entry_is_not_seen_and_is_healed() {
    for copy in 0..2 {
        let mut memory = Memory::new();
        let mut pages = open(&mut memory, 1);
        paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
        let slot = pages.state(key(1)).expect("the page exists").slot;
        let at = (layout().table_offsets[copy] + u64::from(slot) * 512) as usize;
        let good = memory.bytes[at..at + 512].to_vec();
        memory.bytes[at + 300] ^= 1;
        let mut pages = open(&mut memory, 2);
        assert_eq!(contents(&read(&mut pages, &mut memory, 1, 1)[0].1), 1);
        assert_eq!(memory.bytes[at..at + 512], good);
    }
}

/// They share a block of the table, which is written again with what each has.
#[test]
fn neighbours_of_a_bad_copy_stay_as_they_are() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    for page in 0..8 {
        paint(&mut pages, &mut memory, page, vec![(0, data(page as u8))]);
    }
    let tables = layout().table_offsets.map(|offset| offset as usize);
    let good = memory.bytes[tables[0]..tables[0] + 4096].to_vec();
    for (copy, bad) in [(0, 512 + 300), (1, 6 * 512 + 300), (1, 4096 - 1)] {
        memory.bytes[tables[copy] + bad] ^= 1;
    }
    let mut pages = open(&mut memory, 2);
    for table in tables {
        assert_eq!(memory.bytes[table..table + 4096], good);
    }
    for page in 0..8 {
        let blocks = read(&mut pages, &mut memory, page, 1);
        assert_eq!(contents(&blocks[0].1), page as u8);
    }
}

#[test]
fn an_older_copy_of_an_entry_does_not_win() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
    let table = layout().table_offsets[0] as usize;
    let old = memory.bytes[table..table + 4096].to_vec();
    paint(&mut pages, &mut memory, 1, vec![(0, data(2))]);
    // The write of the first copy has gone elsewhere.
    memory.bytes[table..table + 4096].copy_from_slice(&old);
    let mut pages = open(&mut memory, 2);
    assert_eq!(contents(&read(&mut pages, &mut memory, 1, 1)[0].1), 2);
}

#[test]
fn a_page_that_must_be_there_and_has_no_entry_is_lost_not_zeros() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
    for copy in 0..2 {
        let table = layout().table_offsets[copy] as usize;
        memory.bytes[table..table + 4096].fill(0xA5);
    }
    let mut pages = open(&mut memory, 2);
    let mut set = PageSet::new();
    set.set(PageIndex(1), true);
    pages.prove(key(1).slice, &set, true, Sequence::ZERO);
    let view = pages.page(key(1)).expect("the page is known of");
    assert_eq!(view.lost, u64::MAX);
    assert!(!view.has_slot);
    // What is written is there again, and the rest stays lost, for the next start too.
    paint(&mut pages, &mut memory, 1, vec![(7, data(9))]);
    let mut pages = open(&mut memory, 3);
    pages.prove(key(1).slice, &set, true, Sequence::ZERO);
    let view = pages.page(key(1)).expect("the page is there");
    assert_eq!(view.lost, !(1 << 7));
    assert_eq!(contents(&read(&mut pages, &mut memory, 1, 1 << 7)[0].1), 9);
}

#[test]
fn a_page_that_must_not_be_there_goes_with_the_next_round() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
    let mut pages = open(&mut memory, 2);
    pages.prove(key(1).slice, &PageSet::new(), false, Sequence::ZERO);
    assert!(
        pages.page(key(1)).is_some(),
        "an uncertain set proves nothing"
    );
    pages.prove(key(1).slice, &PageSet::new(), true, Sequence::ZERO);
    assert!(pages.page(key(1)).is_none());
    assert!(pages.has_leftovers());
    paint(&mut pages, &mut memory, 2, vec![(0, data(2))]);
    assert!(!pages.has_leftovers());
    let pages = open(&mut memory, 3);
    assert!(pages.page(key(1)).is_none());
    assert!(pages.page(key(2)).is_some());
}

#[test]
fn an_entry_that_goes_bad_while_the_store_is_open_loses_its_page() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
    let mut pages = open(&mut memory, 2);
    for copy in 0..2 {
        let table = layout().table_offsets[copy] as usize;
        memory.bytes[table..table + 4096].fill(0xA5);
    }
    let blocks = read(&mut pages, &mut memory, 1, 1);
    assert_eq!(blocks[0].1, BlockOutcome::Bad(None));
    assert_eq!(pages.page(key(1)).expect("known of").lost, 1);
}

#[test]
fn blocks_known_to_be_bad_stay_known_until_they_are_written_or_read_well() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    let right = data(2);
    let Paint::Data { checksum, .. } = right else {
        unreachable!("data is data");
    };
    let paints = vec![
        (0, data(1)),
        (1, Paint::Bad(Some(checksum))),
        (2, Paint::Bad(None)),
        (3, Paint::Bad(Some(checksum))),
    ];
    paint(&mut pages, &mut memory, 1, paints);
    for start in 2..4 {
        let known = pages.bad_blocks(key(1).slice);
        assert_eq!(
            known.into_iter().collect::<Vec<_>>(),
            [(key(1).page, 0b1110)]
        );
        pages = open(&mut memory, start);
    }
    let blocks = read(&mut pages, &mut memory, 1, 0b0010);
    assert_eq!(blocks[0].1, BlockOutcome::Bad(Some(checksum)));
    paint(
        &mut pages,
        &mut memory,
        1,
        vec![(1, right), (2, Paint::Zero)],
    );
    let known = pages.bad_blocks(key(1).slice);
    assert_eq!(
        known.into_iter().collect::<Vec<_>>(),
        [(key(1).page, 0b1000)]
    );
    // Rot is found by reading.
    let blocks = read(&mut pages, &mut memory, 1, 0b0011);
    assert!(matches!(blocks[0].1, BlockOutcome::Data { .. }));
    let slot = layout().slot_offset(0) as usize;
    memory.bytes[slot] ^= 1;
    read(&mut pages, &mut memory, 1, 0b0001);
    let bad = |pages: &Pages| pages.bad_blocks(key(1).slice)[&key(1).page];
    assert_eq!(bad(&pages), 0b1001);
    memory.bytes[slot] ^= 1;
    read(&mut pages, &mut memory, 1, 0b0001);
    assert_eq!(bad(&pages), 0b1000);
}

/// Reads both copies of a page's entry, and writes again what is bad; how many copies have been bad until now.
fn check(pages: &mut Pages, memory: &mut Memory, page: u32) -> u64 {
    let mut requests = Vec::new();
    pages.check(key(page), &mut requests);
    run(pages, memory, requests, Vec::new());
    if pages.has_bad_copies() {
        let (mut requests, mut events) = (Vec::new(), Vec::new());
        pages.begin_round(Vec::new(), &mut requests, &mut events);
        run(pages, memory, requests, events);
    }
    assert!(!pages.has_bad_copies() && !pages.is_in_round());
    pages.bad_copies()
}

#[test]
fn a_copy_of_an_entry_that_goes_bad_while_the_store_is_open_is_written_again() {
    for copy in 0..2 {
        let mut memory = Memory::new();
        let mut pages = open(&mut memory, 1);
        paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
        let table = layout().table_offsets[copy] as usize;
        let older = memory.bytes[table..table + 4096].to_vec();
        paint(&mut pages, &mut memory, 1, vec![(0, data(2))]);
        paint(&mut pages, &mut memory, 2, vec![(0, data(3))]);
        // In memory, and not.
        for start in 1..3 {
            let good = memory.bytes[table..table + 4096].to_vec();
            assert_eq!(check(&mut pages, &mut memory, 1), 0);
            let mut found = 0;
            for spoiled in [vec![0xA5; 4096], older.clone(), vec![0; 4096]] {
                memory.bytes[table..table + 4096].copy_from_slice(&spoiled);
                found += 1;
                assert_eq!(check(&mut pages, &mut memory, 1), found);
                assert_eq!(memory.bytes[table..table + 4096], good);
            }
            memory.unreadable.push(table as u64);
            assert_eq!(check(&mut pages, &mut memory, 1), found + 1);
            memory.unreadable.clear();
            pages = open(&mut memory, start + 1);
        }
        // Nobody else has been touched, and nothing that is not there is looked for.
        assert_eq!(check(&mut pages, &mut memory, 2), 0);
        assert_eq!(check(&mut pages, &mut memory, 3), 0);
        assert_eq!(contents(&read(&mut pages, &mut memory, 1, 1)[0].1), 2);
    }
}

#[test]
fn a_block_that_cannot_be_read_at_all_is_not_overwritten() {
    let mut memory = Memory::new();
    let mut pages = open(&mut memory, 1);
    paint(&mut pages, &mut memory, 1, vec![(0, data(1))]);
    let mut pages = open(&mut memory, 2);
    let tables = layout().table_offsets;
    memory.unreadable.extend(tables);
    assert_eq!(check(&mut pages, &mut memory, 1), 1);
    memory.unreadable.clear();
    let mut pages = open(&mut memory, 3);
    assert_eq!(contents(&read(&mut pages, &mut memory, 1, 1)[0].1), 1);
}
