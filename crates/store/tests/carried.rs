//! What is carried forward in the journal, for its segments to be used again: right wherever power fails.

mod bench;
mod memory;

use holdfast_model::{BLOCK_SIZE, BlockRange, Sequence};
use holdfast_store::BlockRead;

use bench::{
    Bench, Devices, JOURNAL_BYTES, OTHER, Off, PAGES, SLICE, THIRD, blocks, open, opened, value,
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
