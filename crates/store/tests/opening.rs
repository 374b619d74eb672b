//! Which devices a store is opened with, and what an opening that is cut short leaves.

use crate::memory;
use holdfast_format::{DeviceList, FORMAT_VERSION, SUPERBLOCK_OFFSETS, Superblock};
use holdfast_model::{BLOCK_SIZE, ClusterId, DiskId, NodeId, StoreId, Tier};
use holdfast_stdx::{Instant, crc32c};
use holdfast_store::{
    DeviceGeometry, Expected, FormatConfig, OpenError, Output, Store, StoreConfig, StoreEvent,
    StoreIdentity,
};

const JOURNAL_BYTES: u64 = 8 * (256 << 10);
const DEVICE_BYTES: usize = (2 << 20) + JOURNAL_BYTES as usize + 8 * ((256 << 10) + 1024) + 4096;
const NOW: Instant = Instant::from_nanos(1);

/// What is on the devices of a store: the journal is on the first.
type Devices = Vec<Vec<u8>>;

fn geometries(count: usize) -> Vec<DeviceGeometry> {
    let geometry = |number| DeviceGeometry {
        disk: DiskId(number as u16),
        bytes: DEVICE_BYTES as u64,
        sector: 512,
        tier: Tier::Flash,
    };
    (0..count).map(geometry).collect()
}

fn config() -> StoreConfig {
    StoreConfig {
        change_bytes_max: 8 * BLOCK_SIZE,
        format: FormatConfig {
            partitions: 1,
            segment_bytes: 256 << 10,
            journal_bytes: Some(JOURNAL_BYTES),
        },
        ..StoreConfig::default()
    }
}

fn created(count: usize) -> Devices {
    let identity = StoreIdentity {
        cluster: ClusterId(1),
        store: StoreId(2),
        node: NodeId(3),
        nonce: 4,
    };
    let mut devices = vec![vec![0; DEVICE_BYTES]; count];
    let mut out = Output::default();
    let store = Store::create(NOW, config(), &geometries(count), identity, 1, &mut out);
    let opened = run(store, out, &mut devices, usize::MAX);
    assert_eq!(opened, Some(Ok(1)));
    devices
}

/// Opens a store; the machine fails after so many requests. Gives the number of the use.
fn open(devices: &mut Devices, requests_max: usize) -> Option<Result<u64, OpenError>> {
    let mut out = Output::default();
    let geometries = geometries(devices.len());
    let expected = Expected::default();
    let store = Store::open(NOW, config(), &geometries, expected, 1, &mut out);
    run(store, out, devices, requests_max)
}

fn run(
    mut store: Store,
    mut out: Output,
    devices: &mut Devices,
    requests_max: usize,
) -> Option<Result<u64, OpenError>> {
    for _ in 0..requests_max {
        match out.events.pop_front() {
            Some(StoreEvent::Opened(recovered)) => return Some(Ok(recovered.use_counter)),
            Some(StoreEvent::OpenFailed(error)) => return Some(Err(error)),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        let request = out.requests.pop_front().expect("it opens, or fails");
        let device = &mut devices[usize::from(request.disk.0)];
        let completion = memory::perform(device, request);
        store.handle_disk(NOW, completion, &mut out);
    }
    // The power fails in the middle of the next one.
    if let Some(request) = out.requests.pop_front() {
        memory::tear(&mut devices[usize::from(request.disk.0)], &request);
    }
    None
}

/// An older copy of each device in turn, beside the others as they are.
fn with_one_of(old: &Devices, now: &Devices) -> Vec<(usize, Devices)> {
    let mixed = |place: usize| {
        let mut devices = now.clone();
        devices[place].clone_from(&old[place]);
        (place, devices)
    };
    (0..now.len()).map(mixed).collect()
}

/// Whether the older device is named, or one of the others, which show that the journal's is old.
fn is_told(refused: &Option<Result<u64, OpenError>>, place: usize) -> bool {
    match refused {
        Some(Err(OpenError::OlderDevice { disk, .. })) => usize::from(disk.0) == place,
        Some(Err(OpenError::LaterDevice { disk, .. })) => place == 0 && disk.0 > 0,
        _ => false,
    }
}

#[test]
fn an_older_copy_of_a_device_is_refused_however_often_it_is_tried() {
    let mut devices = created(3);
    let old = devices.clone();
    for number in 2..5 {
        assert_eq!(open(&mut devices, usize::MAX), Some(Ok(number)));
        for (place, mut mixed) in with_one_of(&old, &devices) {
            let before = mixed.clone();
            for _ in 0..2 {
                let refused = open(&mut mixed, usize::MAX);
                assert!(is_told(&refused, place), "{place}: {refused:?}");
            }
            assert!(mixed == before, "nothing is written");
        }
    }
}

#[test]
fn an_opening_that_is_cut_short_is_done_again() {
    for count in 1..=3 {
        let devices = created(count);
        for requests in 1.. {
            let mut devices = devices.clone();
            let Some(opened) = open(&mut devices, requests) else {
                // Once more, cut short at the same place.
                assert_eq!(open(&mut devices, requests), None);
                let opened = open(&mut devices, usize::MAX);
                assert!(matches!(opened, Some(Ok(2..=4))), "{requests}: {opened:?}");
                continue;
            };
            assert_eq!(opened, Ok(2));
            assert!(requests > 8, "each copy of each superblock is written");
            break;
        }
    }
}

/// What was used last is refused as old as soon as another use has begun.
#[test]
fn a_copy_of_before_an_opening_that_was_cut_short_is_refused_once_it_is_done() {
    let devices = created(2);
    for requests in 1.. {
        let mut now = devices.clone();
        if open(&mut now, requests).is_some() {
            break;
        }
        assert!(matches!(open(&mut now, usize::MAX), Some(Ok(_))));
        for (place, mut mixed) in with_one_of(&devices, &now) {
            let refused = open(&mut mixed, usize::MAX);
            assert!(is_told(&refused, place), "{requests}, {place}: {refused:?}");
        }
    }
}

/// Makes the superblocks of a store what they were in version 1.
fn as_of_version_1(devices: &mut Devices) {
    for device in devices {
        for offset in SUPERBLOCK_OFFSETS {
            let bytes = &mut device[offset as usize..][..4096];
            bytes[8..16].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            bytes[656..].fill(0);
            let checksum = crc32c(bytes);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

fn superblocks(devices: &Devices) -> Vec<Superblock> {
    let read = |device: &Vec<u8>, offset: u64| {
        Superblock::decode(&device[offset as usize..][..4096]).expect("a superblock")
    };
    let all = devices.iter().flat_map(|device| {
        let copies = SUPERBLOCK_OFFSETS.map(|offset| read(device, offset));
        let alike = copies[0] == copies[1];
        assert!(alike, "both copies are written");
        Some(copies[0].clone())
    });
    all.collect()
}

#[test]
fn a_store_of_version_1_gets_a_list_wherever_that_is_cut_short() {
    for count in 1..=3 {
        let mut old = created(count);
        as_of_version_1(&mut old);
        assert!(superblocks(&old).iter().all(Superblock::is_of_version_1));
        for requests in 1.. {
            let mut devices = old.clone();
            let done = open(&mut devices, requests).is_some();
            let opened = open(&mut devices, usize::MAX);
            assert!(matches!(opened, Some(Ok(2..=3))), "{requests}: {opened:?}");
            let found = superblocks(&devices);
            let list: &DeviceList = &found[0].list;
            assert_eq!(list.devices.len(), count);
            for (ordinal, superblock) in (0..).zip(&found) {
                assert_eq!(&superblock.list, list);
                assert_eq!(superblock.ordinal, ordinal);
                let listed = list.device(ordinal).expect("it is in the list");
                assert_eq!(superblock.device_id, listed.id);
            }
            if done {
                assert!(requests > 8, "each copy of each superblock is written");
                break;
            }
        }
    }
}

/// One copy of a superblock has rotted unseen, and the power fails while the other is written: there is always a
/// good one.
#[test]
fn a_start_that_is_cut_short_tears_no_superblock_beside_a_rotten_one() {
    for count in 1..=3 {
        let mut created = created(count);
        // The id of a use is not always in the sector of its number.
        while superblocks(&created)[0].use_counter < 50 {
            assert!(matches!(open(&mut created, usize::MAX), Some(Ok(_))));
        }
        for place in 0..count {
            for offset in SUPERBLOCK_OFFSETS {
                for requests in 0.. {
                    let mut devices = created.clone();
                    devices[place][offset as usize + 100] ^= 1;
                    let done = open(&mut devices, requests).is_some();
                    let opened = open(&mut devices, usize::MAX);
                    assert!(
                        matches!(opened, Some(Ok(_))),
                        "device {place} at {offset}, {requests}: {opened:?}"
                    );
                    if done {
                        assert!(requests > 8, "each copy of each superblock is written");
                        break;
                    }
                }
            }
        }
    }
}

/// What is in the journal and in the table has no version of its own: that of the superblocks speaks for all
/// of it, and is read before anything else.
#[test]
fn a_newer_version_on_any_copy_of_any_device_is_refused_and_nothing_is_written() {
    let devices = created(3);
    for place in 0..devices.len() {
        for offset in SUPERBLOCK_OFFSETS {
            let mut newer = devices.clone();
            let bytes = &mut newer[place][offset as usize..offset as usize + 4096];
            let version = FORMAT_VERSION + 1;
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            bytes[12..16].fill(0);
            let checksum = crc32c(bytes).to_le_bytes();
            bytes[12..16].copy_from_slice(&checksum);
            let before = newer.clone();
            let refused = OpenError::NewerVersion {
                disk: DiskId(place as u16),
                version,
                known: FORMAT_VERSION,
            };
            assert_eq!(open(&mut newer, usize::MAX), Some(Err(refused)));
            assert!(newer == before, "nothing is written");
        }
    }
}
