//! What is carried forward in the journal, for its segments to be used again: right wherever power fails.

use std::collections::VecDeque;

use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Change, DiskOp, Epoch, Sequence};
use holdfast_stdx::{Bytes, Duration};
use holdfast_store::{BlockRead, ReadSource, StoreEvent, StoreToken, View};

use crate::bench::{
    Bench, DATA_BYTES, Devices, FIRST_BYTES, JOURNAL_BYTES, OTHER, Off, PAGES, SLICE, THIRD,
    blocks, open, opened, value,
};

/// Bytes of an entry's data.
const ENTRY_BYTES: usize = 8 * BLOCK_SIZE;
/// What fills the last of the entries that are not decided.
const LAST: u8 = 78;

/// Blocks of a page that an entry changes.
fn range(page: u32) -> BlockRange {
    BlockRange::new(64 * page, 8)
}

/// Entries of the same blocks that are not known to be committed; their copies do not fit into two segments, so that power
/// may fail between them.
fn begin_entries(bench: &mut Bench, page: u32) {
    let committed = bench.store.prepared(SLICE).1;
    for fill in 55..=LAST {
        let data = vec![fill; ENTRY_BYTES];
        bench.begin_as_of(committed, SLICE, range(page), data);
        bench.work().expect("there is power");
    }
}

/// More of another slice than a part of the journal holds; one of a third slice stays undecided, and keeps the journal
/// from being used again.
fn write_others(bench: &mut Bench) -> Result<(), Off> {
    for place in 0..120 {
        bench.append(OTHER, range(0), vec![place; ENTRY_BYTES])?;
        if place % 4 == 3 {
            bench.rest()?;
        }
        if place == 8 {
            bench.begin(THIRD, range(0), vec![place; ENTRY_BYTES]);
            bench.work()?;
        }
    }
    Ok(())
}

/// The number of requests until the first copies are in the journal: much at once.
fn first_carry(start: &Devices, given: &[u16]) -> usize {
    let is_there = |requests: &usize| {
        let mut bench = open(start, given);
        bench.left = *requests;
        assert!(write_others(&mut bench).is_err(), "the journal goes round");
        bench.written_max > 2 * ENTRY_BYTES
    };
    let mut requests = (0..).step_by(4);
    requests.find(is_there).expect("there is no end")
}

/// What is on the devices when power fails, around the first time that entries are carried forward. They become
/// committed shortly before.
fn cut_while_carrying(start: &Devices, given: &[u16]) -> Vec<Devices> {
    let carried = first_carry(start, given);
    let cuts = carried - 4..=carried + 4;
    let cuts = cuts.flat_map(|requests| (0..4).map(move |before| (requests, before)));
    let cut = |(requests, before)| {
        let mut bench = open(start, given);
        bench.left = requests;
        bench.commits = Some((before, SLICE));
        assert!(write_others(&mut bench).is_err());
        bench.devices
    };
    cuts.map(cut).collect()
}

fn commit(bench: &mut Bench, sequence: Sequence) {
    bench.store.set_committed(bench.now, SLICE, sequence);
}

fn first_byte(bench: &mut Bench, page: u32) -> u8 {
    match &blocks(bench, page)[0] {
        BlockRead::Data { data, .. } => data[0],
        other => panic!("{page}: {other:?}"),
    }
}

/// The store is used for a while, with pauses in which it is opened again: whether the page is as it was written last,
/// and all others as they were.
fn stays_right(devices: &Devices, page: u32) -> bool {
    let mut bench = open(devices, &[0, 1]);
    for _ in 0..12 {
        assert!(!opened(&bench).slices[&SLICE].lacks);
        let prepared = bench.store.prepared(SLICE).1;
        commit(&mut bench, prepared);
        bench.rest().expect("there is power");
        let data = vec![1; ENTRY_BYTES];
        bench.append(OTHER, range(0), data).expect("there is power");
        bench = open(&bench.devices, &[0, 1]);
        if first_byte(&mut bench, page) != LAST {
            return false;
        }
        for other in (0..PAGES).filter(|other| *other != page) {
            assert_eq!(first_byte(&mut bench, other), value(other, 0));
        }
    }
    true
}

/// Copies of which some are missing: none is taken for what was written after it.
#[test]
fn copies_that_power_failed_between_are_never_redone_without_what_follows_them() {
    let mut bench = Bench::filled_with_journal(8 * JOURNAL_BYTES);
    begin_entries(&mut bench, 0);
    let cuts = cut_while_carrying(&bench.devices, &[0, 1]);
    let right = cuts.iter().filter(|cut| stays_right(cut, 0)).count();
    assert_eq!(right, cuts.len());
}

/// The same where a device is missing, and the page is on that one: what is committed of it is carried forward as well.
#[test]
fn what_is_stranded_is_never_redone_without_what_follows_it() {
    let mut bench = Bench::filled_with_journal(8 * JOURNAL_BYTES);
    let mut without = open(&bench.devices, &[0]);
    let is_bad = |page: &u32| matches!(blocks(&mut without, *page)[0], BlockRead::Bad { .. });
    let page = (0..PAGES).find(is_bad).expect("one is on the other device");
    let block = BlockRange::new(64 * page, 1);
    bench
        .append(SLICE, block, vec![54; BLOCK_SIZE])
        .expect("there is power");
    begin_entries(&mut bench, page);
    let cuts = cut_while_carrying(&bench.devices, &[0]);
    let right = cuts.iter().filter(|cut| stays_right(cut, page)).count();
    assert_eq!(right, cuts.len());
}

/// What fills an entry of two pages that have no slots, and what follows it of the same slice.
const STRANDED: u8 = 91;
const FOLLOWS: u8 = 92;
const LATER: u8 = 93;
/// The blocks of that entry: the last of the first page, and the first of the second one.
const STRANDED_BLOCKS: BlockRange = BlockRange::new(60, 8);
/// One of the first page.
const LATER_BLOCK: u32 = 61;

/// A store whose second device has something, and the first device of which is full; and an entry of two pages of a
/// slice that lacks nothing, for which there is no slot without the second.
fn with_stranded() -> Devices {
    let devices = [FIRST_BYTES, DATA_BYTES].map(|bytes| vec![0; bytes as usize]);
    let mut bench = Bench::create_on(devices.into(), &[0], JOURNAL_BYTES);
    for page in 0..9 {
        if page == 8 {
            assert_eq!(bench.add(1, None).expect("there is power"), Ok(1));
        }
        let data = vec![1 + page as u8; ENTRY_BYTES];
        bench
            .append(OTHER, range(page), data)
            .expect("there is power");
        bench.rest().expect("there is power");
    }
    // Its segment is the first to be trimmed when one is begun, while that one's first group is in flight.
    for fill in 0..5 {
        let data = vec![1 + fill; ENTRY_BYTES];
        bench.append(OTHER, range(0), data).expect("there is power");
        bench.rest().expect("there is power");
    }
    let data = vec![STRANDED; ENTRY_BYTES];
    let written = bench.append(SLICE, STRANDED_BLOCKS, data);
    written.expect("there is power");
    // By this it is known to be committed.
    let block = BlockRange::new(80, 1);
    let written = bench.append(SLICE, block, vec![FOLLOWS; BLOCK_SIZE]);
    written.expect("there is power");
    bench.devices
}

fn without_second(start: &Devices) -> Bench {
    let bench = open(start, &[0]);
    assert!(!opened(&bench).slices[&SLICE].lacks);
    assert!(opened(&bench).slices[&OTHER].lacks);
    bench
}

/// Load of another slice, one request at a time: there is always an entry that waits for a group to be durable.
#[derive(Default)]
struct Load {
    requests: usize,
    in_flight: VecDeque<Sequence>,
    committed: Sequence,
}

impl Load {
    fn step(&mut self, bench: &mut Bench) {
        let is_durable = |it: &Sequence| bench.durable.contains(&StoreToken(it.0));
        while let Some(durable) = self.in_flight.front().copied().filter(is_durable) {
            self.committed = durable;
            self.in_flight.pop_front();
        }
        while self.in_flight.len() < 2 {
            let data = vec![1; ENTRY_BYTES];
            let sequence = bench.begin_as_of(self.committed, OTHER, range(0), data);
            self.in_flight.push_back(sequence);
        }
        bench.go_on().expect("there is power");
        bench.now += Duration::from_micros(200);
        bench.store.handle_timeout(bench.now, &mut bench.out);
        self.requests += 1;
    }
}

/// Whether a group is about to be written that has the stranded entry's data.
fn is_carried(bench: &Bench) -> bool {
    let mut requests = bench.out.requests.iter();
    requests.any(|request| {
        let DiskOp::Write { parts, .. } = &request.op else {
            return false;
        };
        let mut blocks = parts.iter().flat_map(|part| part.chunks(BLOCK_SIZE));
        blocks.any(|block| block.iter().all(|byte| *byte == STRANDED))
    })
}

/// The number of requests of the load until the stranded entry is carried forward.
fn carried_after(begin: impl Fn() -> Bench) -> usize {
    let mut bench = begin();
    let mut load = Load::default();
    while !is_carried(&bench) {
        assert!(load.requests < 2000, "the journal goes round");
        load.step(&mut bench);
    }
    load.requests
}

/// What a block of the slice's first page reads as: all of that is in memory.
fn seen(bench: &mut Bench, block: u32, view: View) -> u8 {
    let token = StoreToken(1 << 50);
    let range = BlockRange::new(block, 1);
    bench.begin_read(SLICE, range, view, ReadSource::Anywhere, token);
    let out = &mut bench.out;
    let is_it = |event: &StoreEvent| matches!(event, StoreEvent::ReadDone { token: it, .. } if *it == token);
    let place = out.events.iter().position(is_it);
    let event = out.events.remove(place.expect("it is in memory"));
    match event {
        Some(StoreEvent::ReadDone { blocks, .. }) => match &blocks[..] {
            [BlockRead::Data { data, .. }] => data[0],
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A change that is known to be committed stays what is read while an older one of the same block is carried forward.
#[test]
fn what_is_carried_is_not_read_in_place_of_what_came_after_it() {
    let start = with_stranded();
    let carried = carried_after(|| without_second(&start));
    let mut stale = Vec::new();
    for begins in carried - 20..=carried - 6 {
        for delay in 0..4 {
            let mut bench = without_second(&start);
            let is_stale = reads_older(&mut bench, begins, delay, carried + 16);
            stale.extend(is_stale.then_some((begins, delay)));
        }
    }
    assert!(stale.is_empty(), "carried after {carried}: {stale:?}");
}

/// Whether a block reads as what it was before an entry that is begun after so many requests.
fn reads_older(bench: &mut Bench, begins: usize, delay: usize, until: usize) -> bool {
    let mut load = Load::default();
    let mut later = None;
    let mut is_committed = None;
    while load.requests < until {
        if load.requests == begins {
            let block = BlockRange::new(LATER_BLOCK, 1);
            later = Some(bench.begin(SLICE, block, vec![LATER; BLOCK_SIZE]));
        }
        let is_durable = |it: Sequence| bench.durable.contains(&StoreToken(it.0));
        if is_committed.is_none() && later.is_some_and(is_durable) {
            is_committed = Some(load.requests + delay);
        }
        if is_committed == Some(load.requests) {
            commit(bench, later.expect("it is durable"));
        }
        load.step(bench);
        let mut is_seen = |view| seen(bench, LATER_BLOCK, view) == LATER;
        if later.is_some() && !is_seen(View::Prepared) {
            return true;
        }
        let is_committed = is_committed.is_some_and(|at| load.requests > at);
        if is_committed && !is_seen(View::Committed) {
            return true;
        }
    }
    assert!(is_committed.is_some(), "it is over too early");
    false
}

/// A copy from another replica comes just before an older change of the same page is carried forward. The page is
/// destaged, what was carried for another one is not, and power fails.
#[test]
fn what_is_carried_is_not_redone_over_a_copy_that_came_before() {
    let start = with_stranded();
    let carried = carried_after(|| begun_anew(&start));
    let mut stale = Vec::new();
    for begins in carried - 12..=carried {
        let mut bench = begun_anew(&start);
        install_beside(&mut bench, begins, carried + 16);
        free_one(&mut bench);
        let mut again = open(&bench.devices, &[0]);
        if [&mut bench, &mut again].map(read_later) != [LATER; 2] {
            stale.push(begins);
        }
        assert_eq!(first_byte(&mut again, 1), STRANDED);
    }
    assert!(stale.is_empty(), "carried after {carried}: {stale:?}");
}

/// The log of the slice with the stranded entry has begun anew.
fn begun_anew(start: &Devices) -> Bench {
    let mut bench = without_second(start);
    let prepared = bench.store.prepared(SLICE).1;
    commit(&mut bench, prepared);
    let (at, token) = ((Epoch(1), Sequence(prepared.0 + 10)), StoreToken(1 << 51));
    let out = &mut bench.out;
    bench.store.restart_log(bench.now, SLICE, at, token, out);
    bench.work().expect("there is power");
    bench
}

fn install_beside(bench: &mut Bench, begins: usize, until: usize) {
    let mut load = Load::default();
    while load.requests < until {
        if load.requests == begins {
            let data = Bytes::from(vec![LATER; BLOCK_SIZE]);
            let change = Change::write(BlockIndex(LATER_BLOCK), data);
            let as_of = bench.store.committed(SLICE);
            let (now, token) = (bench.now, StoreToken(1 << 52));
            let out = &mut bench.out;
            let installed = bench.store.install(now, SLICE, change, as_of, token, out);
            assert_eq!(installed, Ok(()));
        }
        load.step(bench);
    }
    bench.work().expect("there is power");
    let prepared = bench.store.prepared(OTHER).1;
    bench.store.set_committed(bench.now, OTHER, prepared);
    bench.rest().expect("there is power");
}

/// A page with a slot is cleared, the oldest change gets that, and the journal says so.
fn free_one(bench: &mut Bench) {
    let before = bench.store.prepared(OTHER).1;
    let clear = Change::Clear(BlockRange::new(64 * 7, 64));
    let sequence = bench.begin_change(before, OTHER, clear);
    bench.work().expect("there is power");
    bench.store.set_committed(bench.now, OTHER, sequence);
    bench.rest().expect("there is power");
    for _ in 0..2 {
        let data = vec![1; ENTRY_BYTES];
        bench.append(OTHER, range(0), data).expect("there is power");
        bench.rest().expect("there is power");
    }
}

fn read_later(bench: &mut Bench) -> u8 {
    let (token, view) = (StoreToken(0), View::Prepared);
    let range = BlockRange::new(LATER_BLOCK, 1);
    bench.begin_read(SLICE, range, view, ReadSource::Anywhere, token);
    bench.work().expect("there is power");
    match &bench.read.take().expect("the read ends")[..] {
        [BlockRead::Data { data, .. }] => data[0],
        other => panic!("{other:?}"),
    }
}
