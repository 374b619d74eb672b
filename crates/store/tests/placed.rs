//! Whole pages that go to the media once.

mod bench;
mod memory;

use bench::{Bench, DATA_BYTES, FIRST_BYTES, Off, SLICE, blocks, opened, value};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, Entry, Epoch, Fence, PAGE_SIZE, PageIndex, Sequence,
};
use holdfast_store::{BlockRead, ReadSource, StoreToken, View};

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
