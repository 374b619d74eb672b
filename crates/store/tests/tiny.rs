//! A journal that is as small as one can be, with entries of half a segment: it goes on wherever power fails.

use holdfast_model::{BLOCK_SIZE, BlockIndex, BlockRange, Change, Epoch, Sequence, SliceId};
use holdfast_stdx::Bytes;
use holdfast_store::{BlockRead, InstallRefused, ReadSource, StoreToken, View};

use crate::bench::{
    Bench, Devices, FIRST_BYTES, JOURNAL_BYTES, OTHER, Off, SEGMENT_BYTES, SLICE, open, opened,
};

/// Blocks of an entry that is half a segment long: a segment has no room for two of them.
const HALF_BLOCKS: u32 = (SEGMENT_BYTES / 2) as u32 / BLOCK_SIZE as u32;

fn half(fill: u8) -> (BlockRange, Vec<u8>) {
    let range = BlockRange::new(64 * u32::from(fill % 3), HALF_BLOCKS);
    (range, vec![fill; HALF_BLOCKS as usize * BLOCK_SIZE])
}

/// Entries of a slice that nobody decides, with others between them and behind them that become pages, as far as there is room.
fn write_both(bench: &mut Bench, undecided: u8) -> Result<(), Off> {
    let committed = bench.store.committed(SLICE);
    for fill in 1..=24 {
        if fill <= 2 * undecided && fill % 2 == 0 {
            let (range, data) = half(fill);
            bench.begin_as_of(committed, SLICE, range, data);
            bench.work()?;
        }
        let (range, data) = half(fill);
        bench.begin_as_of(bench.store.committed(OTHER), OTHER, range, data);
        bench.rest()?;
        decide(bench, OTHER);
        bench.rest()?;
    }
    Ok(())
}

fn decide(bench: &mut Bench, slice: SliceId) {
    let prepared = bench.store.prepared(slice).1;
    bench.store.set_committed(bench.now, slice, prepared);
}

/// Everything is decided, and the journal goes round twice.
fn goes_on(mut bench: Bench) -> bool {
    opened(&bench);
    for fill in 0..20 {
        for slice in [SLICE, OTHER] {
            decide(&mut bench, slice);
        }
        bench.rest().expect("there is power");
        let (range, data) = half(fill);
        bench.append(OTHER, range, data).expect("there is power");
    }
    bench.rest().expect("there is power");
    bench.store.usage().dirty_bytes == 0
}

/// What is on the devices when power fails at one of many moments, and again, so many requests later, whenever it is back.
fn cut(start: &Devices, undecided: u8, requests: usize, again: usize) -> Option<Devices> {
    let mut bench = open(start, &[0]);
    bench.left = requests;
    write_both(&mut bench, undecided).err()?;
    let mut devices = bench.devices;
    for _ in 0..3 {
        let mut bench = open(&devices, &[0]);
        bench.left = again;
        if bench.rest().is_ok() {
            let _ = write_both(&mut bench, 1);
        }
        devices = bench.devices;
    }
    Some(devices)
}

#[test]
fn a_full_journal_goes_on_wherever_power_fails() {
    let devices = vec![vec![0; FIRST_BYTES as usize]];
    let bench = Bench::create_on(devices, &[0], JOURNAL_BYTES);
    let start = bench.devices;
    let mut cuts = 0;
    let mut stands_still = Vec::new();
    for undecided in 1..=4 {
        for again in [0, 1, 2, 5] {
            let moments = (20..).step_by(5);
            let all = moments.map_while(|at| Some((at, cut(&start, undecided, at, again)?)));
            for (at, devices) in all {
                cuts += 1;
                if !goes_on(open(&devices, &[0])) {
                    stands_still.push((undecided, again, at));
                }
            }
        }
    }
    assert!(cuts > 150, "it is written to: {cuts}");
    assert!(stands_still.is_empty(), "of {cuts}: {stands_still:?}");
}

fn install(bench: &mut Bench, range: BlockRange, as_of: Sequence) -> Result<(), InstallRefused> {
    let data = Bytes::from(vec![7; range.count() as usize * BLOCK_SIZE]);
    let change = Change::write(BlockIndex(range.start()), data);
    bench.store.reserve(SLICE, range).expect("there is room");
    let (now, token) = (bench.now, StoreToken(1 << 52));
    let out = &mut bench.out;
    bench.store.install(now, SLICE, change, as_of, token, out)
}

/// A page is not there when a part of it is cleared, and is there when that is decided, by a copy of another part. What is
/// older than the clear is not taken for what was cleared.
#[test]
fn a_copy_is_not_taken_that_is_older_than_what_cleared_a_page_that_was_not_there() {
    let devices = vec![vec![0; FIRST_BYTES as usize]];
    let mut bench = Bench::create_on(devices, &[0], JOURNAL_BYTES);
    let (at, token) = ((Epoch(1), Sequence(15)), StoreToken(1 << 51));
    let out = &mut bench.out;
    bench.store.restart_log(bench.now, SLICE, at, token, out);
    bench.work().expect("there is power");
    let cleared = BlockRange::new(6, 12);
    let committed = bench.store.committed(SLICE);
    bench.begin_change(committed, SLICE, Change::Clear(cleared));
    let other = BlockRange::new(32, 16);
    assert_eq!(install(&mut bench, other, at.1), Ok(()));
    bench.rest().expect("there is power");
    decide(&mut bench, SLICE);
    for _ in 0..2 {
        let older = install(&mut bench, BlockRange::new(16, 16), at.1);
        assert!(older.is_err() || bench.store.usage().dirty_bytes > 0);
        bench.rest().expect("there is power");
    }
    let (token, view) = (StoreToken(0), View::Committed);
    let block = BlockRange::new(16, 1);
    bench.begin_read(SLICE, block, view, ReadSource::Anywhere, token);
    bench.work().expect("there is power");
    assert!(matches!(bench.read.as_deref(), Some([BlockRead::Zero])));
}
