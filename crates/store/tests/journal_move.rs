//! The journal moves to another device, wherever that is cut short, whatever fails and whatever is missing then.

use holdfast_format::{DeviceState, JournalMark, SUPERBLOCK_OFFSETS, Superblock};
use holdfast_model::{BLOCK_SIZE, BlockRange, DiskId, PAGE_SIZE, Sequence, Tier};
use holdfast_store::{DeviceOrder, DeviceRefused, OpenError, StoreToken};

use crate::bench;
use crate::bench::{
    Bench, DATA_BYTES, Devices, FIRST_BYTES, JOURNAL_BYTES, OTHER, Off, PAGES, SLICE, geometry,
    open, remove,
};

/// Requests after which the next entry is appended.
const APPEND_EVERY: usize = 7;

/// The disk with the journal.
fn journal(bench: &Bench) -> u16 {
    let statuses = bench.statuses();
    let here: Vec<u16> = statuses
        .iter()
        .filter(|device| device.journal == JournalMark::Here)
        .map(|device| device.disk.expect("it is there").0)
        .collect();
    let [disk] = here[..] else {
        panic!("one device has the journal: {statuses:?}");
    };
    disk
}

/// Works while another slice is written to, until nothing but that is left to be done. Gives the last entry that
/// was reported durable.
fn work_under_load(bench: &mut Bench, acknowledged: &mut Sequence) -> Result<(), Off> {
    let mut requests = 0;
    loop {
        let in_flight = bench.store.prepared(OTHER).1 > *acknowledged;
        if !in_flight && requests % APPEND_EVERY == 0 {
            let range = BlockRange::new(requests as u32 % 64, 1);
            let prepared = bench.store.prepared(OTHER).1;
            bench.store.set_committed(bench.now, OTHER, prepared);
            bench.begin(OTHER, range, vec![7; BLOCK_SIZE]);
        }
        if bench.checks && requests < 200 {
            bench.store.check_journal();
            bench.store.check_piece(&mut bench.out);
        }
        requests += 1;
        let done = bench.go_on();
        for StoreToken(sequence) in bench.durable.drain(..) {
            *acknowledged = (*acknowledged).max(Sequence(sequence));
        }
        if !done? && requests > 200 && bench.store.prepared(OTHER).1 == *acknowledged {
            return Ok(());
        }
    }
}

/// A new device takes the place of the one with the journal, under load; goes on where it was cut short.
fn replace_under_load(bench: &mut Bench, acknowledged: &mut Sequence) -> Result<(), Off> {
    if bench.status(2).is_none() {
        let ordinal = bench.status(0).expect("it is there").ordinal;
        let geometry = geometry(&bench.devices, 2);
        let order = DeviceOrder::Add {
            geometry,
            id: 1002,
            replaces: Some(ordinal),
            journal_room: false,
        };
        let token = StoreToken(u64::MAX >> 1);
        bench
            .store
            .order_device(bench.now, order, token, &mut bench.out);
        work_under_load(bench, acknowledged)?;
        assert!(matches!(bench.ordered.pop(), Some(Ok(_))));
    }
    while bench.status(0).is_some() {
        work_under_load(bench, acknowledged)?;
        bench.rest()?;
    }
    Ok(())
}

fn replace(bench: &mut Bench) -> Result<(), Off> {
    if bench.status(2).is_none() {
        let ordinal = bench.status(0).expect("it is there").ordinal;
        assert!(bench.add(2, Some(ordinal))?.is_ok());
    }
    while bench.status(0).is_some() {
        bench.rest()?;
    }
    Ok(())
}

/// The devices of a store while its first is replaced under load, as a power failure leaves them after so many
/// requests, with the last entry that was acknowledged; nothing if it is over by then.
fn cut(full: &Devices, requests: usize) -> Option<(Devices, Sequence)> {
    let mut bench = open(full, &[0, 1]);
    bench.left = requests;
    let mut acknowledged = bench.store.prepared(OTHER).1;
    let done = replace_under_load(&mut bench, &mut acknowledged).is_ok();
    (!done).then_some((bench.devices, acknowledged))
}

fn has(bench: &Bench, acknowledged: Sequence) {
    let prepared = bench.store.prepared(OTHER).1;
    assert!(prepared >= acknowledged, "{prepared} of {acknowledged}");
}

/// A store whose journal may move: one page is in the other slice.
fn filled() -> Devices {
    let mut bench = Bench::filled();
    let range = BlockRange::new(0, 1);
    let written = bench.append(OTHER, range, vec![7; BLOCK_SIZE]);
    written.expect("there is power");
    bench.rest().expect("there is power");
    bench.devices
}

#[test]
fn the_journals_device_is_replaced_wherever_that_is_cut_short() {
    let full = filled();
    let mut moved = 0;
    for requests in 0.. {
        let Some((devices, acknowledged)) = cut(&full, requests) else {
            assert!(requests > 90, "each step is cut short: {requests}");
            assert!(moved > 20, "it moves long before the end");
            return;
        };
        let mut bench = open(&devices, &[0, 1, 2]);
        assert!(
            matches!(bench.opened, Some(Ok(_))),
            "{requests}: {:?}",
            bench.opened
        );
        has(&bench, acknowledged);
        moved += u32::from(journal(&bench) == 2);
        bench.check();
        // It goes on by itself, if the order was durable.
        replace(&mut bench).expect("there is power");
        assert_eq!(journal(&bench), 2);
        bench.check();
        let mut bench = bench.reopened();
        has(&bench, acknowledged);
        assert_eq!(journal(&bench), 2);
        let disks: Vec<Option<DiskId>> = bench.statuses().iter().map(|it| it.disk).collect();
        assert_eq!(disks, [Some(DiskId(1)), Some(DiskId(2))]);
        bench.check();
    }
}

/// Without one of the two devices the store is opened with all that was acknowledged, or not at all; and what is
/// acknowledged then is there when both are.
#[test]
fn whichever_device_is_missing_after_a_cut_nothing_is_lost() {
    let full = filled();
    let (mut refused, mut without) = ([0; 2], [0; 2]);
    for requests in 0.. {
        let Some((devices, acknowledged)) = cut(&full, requests) else {
            break;
        };
        for (place, missing) in [0_u16, 2].into_iter().enumerate() {
            let there: Vec<u16> = (0..3).filter(|disk| *disk != missing).collect();
            let mut bench = open(&devices, &there);
            let mut acknowledged = acknowledged;
            match &bench.opened {
                Some(Ok(_)) => {
                    has(&bench, acknowledged);
                    without[place] += 1;
                    let range = BlockRange::new(3, 1);
                    let is_written = bench.append(OTHER, range, vec![9; BLOCK_SIZE]);
                    is_written.expect("there is power");
                    acknowledged = bench.store.prepared(OTHER).1;
                }
                Some(Err(OpenError::MissingDevice { .. })) => refused[place] += 1,
                // The other one is not the store's yet.
                Some(Err(OpenError::Blank { .. } | OpenError::BadSuperblocks { .. })) => {}
                other => panic!("{requests}, without {missing}: {other:?}"),
            }
            // And then without the other one.
            let others: Vec<u16> = (0..3).filter(|disk| *disk != 2 - missing).collect();
            let other = open(&bench.devices, &others);
            if let Some(Ok(_)) = &other.opened {
                has(&other, acknowledged);
            }
            let mut bench = open(&bench.devices, &[2, 1, 0]);
            assert!(
                matches!(bench.opened, Some(Ok(_))),
                "{requests}, with {missing} again: {:?}",
                bench.opened
            );
            has(&bench, acknowledged);
            bench.check();
        }
    }
    // Before the announcement the old one is needed, and the new one is not; after the switch it is the other way
    // round; and both in between.
    assert!(
        refused.iter().chain(&without).all(|it| *it > 3),
        "{refused:?} {without:?}"
    );
}

/// One of the devices fails at each moment of the move.
#[test]
fn whichever_device_fails_meanwhile_nothing_is_lost() {
    let full = filled();
    for broken in [0, 1, 2] {
        for requests in 0..110 {
            let mut bench = open(&full, &[0, 1]);
            let mut acknowledged = bench.store.prepared(OTHER).1;
            bench.breaks = Some((requests, DiskId(broken)));
            fail_while_replaced(&mut bench, &mut acknowledged);
            for missing in [0, 2] {
                without_and_with(&bench.devices, missing, acknowledged);
            }
            // In whichever order they are found.
            let mut bench = open(&bench.devices, &[2, 1, 0]);
            assert!(
                matches!(bench.opened, Some(Ok(_))),
                "{broken} fails after {requests}: {:?}",
                bench.opened
            );
            has(&bench, acknowledged);
            let is_here = bench.status(broken).is_some();
            if is_here && broken != 1 {
                bench.check();
                replace(&mut bench).expect("there is power");
                bench.check();
            }
        }
    }
}

/// Without one of the devices the store is opened with what was acknowledged, or not at all; and what is acknowledged then
/// is there when all are.
fn without_and_with(devices: &Devices, missing: u16, acknowledged: Sequence) {
    let there: Vec<u16> = (0..3).filter(|disk| *disk != missing).collect();
    let mut bench = open(devices, &there);
    let mut acknowledged = acknowledged;
    if let Some(Ok(_)) = &bench.opened {
        has(&bench, acknowledged);
        let is_written = bench.append(OTHER, BlockRange::new(3, 1), vec![9; BLOCK_SIZE]);
        is_written.expect("there is power");
        acknowledged = bench.store.prepared(OTHER).1;
        let alone = open(&bench.devices, &[missing]);
        if let Some(Ok(_)) = &alone.opened {
            has(&alone, acknowledged);
        }
    }
    let bench = open(&bench.devices, &[0, 1, 2]);
    let opened = &bench.opened;
    assert!(
        matches!(opened, Some(Ok(_))),
        "with {missing} again: {opened:?}"
    );
    has(&bench, acknowledged);
}

/// Has the journal's device replaced under load, until a device fails.
fn fail_while_replaced(bench: &mut Bench, acknowledged: &mut Sequence) {
    let geometry = geometry(&bench.devices, 2);
    let order = DeviceOrder::Add {
        geometry,
        id: 1002,
        replaces: Some(0),
        journal_room: false,
    };
    let token = StoreToken(u64::MAX >> 1);
    bench
        .store
        .order_device(bench.now, order, token, &mut bench.out);
    for _ in 0..2000 {
        if bench.failed.is_some() {
            bench.work().expect("there is power");
            return;
        }
        let in_flight = bench.store.prepared(OTHER).1 > *acknowledged;
        if !in_flight {
            let prepared = bench.store.prepared(OTHER).1;
            bench.store.set_committed(bench.now, OTHER, prepared);
            bench.begin(OTHER, BlockRange::new(5, 1), vec![7; BLOCK_SIZE]);
        }
        let is_busy = bench.go_on().expect("there is power");
        for StoreToken(sequence) in bench.durable.drain(..) {
            *acknowledged = (*acknowledged).max(Sequence(sequence));
        }
        if !is_busy {
            bench.now += holdfast_stdx::Duration::from_millis(1);
            bench.store.handle_timeout(bench.now, &mut bench.out);
        }
    }
}

/// An older copy of the device that had the journal, or of the one that got it, is found out.
#[test]
fn older_copies_of_before_the_move_are_refused() {
    let full = filled();
    let mut bench = open(&full, &[0, 1]);
    assert_eq!(add_with_room(&mut bench), Ok(2));
    let bench = bench.reopened();
    let before = bench.devices.clone();
    let mut bench = bench.reopened();
    assert_eq!(drain(&mut bench, 0), Ok(0));
    bench.rest().expect("there is power");
    assert_eq!(journal(&bench), 2);
    bench.check();
    let after = bench.devices.clone();
    for older in 0..3 {
        let mut devices = after.clone();
        devices[older].clone_from(&before[older]);
        let bench = open(&devices, &[0, 1, 2]);
        let refused = bench.opened.expect("it fails");
        assert!(
            matches!(refused, Err(OpenError::OlderDevice { disk, .. }) if usize::from(disk.0) == older),
            "{older}: {refused:?}"
        );
    }
    // Beside one that knows of the move, and without the one with the journal.
    let mut devices = after;
    devices[0].clone_from(&before[0]);
    let bench = open(&devices, &[0, 1]);
    assert!(matches!(
        bench.opened,
        Some(Err(OpenError::OlderDevice {
            disk: DiskId(0),
            ..
        }))
    ));
}

fn add_with_room(bench: &mut Bench) -> Result<u16, DeviceRefused> {
    let geometry = geometry(&bench.devices, 2);
    let order = DeviceOrder::Add {
        geometry,
        id: 1002,
        replaces: None,
        journal_room: true,
    };
    bench.order(order).expect("there is power")
}

fn drain(bench: &mut Bench, ordinal: u16) -> Result<u16, DeviceRefused> {
    let drained = bench.order(DeviceOrder::Drain { ordinal });
    drained.expect("there is power")
}

fn resume(bench: &mut Bench, ordinal: u16) -> Result<u16, DeviceRefused> {
    let resumed = bench.order(DeviceOrder::Resume { ordinal });
    resumed.expect("there is power")
}

/// The journal goes to a device that has room for it, and back, and each time everything is there.
#[test]
fn the_journal_moves_to_and_fro() {
    let mut bench = open(&filled(), &[0, 1]);
    assert_eq!(drain(&mut bench, 0), Err(DeviceRefused::Journal));
    assert_eq!(add_with_room(&mut bench), Ok(2));
    for round in 0..4 {
        let (from, to) = if round % 2 == 0 { (0, 2) } else { (2, 0) };
        assert_eq!(journal(&bench), from);
        let bytes = match bench.order(remove(from)).expect("there is power") {
            Err(DeviceRefused::NotEmpty { bytes }) => bytes,
            other => panic!("it has the journal: {other:?}"),
        };
        assert!(bytes >= JOURNAL_BYTES);
        assert_eq!(drain(&mut bench, from), Ok(from));
        bench.rest().expect("there is power");
        assert_eq!(journal(&bench), to);
        bench = bench.reopened();
        assert_eq!(journal(&bench), to);
        bench.rest().expect("there is power");
        assert_eq!(bench.status(from).expect("it is there").pages_used, 0);
        for page in 0..PAGES {
            bench.write_page(page);
        }
        bench.check();
        assert_eq!(resume(&mut bench, from), Ok(from));
    }
    // It leaves from its new place, too; number 0 has left before.
    assert_eq!(drain(&mut bench, 2), Ok(2));
    bench.rest().expect("there is power");
    assert_eq!(bench.order(remove(2)).expect("there is power"), Ok(2));
    bench.reopened().check();
}

/// A store of one device has that exchanged; then its number is not 0 any more.
#[test]
fn the_only_device_is_exchanged_again_and_again() {
    let large = (FIRST_BYTES + JOURNAL_BYTES) as usize;
    let mut bench = Bench::create_on(
        vec![
            vec![0; FIRST_BYTES as usize],
            vec![0; large],
            vec![0; large],
        ],
        &[0],
        JOURNAL_BYTES,
    );
    let range = |page: u32| BlockRange::new(64 * page, 1);
    for page in 0..6 {
        bench
            .append(SLICE, range(page), vec![page as u8 + 1; BLOCK_SIZE])
            .expect("there is power");
    }
    for (number, (old, new)) in [(0_u16, 1_u16), (1, 2), (2, 0), (0, 1)]
        .into_iter()
        .enumerate()
    {
        let ordinal = bench.status(old).expect("it is there").ordinal;
        assert_eq!(
            bench.add(new, Some(ordinal)).unwrap(),
            Ok(number as u16 + 1)
        );
        for _ in 0..5 {
            bench.rest().expect("there is power");
        }
        assert_eq!(bench.gone.pop(), Some((Some(DiskId(old)), ordinal)));
        bench = Bench::open(bench.devices, &[new], usize::MAX).expect("there is power");
        assert!(matches!(bench.opened, Some(Ok(_))), "{:?}", bench.opened);
        assert_eq!(journal(&bench), new);
        for page in 0..6 {
            let read = bench::blocks(&mut bench, page);
            assert!(
                matches!(&read[0], holdfast_store::BlockRead::Data { data, .. } if data[0] == page as u8 + 1),
                "{read:?}"
            );
        }
        // Its superblocks are zeros: it may come back.
        for offset in SUPERBLOCK_OFFSETS {
            let at = offset as usize;
            assert!(
                bench.devices[usize::from(old)][at..at + 4096]
                    .iter()
                    .all(|it| *it == 0)
            );
        }
    }
}

/// A drain that is called off before the announcement leaves the journal where it is, and afterwards where it goes.
#[test]
fn a_move_is_called_off_at_any_moment() {
    let full = filled();
    let mut bench = open(&full, &[0, 1]);
    assert_eq!(add_with_room(&mut bench), Ok(2));
    let full = bench.devices;
    let mut ends = [0; 2];
    for requests in 0..150 {
        let mut bench = open(&full, &[0, 1, 2]);
        let (order, token) = (DeviceOrder::Drain { ordinal: 0 }, StoreToken(1 << 40));
        bench
            .store
            .order_device(bench.now, order, token, &mut bench.out);
        for _ in 0..requests {
            bench.go_on().expect("there is power");
        }
        let (order, token) = (DeviceOrder::Resume { ordinal: 0 }, StoreToken(1 << 41));
        bench
            .store
            .order_device(bench.now, order, token, &mut bench.out);
        bench.work().expect("there is power");
        bench.rest().expect("there is power");
        assert_eq!(bench.ordered, [Ok(0), Ok(0)]);
        let end = journal(&bench);
        ends[usize::from(end == 2)] += 1;
        for page in 0..PAGES {
            bench.write_page(page);
        }
        let mut bench = bench.reopened();
        assert_eq!(journal(&bench), end);
        assert!(
            bench
                .statuses()
                .iter()
                .all(|it| it.state == DeviceState::InUse)
        );
        bench.check();
        // Once more, and this time to the end.
        let other = 2 - end;
        assert_eq!(drain(&mut bench, end), Ok(end));
        bench.rest().expect("there is power");
        assert_eq!(journal(&bench), other);
        bench.reopened().check();
    }
    assert!(ends.iter().all(|it| *it > 10), "{ends:?}");
}

#[test]
fn the_journal_goes_only_where_it_can() {
    let mut bench = open(&filled(), &[0, 1]);
    let mut capacity = geometry(&bench.devices, 2);
    capacity.tier = Tier::Capacity;
    for (replaces, journal_room) in [(Some(0), false), (None, true)] {
        let order = DeviceOrder::Add {
            geometry: capacity,
            id: 5,
            replaces,
            journal_room,
        };
        let refused = bench.order(order).expect("there is power");
        assert_eq!(refused, Err(DeviceRefused::NotFlash));
    }
    // It is as large as what it replaces, but has no room for the journal besides.
    let small = (2 << 20) + JOURNAL_BYTES as usize;
    bench.devices[2].truncate(small);
    let refused = bench.add(2, Some(0)).expect("there is power");
    assert!(
        matches!(refused, Err(DeviceRefused::TooSmall { .. })),
        "{refused:?}"
    );
    bench.devices[2].resize(DATA_BYTES as usize, 0);
    // A device that is being drained is no place for it.
    assert_eq!(add_with_room(&mut bench), Ok(2));
    let decoded = Superblock::decode(&bench.devices[2][..4096]).expect("a superblock");
    assert_eq!(decoded.layout.journal_bytes(), JOURNAL_BYTES);
    assert_eq!(drain(&mut bench, 2), Ok(2));
    assert_eq!(drain(&mut bench, 0), Err(DeviceRefused::Journal));
    assert_eq!(bench.order(remove(0)).unwrap(), Err(DeviceRefused::Journal));
    assert_eq!(resume(&mut bench, 2), Ok(2));
    // On its way it needs where it goes.
    let order = DeviceOrder::Drain { ordinal: 0 };
    let (now, token) = (bench.now, StoreToken(1));
    bench.store.order_device(now, order, token, &mut bench.out);
    let order = DeviceOrder::Drain { ordinal: 2 };
    bench.store.order_device(now, order, token, &mut bench.out);
    bench.work().expect("there is power");
    assert_eq!(bench.ordered, [Ok(0), Err(DeviceRefused::Journal)]);
    assert_eq!(journal(&bench), 2);
    bench.check();
}

/// The only device that the journal on its way can go to is not replaced by one that has no room for it.
#[test]
fn the_journals_only_other_place_is_not_replaced_by_a_device_that_is_none() {
    let mut bench = open(&filled(), &[0, 1]);
    assert_eq!(add_with_room(&mut bench), Ok(2));
    bench.devices.push(vec![0; DATA_BYTES as usize]);
    let mut capacity = geometry(&bench.devices, 3);
    capacity.tier = Tier::Capacity;
    let orders = [
        DeviceOrder::Drain { ordinal: 0 },
        DeviceOrder::Add {
            geometry: capacity,
            id: 1003,
            replaces: Some(2),
            journal_room: false,
        },
    ];
    for order in orders {
        let (now, token) = (bench.now, StoreToken(1));
        bench.store.order_device(now, order, token, &mut bench.out);
    }
    bench.work().expect("there is power");
    assert_eq!(bench.ordered, [Ok(0), Err(DeviceRefused::Journal)]);
    bench.rest().expect("there is power");
    assert_eq!(journal(&bench), 2);
    bench.check();
    // It does not need that place any more when it is on a third device.
    let mut flash = geometry(&bench.devices, 3);
    flash.bytes += JOURNAL_BYTES;
    bench.devices[3].resize(flash.bytes as usize, 0);
    let order = DeviceOrder::Add {
        geometry: flash,
        id: 1003,
        replaces: Some(2),
        journal_room: false,
    };
    assert_eq!(bench.order(order).expect("there is power"), Ok(3));
    bench.rest().expect("there is power");
    assert_eq!(journal(&bench), 3);
    bench.check();
}

/// The device that the journal was to go to fails before it does, or is missing: what has to leave the store leaves it,
/// and the journal waits for another place.
#[test]
fn what_is_to_leave_leaves_though_the_journal_has_lost_its_next_place() {
    let mut bench = open(&filled(), &[0, 1]);
    let larger = DATA_BYTES + JOURNAL_BYTES;
    bench.devices.push(vec![0; larger as usize]);
    // The second order comes while the journal is where it was.
    for (disk, replaces) in [(2, 0), (3, 2)] {
        let order = DeviceOrder::Add {
            geometry: geometry(&bench.devices, disk),
            id: 1000 + u64::from(disk),
            replaces: Some(replaces),
            journal_room: false,
        };
        let (now, token) = (bench.now, StoreToken(1));
        bench.store.order_device(now, order, token, &mut bench.out);
    }
    while bench.ordered.len() < 2 {
        assert!(bench.go_on().expect("there is power"), "it is carried out");
    }
    assert_eq!(bench.ordered, [Ok(2), Ok(3)]);
    assert_eq!(journal(&bench), 0);
    let missing = open(&bench.devices, &[0, 1, 2]);
    bench.broken = Some(DiskId(3));
    bench.rest().expect("there is power");
    assert_eq!(bench.failed, Some((DiskId(3), true)));
    let lost = open(&bench.devices, &[0, 1, 2, 3]);
    for mut bench in [missing, lost] {
        for _ in 0..5 {
            bench.rest().expect("there is power");
        }
        assert_eq!(bench.status(2), None);
        assert_eq!(journal(&bench), 0);
        let mut bench = open(&bench.devices, &[0, 1]);
        assert_eq!(journal(&bench), 0);
        bench.check();
    }
}

/// The journal is checked all the time, while it is written to, trimmed, and moves: nothing of it is taken for bad.
#[test]
fn a_journal_that_moves_is_not_taken_for_a_bad_one() {
    let mut bench = Bench::filled();
    bench.checks = true;
    let mut acknowledged = Sequence(0);
    replace_under_load(&mut bench, &mut acknowledged).expect("there is power");
    for _ in 0..20 {
        work_under_load(&mut bench, &mut acknowledged).expect("there is power");
        bench.rest().expect("there is power");
    }
    assert_eq!(journal(&bench), 2);
    assert_eq!(bench.rotten, []);
    assert!(bench.store.usage().journal.rounds > 3);
}

/// The first device is drained, the one that its journal was to go to is absent, and nothing is anywhere yet.
#[test]
fn the_last_device_that_takes_anything_does_not_go() {
    let mut seen = 0;
    for left in 1..60 {
        let devices = Devices::from([
            vec![0; FIRST_BYTES as usize],
            vec![0; DATA_BYTES as usize],
            vec![0; FIRST_BYTES as usize],
        ]);
        let mut bench = Bench::create(devices);
        let geometry = geometry(&bench.devices, 2);
        let add = DeviceOrder::Add {
            geometry,
            id: 1002,
            replaces: None,
            journal_room: true,
        };
        assert_eq!(bench.order(add).unwrap(), Ok(2));
        bench.left = left;
        let drain = |ordinal| DeviceOrder::Drain { ordinal };
        if bench.order(drain(0)).is_ok() && bench.rest().is_ok() {
            break;
        }
        let devices = core::mem::take(&mut bench.devices);
        let Ok(mut bench) = Bench::open(devices, &[0, 1], usize::MAX) else {
            continue;
        };
        if !matches!(bench.opened, Some(Ok(_))) {
            continue;
        }
        let first = bench.status(0).map(|status| (status.state, status.journal));
        if first == Some((DeviceState::Draining, JournalMark::Here)) {
            seen += 1;
            let no_room = Err(DeviceRefused::NoRoom {
                bytes: PAGE_SIZE as u64,
                bytes_free: 0,
            });
            assert_eq!(bench.order(remove(1)).unwrap(), no_room);
            assert_eq!(bench.order(drain(1)).unwrap(), no_room);
        }
    }
    assert!(seen > 0);
}
