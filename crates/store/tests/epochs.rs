//! Epochs that begin while entries that they make void are on their way into the journal, or kept in it: what says that
//! they are void waits for nothing that waits for them, and a slice is right wherever power fails.

use crate::bench;
use crate::bench::{
    Bench, DATA_BYTES, FIRST_BYTES, JOURNAL_BYTES, OTHER, Off, SLICE, open, opened,
};
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, DiskOp, DiskRequest, Epoch, PAGE_SIZE, PageIndex,
    Sequence,
};
use holdfast_stdx::Bytes;
use holdfast_store::StoreToken;

/// Tokens of what is not an entry, in the order in which it is asked for.
const FIRST: StoreToken = StoreToken(1001);
const SECOND: StoreToken = StoreToken(1002);
const THIRD: StoreToken = StoreToken(1003);

const ENTRY_BYTES: usize = 8 * BLOCK_SIZE;

/// The first 8 blocks of a page.
fn range(page: u32) -> BlockRange {
    BlockRange::new(64 * page, 8)
}

/// An entry of the slice that nobody has decided.
fn begin(bench: &mut Bench, page: u32) -> StoreToken {
    let fill = page as u8 + 1;
    let data = vec![fill; ENTRY_BYTES];
    let sequence = bench.begin_as_of(Sequence(0), SLICE, range(page), data);
    StoreToken(sequence.0)
}

fn begin_epoch(bench: &mut Bench, after: u64, token: StoreToken) {
    let (epoch, after) = (Epoch(2), Sequence(after));
    (bench.store).begin_epoch(bench.now, SLICE, epoch, after, token, &mut bench.out);
}

fn install(bench: &mut Bench, page: u32, token: StoreToken) {
    let (now, out) = (bench.now, &mut bench.out);
    bench
        .store
        .reserve(SLICE, range(page))
        .expect("there is room");
    let data = Bytes::from(vec![99; ENTRY_BYTES]);
    let copy = Change::write(BlockIndex(range(page).start()), data);
    (bench.store)
        .install(now, SLICE, copy, Sequence(0), token, out)
        .expect("it can be ordered");
}

/// A store on one device that holds nothing yet.
fn new() -> Bench {
    let devices = [FIRST_BYTES + 8 * bench::SLOT_BYTES, DATA_BYTES];
    let devices = devices.map(|bytes| vec![0; bytes as usize]);
    Bench::create_on(devices.into(), &[0], JOURNAL_BYTES)
}

/// Has entries that nobody decides take all the room that the journal has for them: the last one waits for some.
fn fill_journal(bench: &mut Bench) -> StoreToken {
    loop {
        let token = begin(bench, 0);
        bench.work().expect("there is power");
        if !bench.durable.contains(&token) {
            return token;
        }
    }
}

/// The room that a copy waits for is made when an epoch has begun that makes void what takes it.
#[test]
fn an_epoch_waits_for_no_room_that_it_makes() {
    let mut bench = new();
    let last = fill_journal(&mut bench);
    install(&mut bench, 1, FIRST);
    let state = Bytes::from(vec![1; 100]);
    (bench.store).put_state(bench.now, SLICE, state, SECOND, &mut bench.out);
    bench.work().expect("there is power");
    bench.durable.clear();
    begin_epoch(&mut bench, 0, THIRD);
    bench.rest().expect("there is power");
    assert_eq!(bench.durable, [last, FIRST, SECOND, THIRD]);
    assert!(!bench.store.is_congested());
    let again = begin(&mut bench, 2);
    bench.work().expect("there is power");
    assert!(bench.durable.contains(&again));
    let bench = open(&bench.devices, &[0]);
    let slice = &opened(&bench).slices[&SLICE];
    assert!(slice.intact);
    assert_eq!(
        (slice.prepared.1, slice.state.is_some()),
        (Sequence(1), true)
    );
}

/// Takes the write of a page to a slot out of what is asked: it ends when it is put back.
fn hold_back(bench: &mut Bench) -> DiskRequest {
    let is_page = |request: &DiskRequest| match &request.op {
        DiskOp::Write { parts, .. } => parts.len() == 1 && parts[0].len() == PAGE_SIZE,
        _ => false,
    };
    let place = bench.out.requests.iter().position(is_page);
    let place = place.expect("a page is on its way to a slot");
    bench.out.requests.remove(place).expect("it was just there")
}

/// An epoch begins while the last of the entries that it makes void still waits for its data. What came before it is carried
/// forward, as others write.
#[test]
fn what_is_left_of_a_log_is_not_carried_forward_without_what_is_void() -> Result<(), Off> {
    let mut bench = new();
    for page in [0, 1] {
        begin(&mut bench, page);
        bench.work()?;
    }
    let others = |bench: &mut Bench, count| {
        for _ in 0..count {
            bench.append(OTHER, range(3), vec![9; ENTRY_BYTES])?;
            bench.rest()?;
        }
        Ok(())
    };
    // So that the third one is in another segment.
    others(&mut bench, 8)?;
    begin(&mut bench, 2);
    bench.work()?;
    let page = BlockRange::page(PageIndex(4));
    let placed = bench.begin_as_of(Sequence(0), SLICE, page, vec![4; PAGE_SIZE]);
    let late = hold_back(&mut bench);
    begin_epoch(&mut bench, 2, FIRST);
    for _ in 0..60 {
        others(&mut bench, 1)?;
        let found = open(&bench.devices, &[0]);
        let slice = &opened(&found).slices[&SLICE];
        assert!(slice.intact);
        assert!(slice.prepared.1 >= Sequence(2));
    }
    bench.out.requests.push_back(late);
    bench.rest()?;
    let told = bench.durable.iter().position(|token| *token == FIRST);
    let told = told.expect("the epoch has begun");
    assert_eq!(bench.durable[told - 1], StoreToken(placed.0));
    Ok(())
}

/// Entries are void before they are written, and what says so is some groups behind them.
#[test]
fn what_is_void_is_redone_until_that_is_written() {
    let mut ends = false;
    for left in 0.. {
        let mut bench = new();
        bench.left = left;
        let state = Bytes::from(vec![1; 100]);
        (bench.store).put_state(bench.now, SLICE, state, FIRST, &mut bench.out);
        // These wait until that is written. Each is half a segment long, so that a group has no other one.
        let half = BlockRange::new(64, 32);
        for slice in [SLICE, OTHER, OTHER, OTHER] {
            bench.begin(slice, half, vec![9; 32 * BLOCK_SIZE]);
        }
        begin_epoch(&mut bench, 0, SECOND);
        ends |= bench.work().is_ok();
        let found = open(&bench.devices, &[0]);
        let slices = &opened(&found).slices;
        assert!(slices.values().all(|slice| slice.intact), "{left}");
        if ends {
            break;
        }
    }
}
