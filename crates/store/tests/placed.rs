//! Whole pages that go to the media once.

use crate::bench;
use crate::bench::{Bench, DATA_BYTES, FIRST_BYTES, Off, SLICE, blocks, opened, value};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, DiskRequest, Entry, Epoch, Fence, PAGE_SIZE,
    PageIndex, Sequence,
};
use holdfast_stdx::Duration;
use holdfast_store::{BlockRead, DeviceOrder, ReadSource, StoreToken, View};

/// A store on one device.
fn new() -> Bench {
    let devices = [FIRST_BYTES + 8 * bench::SLOT_BYTES, DATA_BYTES];
    let devices = devices.map(|bytes| vec![0; bytes as usize]);
    Bench::create_on(devices.into(), &[0], bench::JOURNAL_BYTES)
}

/// What a whole page is filled with; each time with something else.
fn contents(page: u32, time: u8) -> Vec<u8> {
    let blocks = (0..64).flat_map(|block| [value(page, block) ^ time; BLOCK_SIZE]);
    blocks.collect()
}

fn begin(bench: &mut Bench, page: u32, time: u8) -> Sequence {
    bench.begin(
        SLICE,
        BlockRange::page(PageIndex(page)),
        contents(page, time),
    )
}

fn write(bench: &mut Bench, page: u32, time: u8) -> Result<(), Off> {
    let range = BlockRange::page(PageIndex(page));
    bench.append(SLICE, range, contents(page, time))?;
    bench.rest()
}

/// The bytes of all blocks of a page, as the media has them.
fn read(bench: &mut Bench, page: u32) -> Vec<u8> {
    let range = BlockRange::page(PageIndex(page));
    let token = StoreToken(0);
    bench.begin_read(SLICE, range, View::Prepared, ReadSource::Media, token);
    bench.work().expect("there is power");
    let read = bench.read.take().expect("the read ends");
    let blocks = read.into_iter().flat_map(|block| match block {
        BlockRead::Data { data, .. } => data.to_vec(),
        BlockRead::Zero => vec![0; BLOCK_SIZE],
        BlockRead::Bad { .. } => panic!("a block is bad"),
    });
    blocks.collect()
}

#[test]
fn a_whole_page_is_written_once() {
    let mut bench = new();
    for time in 0..20 {
        let before = bench.written;
        write(&mut bench, 3, time).expect("there is power");
        let written = bench.written - before;
        assert!(written >= PAGE_SIZE);
        assert!(written < PAGE_SIZE + PAGE_SIZE / 4, "{written} bytes");
        assert_eq!(read(&mut bench, 3), contents(3, time));
        // The slot that it had is free again.
        let usage = bench.store.usage();
        assert_eq!((usage.pages_used, usage.dirty_bytes), (1, 0));
    }
    let mut bench = bench.reopened();
    assert_eq!(read(&mut bench, 3), contents(3, 19));
}

/// What is told of the room at every step until all is at rest, without what is told twice in a row.
fn told_of_room(bench: &mut Bench) -> Vec<u64> {
    let end = bench.now + Duration::from_secs(1);
    let mut told = vec![bench.store.usage().pages_free()];
    loop {
        while bench.go_on().expect("there is power") {
            told.push(bench.store.usage().pages_free());
        }
        let Some(due) = bench.store.next_timeout().filter(|due| *due <= end) else {
            break;
        };
        bench.now = bench.now.max(due);
        bench.store.handle_timeout(bench.now, &mut bench.out);
        told.push(bench.store.usage().pages_free());
    }
    told.dedup();
    told
}

/// While a placed page became the page, its slot counted beside the room that was kept for it: of a pool that was almost full, writes
/// were refused for room that was free a moment later.
#[test]
fn a_page_that_is_placed_takes_its_room_once() {
    let mut bench = new();
    let all = bench.store.usage().pages;
    let pages = [3, 4, 5];
    let left = all - pages.len() as u64;
    for time in 1..3 {
        let mut last = Sequence(0);
        for page in pages {
            last = begin(&mut bench, page, time);
        }
        assert_eq!(told_of_room(&mut bench), [left], "before it is committed");
        bench.store.set_committed(bench.now, SLICE, last);
        assert_eq!(told_of_room(&mut bench), [left], "while it is destaged");
        assert_eq!(bench.store.usage().dirty_bytes, 0);
    }
}

#[test]
fn a_later_write_of_a_part_counts() {
    let mut bench = new();
    let range = BlockRange::page(PageIndex(3));
    bench
        .append(SLICE, range, contents(3, 0))
        .expect("there is power");
    bench
        .append(SLICE, BlockRange::new(64 * 3 + 5, 1), vec![9; BLOCK_SIZE])
        .expect("there is power");
    let mut expected = contents(3, 0);
    expected[5 * BLOCK_SIZE..6 * BLOCK_SIZE].fill(9);
    for _ in 0..2 {
        assert_eq!(read(&mut bench, 3), expected);
        bench.rest().expect("there is power");
        assert_eq!(read(&mut bench, 3), expected);
        assert_eq!(bench.store.usage().pages_used, 1);
        bench = bench.reopened();
    }
}

/// Wherever power fails, the page is what it was or what it was to become; and that if it has been said to be durable.
#[test]
fn power_may_fail_at_any_time() {
    let mut ends = false;
    for left in 0.. {
        let mut bench = new();
        write(&mut bench, 3, 1).expect("there is power");
        write(&mut bench, 4, 1).expect("there is power");
        bench.left = left;
        bench.durable.clear();
        let sequence = bench.store.prepared(SLICE).1.next();
        let result = write(&mut bench, 3, 2).and_then(|()| write(&mut bench, 4, 2));
        ends |= result.is_ok();
        let is_durable = bench.durable.contains(&StoreToken(sequence.0));
        let mut bench = Bench::open(bench.devices, &[0], usize::MAX).expect("there is power");
        let (_, prepared) = opened(&bench).slices[&SLICE].prepared;
        assert!(opened(&bench).slices[&SLICE].intact);
        assert!(prepared >= sequence || !is_durable, "it had been durable");
        for _ in 0..2 {
            for (page, entry) in [(3, sequence), (4, sequence.next())] {
                let time = if prepared >= entry { 2 } else { 1 };
                assert_eq!(read(&mut bench, page), contents(page, time), "{left}");
            }
            // What comes now takes no slot that is needed.
            bench.store.set_committed(bench.now, SLICE, prepared);
            write(&mut bench, 5, 3).expect("there is power");
            write(&mut bench, 6, 3).expect("there is power");
            bench = Bench::open(bench.devices, &[0], usize::MAX).expect("there is power");
        }
        if ends {
            break;
        }
    }
    assert!(ends);
}

/// Recovery may find a void entry as long as the record is not durable that says so.
#[test]
fn a_void_entry_keeps_its_slot_until_that_is_durable() {
    for left in 0.. {
        let mut bench = new();
        write(&mut bench, 3, 1).expect("there is power");
        let entry = begin(&mut bench, 3, 2);
        bench.work().expect("there is power");
        bench.left = left;
        let (now, after) = (bench.now, Sequence(entry.0 - 1));
        let token = StoreToken(1000);
        let out = &mut bench.out;
        bench
            .store
            .begin_epoch(now, SLICE, Epoch(2), after, token, out);
        // Others are taken meanwhile.
        for page in 4..6 {
            let range = BlockRange::page(PageIndex(page));
            bench.store.reserve(SLICE, range).expect("there is room");
            let sequence = bench.store.prepared(SLICE).1.next();
            let change = Change::write(BlockIndex(range.start()), contents(page, 3).into());
            let entry = Entry {
                epoch: Epoch(2),
                sequence,
                fence: Fence(0),
                command: Default::default(),
                change,
            };
            let (now, token) = (bench.now, StoreToken(2000 + u64::from(page)));
            bench
                .store
                .append(now, SLICE, entry, after, token, &mut bench.out);
        }
        // What was asked for last is done first.
        bench.out.requests.make_contiguous().reverse();
        let off = bench.work();
        let ends = off.is_ok();
        let was_void = bench.durable.contains(&token);
        let mut bench = Bench::open(bench.devices, &[0], usize::MAX).expect("there is power");
        let found = &opened(&bench).slices[&SLICE];
        assert!(found.intact, "{left}");
        let is_there = found.prepared == (Epoch(1), entry);
        assert!(!(was_void && is_there));
        let time = if is_there { 2 } else { 1 };
        let first = blocks(&mut bench, 3).swap_remove(0);
        let expected = value(3, 0) ^ time;
        assert!(matches!(first, BlockRead::Data { data, .. } if data[0] == expected));
        if ends {
            break;
        }
    }
}

/// Pages that leave a device need no more slots than there are beside those that undecided entries have placed their data in. Free ones
/// were kept for that data once more, so that a drain waited until the entries were decided.
#[test]
fn a_drain_does_not_wait_for_what_is_placed() {
    let mut bench = new();
    for page in 0..10 {
        bench.write_page(page);
    }
    bench.rest().expect("there is power");
    assert_eq!(bench.add(1, None).expect("there is power"), Ok(1));
    for page in 10..12 {
        bench.write_page(page);
    }
    bench.rest().expect("there is power");
    let used =
        |bench: &Bench| [0, 1].map(|disk| bench.status(disk).expect("it is there").pages_used);
    assert_eq!(used(&bench), [10, 2]);
    // Nothing moves while a round is under way.
    bench.write_page(0);
    let is_of_pages = |request: &DiskRequest| request.token.0 >> 56 == 2;
    while !bench.out.requests.iter().any(is_of_pages) {
        if !bench.go_on().expect("there is power") {
            bench.now = bench.store.next_timeout().expect("destage is due");
            bench.store.handle_timeout(bench.now, &mut bench.out);
        }
    }
    let round: Vec<_> = bench.out.requests.drain(..).collect();
    let (drain, token) = (DeviceOrder::Drain { ordinal: 1 }, StoreToken(1000));
    bench
        .store
        .order_device(bench.now, drain, token, &mut bench.out);
    let committed = bench.store.prepared(SLICE).1;
    for page in 20..24 {
        let range = BlockRange::page(PageIndex(page));
        if page < 22 {
            bench.begin_as_of(committed, SLICE, range, contents(page, 1));
        } else {
            let first = BlockRange::new(range.start(), 1);
            bench.begin_as_of(committed, SLICE, first, vec![1; BLOCK_SIZE]);
        }
    }
    bench.work().expect("there is power");
    assert_eq!(bench.ordered, [Ok(1)]);
    assert_eq!(used(&bench), [12, 2], "two are placed");
    assert_eq!(bench.store.usage().pages_reserved, 4);
    for request in round {
        let completion = bench.perform(request);
        bench
            .store
            .handle_disk(bench.now, completion, &mut bench.out);
    }
    bench.rest().expect("there is power");
    assert_eq!(used(&bench), [14, 0]);
    let prepared = bench.store.prepared(SLICE).1;
    bench.store.set_committed(bench.now, SLICE, prepared);
    bench.rest().expect("there is power");
    assert_eq!(used(&bench), [16, 0]);
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    for page in 20..22 {
        assert_eq!(read(&mut bench, page), contents(page, 1));
    }
}
