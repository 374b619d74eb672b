//! Devices that are missing, back, or have failed: what is on them is bad or as it was, and never older.

use holdfast_format::SUPERBLOCK_OFFSETS;
use holdfast_model::{
    BLOCK_SIZE, BlockIndex, BlockRange, Change, DiskId, PAGE_SIZE, PageIndex, Sequence,
};
use holdfast_stdx::{Bytes, Duration, Instant};
use holdfast_store::{
    BlockRead, DeviceOrder, DeviceRefused, Expected, InstallRefused, OpenError, Output, Store,
    StoreToken, Stray, StrayDevice,
};

use crate::bench::{
    Bench, DATA_BYTES, Devices, FIRST_BYTES, JOURNAL_BYTES, OTHER, Off, PAGES, SLICE, blocks,
    config, geometries, open, opened, remove, value,
};

/// The slice's log begins anew, as it does when others bring what is lacking.
fn join(bench: &mut Bench) {
    let at = bench.store.prepared(SLICE);
    bench.store.set_committed(bench.now, SLICE, at.1);
    let token = StoreToken(0);
    bench
        .store
        .restart_log(bench.now, SLICE, at, token, &mut bench.out);
    bench.work().expect("there is power");
}

fn write_whole(bench: &mut Bench, page: u32) {
    for block in (0..64).step_by(8) {
        bench.write(page, block..block + 8);
    }
}

/// All of a page is as `write_whole` has written it.
fn is_whole(bench: &mut Bench, page: u32) -> bool {
    let found = blocks(bench, page);
    let mut found = (0..).zip(found);
    found.all(|(block, read)| matches!(read, BlockRead::Data { data, .. } if data[0] == value(page, block)))
}

fn is_bad(block: &BlockRead) -> bool {
    matches!(block, BlockRead::Bad { .. })
}

/// The pages of which something is bad; all others, and what else there is, are as they were written.
fn bad_pages(bench: &mut Bench) -> Vec<u32> {
    let mut bad = Vec::new();
    for page in 0..PAGES {
        let found = blocks(bench, page);
        if found.iter().any(is_bad) {
            bad.push(page);
        }
        for (block, read) in (0..).zip(found) {
            match read {
                BlockRead::Data { data, .. } if block < 6 => {
                    assert_eq!(data[0], value(page, block), "{page} {block}");
                }
                BlockRead::Zero if block >= 6 => {}
                BlockRead::Bad { .. } => {}
                other => panic!("{page} {block}: {other:?}"),
            }
        }
    }
    bad
}

fn lacks(bench: &Bench) -> bool {
    opened(bench).slices[&SLICE].lacks
}

fn absent(bench: &Bench) -> Vec<(u16, bool)> {
    let statuses = bench.statuses().into_iter();
    let absent = statuses.filter_map(|device| Some((device.ordinal, device.absent?.is_lost)));
    absent.collect()
}

#[test]
fn without_a_device_its_pages_are_bad_and_with_it_they_are_there_again() {
    let mut full = Bench::filled();
    let used = full.status(1).expect("it is there").pages_used as usize;
    let mut bench = open(&full.devices, &[0]);
    assert!(lacks(&bench));
    assert_eq!(absent(&bench), [(1, false)]);
    let bad = bad_pages(&mut bench);
    assert_eq!(bad.len(), used);
    assert_eq!(bench.statuses()[1].pages_used as usize, used);
    assert_eq!(bench.store.usage().pages, 8);
    // What is not there is nothing that was ever written, and no slot of it is given out.
    assert_eq!(blocks(&mut bench, PAGES)[0], BlockRead::Zero);
    // It stays so, and nothing is lacking when the device is back.
    let mut bench = open(&bench.devices, &[0]);
    assert!(lacks(&bench));
    assert_eq!(bad_pages(&mut bench), bad);
    let mut bench = open(&bench.devices, &[0, 1]);
    assert!(!lacks(&bench) && absent(&bench).is_empty());
    bench.check();
    full.check();
}

/// What was brought meanwhile counts, and what was not is as it was: that of which the journal had a part, too.
#[test]
fn a_device_that_is_back_is_older_than_what_was_brought_without_it() {
    let mut full = Bench::filled();
    let page = bad_pages(&mut open(&full.devices, &[0]))[0];
    // Power fails before this is in its place.
    write_fill(&mut full, page, value(page, 0)).expect("there is power");
    // It is known to be committed by the next one.
    write_fill(&mut full, page + 1, value(page + 1, 0)).expect("there is power");
    let mut bench = open(&full.devices, &[0]);
    bench.rest().expect("there is power");
    let bad = bad_pages(&mut bench);
    assert_eq!(bad[0], page);
    let mut again = bench.reopened();
    assert!(!lacks(&again));
    again.check();

    let mut bench = open(&full.devices, &[0]);
    join(&mut bench);
    write_whole(&mut bench, bad[1]);
    bench.rest().expect("there is power");
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    assert_eq!(
        bad_pages_without(&mut bench, bad[1]),
        [&bad[..1], &bad[2..]].concat()
    );
    let mut bench = bench.reopened();
    assert!(!lacks(&bench));
    assert!(is_whole(&mut bench, bad[1]));
    let half_there: Vec<u32> = bad_pages_without(&mut bench, bad[1]);
    // The journal had a part of these, which is in its place now, and the rest has to be brought.
    assert!(half_there.len() <= 2, "{half_there:?}");
}

/// `bad_pages`, of all but one that was written as a whole.
fn bad_pages_without(bench: &mut Bench, whole: u32) -> Vec<u32> {
    let pages = (0..PAGES).filter(|page| *page != whole);
    let pages: Vec<u32> = pages.collect();
    let is_bad = |page: &u32| blocks(bench, *page).iter().any(is_bad);
    pages.into_iter().filter(is_bad).collect()
}

/// A page that memory makes up for lacks nothing, whether that is in its place yet or not.
#[test]
fn what_the_journal_makes_up_for_is_not_lacking() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let mut bench = open(&bench.devices, &[0, 2]);
    join(&mut bench);
    // Those of which the journal has nothing.
    let all_bad = |page: &u32| blocks(&mut bench, *page).iter().all(is_bad);
    let bad: Vec<u32> = (0..PAGES).filter(all_bad).collect();
    assert!(bad.len() > 3, "{bad:?}");
    for (place, page) in bad.iter().enumerate() {
        write_whole(&mut bench, *page);
        bench.store.handle_timeout(bench.now, &mut bench.out);
        let mut again = open(&bench.devices, &[0, 2]);
        assert_eq!(lacks(&again), place + 1 < bad.len());
        // What is written last may not be known to be committed.
        assert!(bad[..place].iter().all(|page| is_whole(&mut again, *page)));
    }
}

#[test]
fn an_older_copy_of_what_is_lacking_is_not_taken() {
    let mut bench = open(&Bench::filled().devices, &[0]);
    let page = bad_pages(&mut bench)[0];
    let committed = bench.store.committed(SLICE);
    assert_eq!(
        bench
            .store
            .page_changed_above(SLICE, PageIndex(page), Sequence::ZERO),
        u64::MAX
    );
    let mut install = |as_of: u64| {
        let change = Change::write(BlockIndex(64 * page), Bytes::from(vec![9; BLOCK_SIZE]));
        bench
            .store
            .reserve(SLICE, BlockRange::new(64 * page, 1))
            .expect("there is room");
        let (now, token) = (bench.now, StoreToken(1));
        bench
            .store
            .install(now, SLICE, change, Sequence(as_of), token, &mut bench.out)
    };
    assert_eq!(install(committed.0 - 1), Err(InstallRefused::Stale));
    assert_eq!(install(committed.0), Ok(()));
}

/// Openings that are cut short, without the device and when it is back, whatever comes next.
#[test]
fn devices_go_missing_and_come_back_wherever_that_is_cut_short() {
    let full = Bench::filled().devices;
    let without = open(&full, &[0]).devices;
    for (devices, given) in [(&full, &[0][..]), (&without, &[0, 1]), (&without, &[0])] {
        for requests in 0.. {
            let mut cut = cut_opening(devices, given, requests);
            for next in [&[0, 1][..], &[0]] {
                let mut bench = open(&cut.0, next);
                assert_eq!(
                    lacks(&bench),
                    next.len() == 1,
                    "{given:?} {requests} {next:?}"
                );
                bad_pages(&mut bench);
                let mut bench = open(&bench.devices, &[0, 1]);
                assert!(!lacks(&bench), "{given:?} {requests} {next:?}");
                bench.check();
                // Cut short once more, in the same place.
                cut = cut_opening(&cut.0, next, requests);
            }
            if cut.1 {
                assert!(requests > 10, "each step is cut short");
                break;
            }
        }
    }
}

/// What is on the devices when the power fails, and whether it was late.
fn cut_opening(devices: &Devices, given: &[u16], requests: usize) -> (Devices, bool) {
    let given = geometries(devices, given);
    let mut out = Output::default();
    let now = Instant::from_nanos(1);
    let store = Store::open(now, config(), &given, Expected::default(), 5, &mut out);
    let mut bench = Bench::with(devices.clone(), requests, store, out);
    let late = bench.work().is_ok();
    (bench.devices, late)
}

/// An older copy of the device that was missing is not taken for it, nor one of a use that was never.
#[test]
fn what_comes_back_is_what_was_missed() {
    let full = Bench::filled().devices;
    let mut later = open(&full, &[0, 1]);
    later.write_page(0);
    later.rest().expect("there is power");
    let mut without = open(&later.devices, &[0]);
    let bad = bad_pages(&mut without);
    let refused = |devices: &Devices| {
        let mut bench = open(devices, &[0, 1]);
        let disk = DiskId(1);
        let stray = Stray::Older;
        assert_eq!(opened(&bench).strays, [StrayDevice { disk, stray }]);
        assert!(lacks(&bench));
        assert_eq!(bad_pages(&mut bench), bad);
    };
    let mut older = without.devices.clone();
    older[1].clone_from(&full[1]);
    refused(&older);
    // Of the same number, but another use.
    let mut other = Bench::open_as(&full, &[0, 1], 77);
    other.rest().expect("there is power");
    let mut replaced = without.devices.clone();
    replaced[1].clone_from(&other.devices[1]);
    refused(&replaced);
    open(&without.devices, &[0, 1]).check();
}

/// While another device is away that was there later, newer pages may be on that one.
#[test]
fn a_device_does_not_come_back_while_a_later_one_is_away() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let devices = bench.devices;
    let without_one = open(&devices, &[0, 2]).devices;
    let without_both = open(&without_one, &[0]).devices;
    let bench = open(&without_both, &[0, 1]);
    assert_eq!(absent(&bench), [(1, false), (2, false)]);
    assert_eq!(opened(&bench).strays.len(), 1);
    // The later one may, and both together.
    assert_eq!(absent(&open(&without_both, &[0, 2])), [(1, false)]);
    assert_eq!(absent(&open(&without_both, &[0, 1, 2])), []);
    // When the later one is given up the earlier one cannot come back any more.
    let mut bench = open(&without_both, &[0]);
    let gives_up = true;
    let order = DeviceOrder::Remove {
        ordinal: 2,
        gives_up,
    };
    assert_eq!(bench.order(order).expect("there is power"), Ok(2));
    assert_eq!(absent(&bench), [(1, true)]);
    let bench = open(&bench.devices, &[0, 1]);
    let disk = DiskId(1);
    let stray = Stray::Failed;
    assert_eq!(opened(&bench).strays, [StrayDevice { disk, stray }]);
}

/// A device that fails is lost for good once that is noted, wherever power fails then; one with the journal takes
/// the store.
#[test]
fn a_device_that_fails_is_lost_and_the_others_go_on() {
    let full = Bench::filled();
    let of_second = {
        let mut bench = open(&full.devices, &[0]);
        bad_pages(&mut bench)
    };
    let mut told = 0;
    for requests in 0.. {
        let mut bench = open(&full.devices, &[0, 1]);
        bench.broken = Some(DiskId(1));
        bench.left = requests;
        let page = of_second[0];
        let late = write_until(&mut bench, page).is_ok();
        if late {
            assert_eq!(bench.failed, Some((DiskId(1), true)));
            assert!(!bench.store.is_open());
        } else if let Some((disk, is_noted)) = bench.failed {
            assert_eq!((disk, is_noted), (DiskId(1), false), "{requests}");
            told += 1;
        }
        let mut bench = open(&bench.devices, &[0, 1]);
        if late {
            assert_eq!(absent(&bench), [(1, true)]);
            assert!(lacks(&bench));
            let bad = bad_pages(&mut bench);
            // The first page was being written: what the journal has of it counts.
            assert_eq!(bad, of_second);
            assert!(blocks(&mut bench, page)[..6].iter().all(|it| !is_bad(it)));
            assert!(told >= 2, "it is told at once, and noted then");
            break;
        }
        // Lost, or as if nothing had happened.
        let is_lost = lacks(&bench);
        assert_eq!(absent(&bench).len(), usize::from(is_lost));
        for page in 0..PAGES {
            let found = blocks(&mut bench, page);
            for (block, read) in (0..6).zip(found) {
                match read {
                    BlockRead::Data { data, .. } => assert_eq!(data[0], value(page, block)),
                    BlockRead::Bad { .. } if is_lost => {}
                    other => panic!("{page} {block}: {other:?}"),
                }
            }
        }
    }
    let mut bench = open(&full.devices, &[0, 1]);
    bench.broken = Some(DiskId(0));
    assert!(write_until(&mut bench, 0).is_ok());
    assert_eq!(bench.failed, Some((DiskId(0), false)));
    assert_eq!(bench.unusable, Some(DiskId(0)));
}

/// One copy of the superblock of the journal's device has rotted since the store was opened, and the power fails while
/// the other gets the list in which a device is lost: there is always a good one.
#[test]
fn a_loss_that_is_cut_short_tears_no_superblock_beside_a_rotten_one() {
    let full = Bench::filled().devices;
    let page = bad_pages(&mut open(&full, &[0]))[0];
    for offset in SUPERBLOCK_OFFSETS {
        let mut told = 0;
        for requests in 0.. {
            let mut bench = open(&full, &[0, 1]);
            bench.devices[0][offset as usize + 100] ^= 1;
            bench.broken = Some(DiskId(1));
            bench.left = requests;
            let done = write_until(&mut bench, page).is_ok();
            told += u32::from(bench.failed.is_some());
            let again = open(&bench.devices, &[0, 1]);
            opened(&again);
            if done {
                assert_eq!(absent(&again), [(1, true)]);
                assert!(told > 2, "each copy is written");
                break;
            }
        }
    }
}

/// Writes a page, which is destaged or fails to be.
fn write_until(bench: &mut Bench, page: u32) -> Result<(), Off> {
    let range = BlockRange::new(64 * page, 6);
    let data = (0..6).flat_map(|block| [value(page, block); BLOCK_SIZE]);
    bench.append(SLICE, range, data.collect())?;
    bench.rest()
}

/// Pages move to a device while they are written; then that device is gone, wherever power failed: what is
/// left over of a page where it came from is never taken for what was written since.
#[test]
fn nothing_older_takes_the_place_of_what_is_gone() {
    let full = Bench::filled().devices;
    let mut stood_in = 0;
    for requests in 0.. {
        let mut bench = open(&full, &[0, 1]);
        bench.left = requests;
        // By page: what was written last, and whether that may be there or not.
        let mut written: Vec<[Option<u8>; 2]> = (0..PAGES)
            .map(|page| [Some(value(page, 0)), None])
            .collect();
        let done = move_and_write(&mut bench, &mut written).is_ok();
        bench.left = usize::MAX;
        let before = bench.devices.clone();
        let mut bench = open(&before, &[0, 1]);
        for page in 0..PAGES {
            let found = blocks(&mut bench, page);
            match &found[0] {
                BlockRead::Data { data, .. } => {
                    assert!(
                        written[page as usize].contains(&Some(data[0])),
                        "{requests} {page}: {}",
                        data[0]
                    );
                    stood_in += 1;
                }
                BlockRead::Bad { .. } => assert!(lacks(&bench), "{requests} {page}"),
                BlockRead::Zero => panic!("{requests} {page} is gone"),
            }
        }
        if done {
            assert!(requests > 100, "each step is cut short");
            assert!(stood_in > requests, "not everything was gone");
            return;
        }
    }
}

fn move_and_write(bench: &mut Bench, written: &mut [[Option<u8>; 2]]) -> Result<(), Off> {
    assert!(bench.add(2, Some(1))?.is_ok());
    for round in 1..4 {
        for page in 0..PAGES {
            let fill = value(page, 0) + 50 * round;
            let place = &mut written[page as usize];
            place[1] = Some(fill);
            write_fill(bench, page, fill)?;
            *place = [Some(fill), None];
            // It is destaged at once, or when pages have had their turn to move.
            bench.now += Duration::from_millis(2);
            bench.store.handle_timeout(bench.now, &mut bench.out);
            bench.work()?;
        }
        bench.rest()?;
    }
    Ok(())
}

/// The first block of a page.
fn write_fill(bench: &mut Bench, page: u32, fill: u8) -> Result<(), Off> {
    bench.append(SLICE, BlockRange::new(64 * page, 1), vec![fill; BLOCK_SIZE])
}

/// One that is absent leaves when nothing is lacking, or when that is given up.
#[test]
fn an_absent_device_leaves_when_nothing_of_it_is_lacking() {
    let full = Bench::filled().devices;
    let mut bench = open(&full, &[0]);
    let bad = bad_pages(&mut bench);
    let bytes = (bad.len() * PAGE_SIZE) as u64;
    let drain = DeviceOrder::Drain { ordinal: 1 };
    assert_eq!(bench.order(drain).unwrap(), Err(DeviceRefused::Absent));
    let refused = bench.order(remove(1)).unwrap();
    assert_eq!(refused, Err(DeviceRefused::Lacking { bytes }));
    // Another takes its place: it leaves by itself.
    assert_eq!(bench.add(2, Some(1)).unwrap(), Ok(2));
    let mut bench = open(&bench.devices, &[0, 2]);
    bench.rest().expect("there is power");
    assert_eq!(absent(&bench), [(1, false)]);
    join(&mut bench);
    for page in bad {
        write_whole(&mut bench, page);
        bench.rest().expect("there is power");
    }
    assert!(bench.is_exchanged(), "{:?}", bench.statuses());
    assert_eq!(bench.gone, [(None, 1)]);
    let bench = bench.reopened();
    let strays: Vec<Stray> = opened(&bench).strays.iter().map(|it| it.stray).collect();
    assert_eq!(strays, [Stray::Gone]);

    let mut bench = open(&full, &[0]);
    let gives_up = true;
    let order = DeviceOrder::Remove {
        ordinal: 1,
        gives_up,
    };
    assert_eq!(bench.order(order).unwrap(), Ok(1));
    let mut bench = bench.reopened();
    assert!(!lacks(&bench), "what is lacking is given up");
    assert!(!bad_pages(&mut bench).is_empty(), "and bad all the same");
}

/// The journal's device is brought back as it was while the other one was missing, after that one was back.
#[test]
fn an_older_copy_of_the_journal_is_refused_though_the_other_device_was_missing_then() {
    let full = Bench::filled().devices;
    let without = Bench::open_as(&full, &[0], 11);
    opened(&without);
    let older = without.devices[0].clone();
    let mut bench = Bench::open_as(&without.devices, &[0, 1], 12);
    assert!(!lacks(&bench));
    write_fill(&mut bench, 0, 251).expect("there is power");
    write_fill(&mut bench, 1, 251).expect("there is power");
    bench.rest().expect("there is power");
    let mut devices = bench.devices;
    devices[0] = older;
    let bench = Bench::open_as(&devices, &[0, 1], 13);
    assert!(
        matches!(bench.opened, Some(Err(OpenError::LaterDevice { disk, .. })) if disk.0 == 1),
        "{:?}",
        bench
            .opened
            .as_ref()
            .map(|it| it.as_ref().map(|it| it.use_counter))
    );
    // The store is opened with the older one, and goes on; the other device is not of that store any more.
    let bench = Bench::open_as(&devices, &[0], 14);
    opened(&bench);
    devices[0].clone_from(&bench.devices[0]);
    let bench = Bench::open_as(&devices, &[0, 1], 15);
    assert!(
        matches!(bench.opened, Some(Err(OpenError::LaterDevice { disk, .. })) if disk.0 == 1),
        "its use is a later one still"
    );
    devices[1].fill(0);
    let bench = Bench::open_as(&devices, &[0, 1], 16);
    opened(&bench);
    assert_eq!(absent(&bench), [(1, false)]);
}

/// A device that is back has older copies of what was brought without it, until they are cleared: what they say
/// is not to count when the device with the newer ones is missing, or fails, before that.
#[test]
fn what_is_back_is_not_taken_for_what_was_brought_meanwhile() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let lacking = bad_pages(&mut open(&bench.devices, &[0, 2]));
    // Without the second device its pages are brought, with other contents, to the third.
    let mut bench = open(&bench.devices, &[0, 2]);
    join(&mut bench);
    for page in &lacking {
        for block in (0..64).step_by(8) {
            let range = BlockRange::new(64 * page + block, 8);
            let data = vec![250; 8 * BLOCK_SIZE];
            bench.append(SLICE, range, data).expect("there is power");
        }
    }
    bench.rest().expect("there is power");
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    // It was used and stopped well: nothing is lacking.
    let mut again = open(&bench.devices, &[0, 2]);
    assert!(!lacks(&again));
    for page in &lacking {
        assert!(
            blocks(&mut again, *page)
                .iter()
                .all(|read| matches!(read, BlockRead::Data { data, .. } if data[0] == 250))
        );
    }
    let brought = again.devices;
    let mut stale = Vec::new();
    // The second device is back, and power fails while the store is opened.
    for requests in 0.. {
        let (devices, late) = cut_opening(&brought, &[0, 1, 2], requests);
        // Then the third is not there.
        let mut bench = open(&devices, &[0, 1]);
        for page in &lacking {
            for read in &blocks(&mut bench, *page)[..6] {
                match read {
                    BlockRead::Data { data, .. } if data[0] == 250 => {}
                    BlockRead::Bad { .. } => {}
                    _ => {
                        stale.push((requests, *page));
                        break;
                    }
                }
            }
        }
        if late {
            break;
        }
    }
    assert!(stale.is_empty(), "{} stale: {:?}", stale.len(), stale);
}

/// Load of another slice while a device is missing makes a replica that lacks a page one that lacks nothing and has
/// bad blocks, for good: with the device that is back, and without.
#[test]

fn load_while_a_device_is_missing_makes_no_bad_blocks_of_what_is_on_it() {
    let mut full = Bench::filled();
    assert_eq!(full.add(2, None).expect("there is power"), Ok(2));
    let page = bad_pages(&mut open(&full.devices, &[0, 2]))[0];
    // Power fails before this is in its place.
    write_fill(&mut full, page, value(page, 0)).expect("there is power");
    // It is known to be committed by the next one.
    write_fill(&mut full, page + 1, value(page + 1, 0)).expect("there is power");
    let mut bench = open(&full.devices, &[0, 2]);
    assert!(lacks(&bench));
    // Hosts write to a slice that lacks nothing.
    for place in 0..12 {
        let range = BlockRange::new(8 * place, 8);
        let sequence = bench.begin(OTHER, range, vec![9; 8 * BLOCK_SIZE]);
        bench.store.set_committed(bench.now, OTHER, sequence);
    }
    bench.rest().expect("there is power");
    let mut back = open(&bench.devices, &[0, 1, 2]);
    let (lacks, bad) = (lacks(&back), bad_pages(&mut back));
    assert!(bad.is_empty() || lacks, "lacks {lacks}, bad {bad:?}");
}

fn write_other(bench: &mut Bench, page: u32, fill: u8) {
    let range = BlockRange::new(64 * page, 8);
    let data = vec![fill; 8 * BLOCK_SIZE];
    bench.append(OTHER, range, data).expect("there is power");
}

/// How many writes to pages that have their slots become durable while a device is missing, and the others are full.
fn writes_without_a_device(has_remainder: bool) -> Option<u32> {
    let devices = [FIRST_BYTES, DATA_BYTES].map(|bytes| vec![0; bytes as usize]);
    let mut bench = Bench::create(devices.into());
    // All slots but one are taken; those of the other slice on the first device, some of them.
    for page in 0..11 {
        if page % 2 == 0 {
            bench.write_page(page);
            bench.rest().expect("there is power");
            write_other(&mut bench, page, 1);
        } else {
            write_other(&mut bench, page, 1);
            bench.rest().expect("there is power");
            bench.write_page(page);
        }
        bench.rest().expect("there is power");
    }
    for page in 11..13 {
        bench.write_page(page);
        bench.rest().expect("there is power");
    }
    assert_eq!(bench.store.usage().pages_used, 24);
    let on_second = |bench: &mut Bench| {
        let mut it = open(&bench.devices, &[0]);
        let pages: Vec<u32> = (0..11)
            .filter(|page| blocks(&mut it, *page).iter().any(is_bad))
            .collect();
        pages
    };
    let page = on_second(&mut bench)[0];
    if has_remainder {
        // Power fails before this is in its place.
        write_fill(&mut bench, page, 77).expect("there is power");
        write_fill(&mut bench, page, 78).expect("there is power");
    }
    let mut bench = open(&bench.devices, &[0]);
    assert!(lacks(&bench));
    let usage = bench.store.usage();
    assert_eq!((usage.pages, usage.pages_used), (8, 8));
    let bad = bench.store.bad_blocks(OTHER);
    let sound = (0..11).find(|page| !bad.contains_key(&PageIndex(*page)));
    let sound = sound.expect("one is on the first device");
    for number in 0..200 {
        write_other(&mut bench, sound, number as u8);
        for _ in 0..10 {
            bench.rest().expect("there is power");
        }
        if bench.store.oldest_unfinished_append().is_some() {
            return Some(number);
        }
    }
    // When the device is back all is there, with what was in the journal.
    let mut bench = open(&bench.devices, &[0, 1]);
    assert!(!lacks(&bench));
    for other in 0..13 {
        let expected = match other == page && has_remainder {
            true => 78,
            false => value(other, 0),
        };
        let found = blocks(&mut bench, other);
        assert!(matches!(&found[0], BlockRead::Data { data, .. } if data[0] == expected));
    }
    None
}

#[test]

fn writes_go_on_while_a_device_is_missing_and_the_others_are_full() {
    assert_eq!(writes_without_a_device(false), None);
    assert_eq!(writes_without_a_device(true), None);
}

/// New pages were promised slots of a device that is missing before they have any, and none of which was used: the
/// others are full.
#[test]
fn writes_go_on_when_what_new_pages_were_promised_is_missing() {
    let devices = [FIRST_BYTES, DATA_BYTES].map(|bytes| vec![0; bytes as usize]);
    let mut bench = Bench::create_on(devices.into(), &[0], JOURNAL_BYTES);
    for page in 0..8 {
        write_other(&mut bench, page, 1);
        bench.rest().expect("there is power");
    }
    assert_eq!(bench.store.usage().pages_used, 8);
    assert_eq!(bench.add(1, None).expect("there is power"), Ok(1));
    // Power fails before these are in their places.
    for page in 0..2 {
        bench.write_page(page);
    }
    let mut bench = open(&bench.devices, &[0]);
    assert!(!lacks(&bench));
    assert_eq!(bench.store.usage().pages, 8);
    let prepared = bench.store.prepared(SLICE).1;
    bench.store.set_committed(bench.now, SLICE, prepared);
    for number in 0..200 {
        write_other(&mut bench, 0, number as u8);
        for _ in 0..3 {
            bench.rest().expect("there is power");
        }
        assert_eq!(bench.store.oldest_unfinished_append(), None, "{number}");
    }
    // No more than was promised.
    let range = BlockRange::new(64 * 2, 1);
    assert!(bench.store.reserve(SLICE, range).is_err());
    for given in [&[0][..], &[0, 1]] {
        bench = open(&bench.devices, given);
        bench.rest().expect("there is power");
        for page in 0..2 {
            let found = blocks(&mut bench, page);
            for (block, read) in (0..6).zip(found) {
                let expected = value(page, block);
                assert!(matches!(read, BlockRead::Data { data, .. } if data[0] == expected));
            }
        }
    }
    assert_eq!(bench.store.usage().dirty_bytes, 0);
    assert_eq!(bench.store.usage().pages_used, 10);
}
