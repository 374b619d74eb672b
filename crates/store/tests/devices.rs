//! Devices that come and go, wherever that is cut short, and what is refused.

use holdfast_format::{DeviceState, SUPERBLOCK_OFFSETS, Superblock};
use holdfast_model::{BLOCK_SIZE, BlockRange, ClusterId, DiskId, NodeId, PAGE_SIZE, StoreId};

use holdfast_store::{BlockRead, DeviceOrder, DeviceRefused, Recovered, Stray};

use crate::bench::{Bench, DATA_BYTES, Off, PAGES, SLICE, blocks, open, remove, value};

/// Cuts the power after each request of what is done, which then goes on after a start.
fn cut_short_everywhere(run: fn(&mut Bench) -> Result<(), Off>) {
    let full = Bench::filled().devices;
    for requests in 0.. {
        let Ok(mut bench) = Bench::open(full.clone(), &[0, 1], usize::MAX) else {
            unreachable!("there is power");
        };
        bench.left = requests;
        let done = run(&mut bench).is_ok();
        bench.left = usize::MAX;
        let mut bench = bench.reopened();
        bench.check();
        run(&mut bench).expect("there is power");
        assert!(bench.is_exchanged(), "{requests}: {:?}", bench.statuses());
        bench.check();
        let usage = bench.store.usage();
        assert_eq!((usage.pages, usage.pages_used), (24, u64::from(PAGES)));
        // It is blank, unless the power failed just then, and no part of the store.
        let mut bench = bench.reopened();
        let Some(Ok(Recovered { strays, .. })) = &bench.opened else {
            unreachable!("it was opened");
        };
        let [stray] = strays[..] else {
            panic!("one device is none of the store's: {strays:?}");
        };
        assert_eq!(stray.disk, DiskId(1));
        match stray.stray {
            Stray::Blank | Stray::Gone => {}
            // The power failed while its last superblock became zeros: an operator makes it blank.
            Stray::Unreadable if !done => bench.devices[1][..2 << 20].fill(0),
            other => panic!("{requests}: {other:?}"),
        }
        assert!(bench.is_exchanged());
        bench.check();
        // What left may come back, under a new number.
        let ordinal = bench.add(1, None).expect("there is power");
        assert!(matches!(ordinal, Ok(3..=4)), "{ordinal:?}");
        if done {
            assert!(requests > 40, "each step is cut short");
            return;
        }
    }
}

#[test]
fn add_drain_and_remove_are_gone_on_with_wherever_they_are_cut_short() {
    cut_short_everywhere(Bench::exchange);
}

#[test]
fn replace_is_gone_on_with_wherever_it_is_cut_short() {
    cut_short_everywhere(Bench::replace);
}

/// One copy of a superblock has rotted since the store was opened, and the power fails while the other gets a new
/// list: there is always a good one.
#[test]
fn an_order_that_is_cut_short_tears_no_superblock_beside_a_rotten_one() {
    let full = Bench::filled().devices;
    for place in 0..2 {
        for offset in SUPERBLOCK_OFFSETS {
            for requests in 0.. {
                let mut bench = open(&full, &[0, 1, 2]);
                bench.devices[place][offset as usize + 100] ^= 1;
                bench.left = requests;
                let done = bench.add(2, None).is_ok();
                bench.left = usize::MAX;
                bench.reopened().check();
                if done {
                    assert!(requests > 8, "each copy of each superblock is written");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_drain_goes_on_by_itself_and_beside_writes() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).expect("there is power"), Ok(2));
    let drained = bench.order(DeviceOrder::Drain { ordinal: 1 });
    assert_eq!(drained.expect("there is power"), Ok(1));
    let mut bench = bench.reopened();
    for round in 0.. {
        for page in 0..PAGES {
            bench.write_page(page);
        }
        bench.store.handle_timeout(bench.now, &mut bench.out);
        bench.work().expect("there is power");
        if bench.status(1).expect("it is there").pages_used == 0 {
            break;
        }
        assert!(round < 200, "pages have their turn to move");
    }
    bench.check();
}

/// What is bad is counted where it is, until it is known to be good, or something newer counts.
#[test]
fn bad_blocks_are_counted_by_the_device_that_they_are_on() {
    let mut bench = Bench::filled();
    let pages = (0..PAGES).filter(|page| {
        let block = [value(*page, 0); BLOCK_SIZE];
        let mut sectors = bench.devices[1].chunks_exact_mut(512);
        // Each block is on one device, and in the journal, which is on the other one.
        let found = sectors.position(|sector| sector == &block[..512]);
        found
            .inspect(|at| bench.devices[1][at * 512] ^= 1)
            .is_some()
    });
    let pages: Vec<u32> = pages.collect();
    assert!(pages.len() > 1, "{pages:?}");
    let counts = |bench: &Bench| {
        let statuses = bench.statuses().into_iter();
        let counts: Vec<u64> = statuses.map(|device| device.bad_blocks).collect();
        let masks = bench.store.bad_blocks(SLICE).into_values();
        let all: u32 = masks.map(u64::count_ones).sum();
        assert_eq!(counts.iter().sum::<u64>(), u64::from(all));
        counts
    };
    assert_eq!(counts(&bench), [0, 0], "nobody has read them");
    for page in &pages {
        let found = blocks(&mut bench, *page);
        assert!(matches!(found[0], BlockRead::Bad { .. }), "{page}");
    }
    let bad = pages.len() as u64;
    assert_eq!(counts(&bench), [0, bad]);
    bench.write(pages[0], 0..1);
    // The next one says in the journal that this one is committed.
    bench.write(pages[1], 1..2);
    assert_eq!(counts(&bench), [0, bad - 1], "it is in the journal");
    bench.rest().expect("there is power");
    for page in &pages {
        blocks(&mut bench, *page);
    }
    assert_eq!(counts(&bench), [0, bad - 1], "it is in its place again");
}

#[test]
fn what_would_lose_something_is_refused_with_the_reason() {
    let mut bench = Bench::filled();
    let drain = |ordinal| DeviceOrder::Drain { ordinal };
    let mut refused = |order| bench.order(order).expect("there is power").unwrap_err();
    assert_eq!(refused(drain(0)), DeviceRefused::Journal);
    assert_eq!(refused(remove(0)), DeviceRefused::Journal);
    assert_eq!(refused(drain(7)), DeviceRefused::Unknown { ordinal: 7 });
    let used = bench.status(1).expect("it is there").pages_used;
    let free = 8 - (u64::from(PAGES) - used);
    let no_room = DeviceRefused::NoRoom {
        bytes: used * PAGE_SIZE as u64,
        bytes_free: free * PAGE_SIZE as u64,
    };
    let mut refused = |order| bench.order(order).expect("there is power").unwrap_err();
    assert_eq!(refused(drain(1)), no_room);
    let bytes = used * PAGE_SIZE as u64;
    assert_eq!(refused(remove(1)), DeviceRefused::NotEmpty { bytes });
    assert_eq!(bench.add(1, None).unwrap(), Err(DeviceRefused::InUse));
    // Neither what holds something nor what is too small is written to.
    bench.devices[2][5] = 1;
    let before = bench.devices[2].clone();
    let not_blank = DeviceRefused::NotBlank { owner: None };
    assert_eq!(bench.add(2, None).unwrap(), Err(not_blank));
    assert!(bench.devices[2] == before);
    bench.devices[2] = vec![0; 1 << 20];
    let too_small = bench.add(2, None).unwrap();
    assert!(matches!(too_small, Err(DeviceRefused::TooSmall { .. })));
    bench.devices[2] = vec![0; DATA_BYTES as usize];
    bench.broken = Some(DiskId(2));
    assert_eq!(bench.add(2, None).unwrap(), Err(DeviceRefused::Failed));
    bench.broken = None;
    bench.check();
    assert_eq!(bench.add(2, None).unwrap(), Ok(2));
}

/// A device of another store is not touched, nor one that knows more than this store.
#[test]
fn devices_of_others_are_refused() {
    let mut bench = Bench::filled();
    let mut other = Superblock::decode(&bench.devices[1][..4096]).expect("a superblock");
    let put = |bench: &mut Bench, superblock: &Superblock| {
        bench.devices[2][..4096].copy_from_slice(&superblock.encode());
        bench.add(2, None).expect("there is power")
    };
    other.store = StoreId(77);
    let owner = Some((ClusterId(1), StoreId(77), NodeId(3)));
    let refused = put(&mut bench, &other);
    assert_eq!(refused, Err(DeviceRefused::NotBlank { owner }));
    other.store = StoreId(2);
    other.list.generation += 100;
    let owner = Some((ClusterId(1), StoreId(2), NodeId(3)));
    let refused = put(&mut bench, &other);
    assert_eq!(refused, Err(DeviceRefused::NotBlank { owner }));
    // A copy of a device that the store has.
    other.list.generation -= 100;
    let refused = put(&mut bench, &other);
    assert_eq!(refused, Err(DeviceRefused::NotBlank { owner }));
}

/// What is promised counts: once a drain has begun, its pages find room, whatever is written.
#[test]
fn room_for_what_has_to_move_is_given_to_nobody_else() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).unwrap(), Ok(2));
    assert_eq!(
        bench.order(DeviceOrder::Drain { ordinal: 1 }).unwrap(),
        Ok(1)
    );
    let mut page = PAGES;
    while bench
        .store
        .reserve(SLICE, BlockRange::new(64 * page, 1))
        .is_ok()
    {
        bench.write(page, 0..1);
        page += 1;
    }
    assert_eq!(page, 24, "as many as two devices hold");
    for _ in 0..20 {
        bench.rest().expect("there is power");
    }
    assert_eq!(bench.status(1).expect("it is there").pages_used, 0);
    assert_eq!(bench.store.usage().pages_used, 24);
    assert_eq!(bench.store.allocated_pages(SLICE), 24);
}

#[test]
fn a_drain_is_called_off() {
    let mut bench = Bench::filled();
    assert_eq!(bench.add(2, None).unwrap(), Ok(2));
    let resume = DeviceOrder::Resume { ordinal: 1 };
    assert_eq!(bench.order(resume).unwrap(), Ok(1), "it is in use already");
    let unknown = DeviceOrder::Resume { ordinal: 9 };
    let refused = bench.order(unknown).unwrap();
    assert_eq!(refused, Err(DeviceRefused::Unknown { ordinal: 9 }));
    assert_eq!(bench.store.usage().pages, 40);
    for order in [
        DeviceOrder::Drain { ordinal: 1 },
        DeviceOrder::Drain { ordinal: 1 },
    ] {
        assert_eq!(bench.order(order).unwrap(), Ok(1));
        assert_eq!(bench.store.usage().pages, 24);
        assert_eq!(bench.order(resume).unwrap(), Ok(1));
        assert_eq!(bench.store.usage().pages, 40);
    }
    let used = bench.status(1).expect("it is there").pages_used;
    let mut bench = bench.reopened();
    bench.rest().expect("there is power");
    let status = bench.status(1).expect("it is there");
    assert_eq!(
        (status.state, status.pages_used),
        (DeviceState::InUse, used)
    );
    // Of one that is to be replaced, too: both stay.
    assert_eq!(
        bench.order(DeviceOrder::Drain { ordinal: 2 }).unwrap(),
        Ok(2)
    );
    bench.rest().expect("there is power");
    assert_eq!(
        bench.order(DeviceOrder::Resume { ordinal: 2 }).unwrap(),
        Ok(2)
    );
    bench.check();
}

/// Power fails in the very first write to a device that is being added: sector by sector it is there or not.
/// The same order goes on, another one is refused as ever.
#[test]
fn an_add_whose_first_write_was_torn_goes_on() {
    let mut done = Bench::filled();
    let before = done.devices.clone();
    assert_eq!(done.add(2, None).unwrap(), Ok(2));
    let mut bench = open(&before, &[0, 1]);
    // What it writes first is known from the superblock that is there when the rest is not.
    let mut cut = open(&before, &[0, 1]);
    cut.left = 3;
    assert!(cut.add(2, None).is_err());
    let joining = cut.devices[2][..4096].to_vec();
    assert!(
        Superblock::decode(&joining)
            .expect("it was written")
            .is_joining()
    );
    for torn in 0..256 {
        let mut devices = before.clone();
        for sector in (0..8).filter(|sector| torn & (1 << sector) != 0) {
            let range = 512 * sector..512 * (sector + 1);
            devices[2][range.clone()].copy_from_slice(&joining[range]);
        }
        // The store has been used since.
        let mut bench = open(&devices, &[0, 1]);
        assert_eq!(bench.add(2, None).unwrap(), Ok(2), "{torn:b}");
        assert_eq!(bench.status(2).map(|it| it.ordinal), Some(2));
    }
    let mut refused = |change: &dyn Fn(&mut Vec<u8>)| {
        bench.devices[2].clone_from(&before[2]);
        bench.devices[2][..512].copy_from_slice(&joining[..512]);
        change(&mut bench.devices[2]);
        let kept = bench.devices[2].clone();
        let refused = bench.add(2, None).unwrap();
        assert!(
            matches!(refused, Err(DeviceRefused::NotBlank { .. })),
            "{refused:?}"
        );
        assert!(bench.devices[2] == kept, "nothing is written to it");
    };
    // The nonce is another, there is something besides, or in the second place.
    refused(&|device| device[56] ^= 1);
    refused(&|device| device[3000] = 1);
    refused(&|device| device[1 << 20] = 1);
    refused(&|device| {
        device[..512].fill(0);
        device[656] = 1;
    });
}
