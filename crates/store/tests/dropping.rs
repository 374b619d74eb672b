//! Slices that are dropped while there is no room for what was asked before: they go all the same, as a whole.

use holdfast_model::{BLOCK_SIZE, BlockRange, DiskOp, DiskRequest};
use holdfast_store::{BlockRead, StoreToken};

use crate::bench::{Bench, Devices, OTHER, Off, PAGES, SLICE, blocks, open, value};

const ENTRY_BYTES: usize = 8 * BLOCK_SIZE;
/// More than may wait to be destaged, in a journal of eight segments.
const ENTRIES: u32 = 20;

/// Does what is asked of the journal, and holds back what is asked of pages.
fn work_on_journal(bench: &mut Bench, held: &mut Vec<DiskRequest>) {
    while let Some(request) = bench.out.requests.pop_front() {
        match request.op {
            DiskOp::Read { .. } | DiskOp::Write { durable: true, .. } => {
                let completion = bench.perform(request);
                bench
                    .store
                    .handle_disk(bench.now, completion, &mut bench.out);
            }
            _ => held.push(request),
        }
    }
}

/// An entry of blocks that no other one has.
fn begin(bench: &mut Bench, number: u32) {
    let page = number % PAGES;
    let range = BlockRange::new(64 * page + number / PAGES * 8, 8);
    let data = vec![value(page, 0); ENTRY_BYTES];
    let sequence = bench.begin(SLICE, range, data);
    bench.store.set_committed(bench.now, SLICE, sequence);
}

/// A round of destage is under way, more of the slice is settled than may be, and an entry waits for room, when
/// the slice is dropped. Gives the tokens of what has become durable since.
fn drop_without_room(bench: &mut Bench) -> Result<Vec<u64>, Off> {
    let mut held = Vec::new();
    for number in 0..6 {
        begin(bench, number);
        work_on_journal(bench, &mut held);
    }
    assert!(!held.is_empty(), "a round is under way");
    for number in 6..ENTRIES {
        begin(bench, number);
        work_on_journal(bench, &mut held);
    }
    assert!(bench.store.oldest_unfinished_append().is_some());
    bench.out.events.clear();
    bench.durable.clear();
    let token = StoreToken(u64::MAX);
    bench
        .store
        .drop_slice(bench.now, SLICE, token, &mut bench.out);
    bench.out.requests.extend(held);
    bench.work()?;
    Ok(bench.durable.iter().map(|token| token.0).collect())
}

#[test]
fn a_slice_is_dropped_though_its_last_entries_wait_for_room() {
    let mut bench = Bench::filled();
    let durable = drop_without_room(&mut bench).expect("there is power");
    let (last, appends) = durable.split_last().expect("something has become durable");
    assert_eq!(*last, u64::MAX, "the end is the last");
    assert!(!appends.is_empty(), "what waited is told of as well");
    assert!(bench.store.oldest_unfinished_append().is_none());
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    assert_eq!(bench.store.usage().pages_used, 0);
    // Others have room again.
    let range = BlockRange::new(0, 8);
    bench
        .append(OTHER, range, vec![1; ENTRY_BYTES])
        .expect("there is power");
    assert!(bench.store.oldest_unfinished_append().is_none());
}

/// All that it had, or nothing.
#[test]
fn a_slice_is_whole_or_gone_wherever_power_fails() {
    let full: Devices = Bench::filled().devices;
    let mut whole = 0;
    for requests in 0.. {
        let mut bench = open(&full, &[0, 1]);
        bench.left = requests;
        let late = drop_without_room(&mut bench).is_ok();
        let mut bench = open(&bench.devices, &[0, 1]);
        let pages: Vec<u64> = (0..PAGES)
            .map(|page| match &blocks(&mut bench, page)[0] {
                BlockRead::Data { data, .. } if data[0] == value(page, 0) => 1,
                BlockRead::Zero => 0,
                other => panic!("{requests} {page}: {other:?}"),
            })
            .collect();
        let there: u64 = pages.iter().sum();
        let expected = if there == 0 { 0 } else { u64::from(PAGES) };
        assert_eq!(there, expected, "{requests}: {pages:?}");
        assert_eq!(bench.store.allocated_pages(SLICE), expected, "{requests}");
        whole += u32::from(there > 0);
        if late {
            assert!(there == 0 && whole > 3, "each step is cut short");
            break;
        }
    }
}
