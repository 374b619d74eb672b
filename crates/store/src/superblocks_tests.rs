//! What is refused before a store is opened or created, and in which words.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::{ClusterId, DiskId, NodeId, StoreId};

use holdfast_format::{Absence, DeviceState, JournalMark, ListedDevice, USE_COUNTER_MAX};

use super::*;
use crate::event::{Expected, Stray, StrayDevice};
use crate::journal_move;
use crate::members::{Found, choose};

const MIB: u64 = 1 << 20;

fn device(bytes: u64) -> DeviceGeometry {
    DeviceGeometry {
        disk: DiskId(0),
        bytes,
        sector: 512,
        tier: Tier::Flash,
    }
}

fn identity() -> StoreIdentity {
    StoreIdentity {
        cluster: ClusterId(1),
        store: StoreId(2),
        node: NodeId(3),
        nonce: 4,
    }
}

fn planned(config: FormatConfig, bytes: u64) -> Result<Superblock, OpenError> {
    let mut planned = plan(&config, &identity(), &[device(bytes)], 5)?;
    Ok(planned.remove(0).1)
}

/// What is read from a device of so many bytes that begins with `content`.
fn copies(bytes: u64, content: &[u8]) -> Copies {
    SUPERBLOCK_OFFSETS.map(|offset| {
        let end = offset + SUPERBLOCK_BYTES as u64;
        Some(if end > bytes {
            Err(DiskError::Short)
        } else {
            let mut block = vec![0; SUPERBLOCK_BYTES];
            let from = content.len().min(offset as usize);
            let part = &content[from..content.len().min(end as usize)];
            block[..part.len()].copy_from_slice(part);
            Ok(Bytes::from(block))
        })
    })
}

#[test]
fn a_device_that_is_too_small_is_told_what_a_store_needs() {
    let config = FormatConfig::default();
    for bytes in [0, 512, 4096, MIB, 2 * MIB, 64 * MIB] {
        // As the node goes about it: it opens, and creates where there is nothing.
        let found = copies(bytes, &[]);
        let blank = OpenError::Blank { disk: DiskId(0) };
        assert_eq!(newest(&device(bytes), &found), Err(blank), "{bytes}");
        assert_eq!(must_be_blank(&device(bytes), &found), Ok(()), "{bytes}");
        let Err(OpenError::TooSmall { bytes_min, .. }) = planned(config, bytes) else {
            panic!("{bytes} bytes are too small");
        };
        assert_eq!(device_bytes_min(&config), bytes_min);
        assert!(planned(config, bytes_min).is_ok());
        assert!(matches!(
            planned(config, bytes_min - 1),
            Err(OpenError::TooSmall { bytes_min: same, .. }) if same == bytes_min
        ));
    }
}

#[test]
fn a_small_device_gets_the_journal_that_its_partitions_need() {
    let config = FormatConfig::default();
    let small = planned(config, 100 * MIB).expect("large enough").layout;
    assert_eq!(small.segment_count, 20);
    let large = planned(config, 16 << 30).expect("large enough").layout;
    assert_eq!(u64::from(large.segment_count) * 4 * MIB, 1 << 30);
}

#[test]
fn a_journal_that_is_too_small_is_told_what_it_needs() {
    let asked = |journal_bytes| FormatConfig {
        partitions: 8,
        segment_bytes: 1 << 20,
        journal_bytes: Some(journal_bytes),
    };
    let refused = OpenError::JournalTooSmall {
        bytes: 36 * MIB - 1,
        bytes_min: 36 * MIB,
    };
    assert_eq!(planned(asked(36 * MIB - 1), 1 << 30), Err(refused));
    let layout = planned(asked(36 * MIB), 1 << 30).expect("enough").layout;
    assert_eq!(layout.segment_count, 36);
    // A journal that fits no device is the device's fault, not the journal's.
    assert!(matches!(
        planned(asked(2 << 30), 1 << 30),
        Err(OpenError::TooSmall { bytes_min, .. }) if bytes_min > 2 << 30
    ));
}

#[test]
fn what_is_not_blank_is_not_taken_for_it() {
    let disk = DiskId(0);
    for bytes in [MIB, 1 << 30] {
        let found = copies(bytes, &[7; 8192]);
        assert_eq!(
            newest(&device(bytes), &found),
            Err(OpenError::BadSuperblocks { disk })
        );
        let refused = OpenError::NotBlank { disk, owner: None };
        assert_eq!(must_be_blank(&device(bytes), &found), Err(refused));
    }
    // A place that is there and cannot be read may hold anything.
    let unreadable: Copies = [0, 1].map(|_| Some(Err(DiskError::Os(5))));
    let failed = OpenError::DeviceFailed { disk };
    assert_eq!(newest(&device(1 << 30), &unreadable), Err(failed));
    assert_eq!(must_be_blank(&device(1 << 30), &unreadable), Err(failed));
    // A store that was cut short is not blank either.
    let superblock = planned(FormatConfig::default(), 1 << 30).expect("large enough");
    let short = copies(MIB, &superblock.encode());
    let found = newest(&device(MIB), &short).expect("one copy is there");
    let refused = choose(vec![(device(MIB), Ok(found))], &Expected::default());
    assert!(matches!(refused, Err(OpenError::Shrunk { .. })));
}

#[test]
fn larger_sectors_than_before_are_refused() {
    let superblock = planned(FormatConfig::default(), 1 << 30).expect("large enough");
    let moved = DeviceGeometry {
        sector: 4096,
        ..device(1 << 30)
    };
    let refused = OpenError::LargerSector {
        disk: DiskId(0),
        sector: 4096,
        sector_then: 512,
    };
    let found = choose(vec![(moved, Ok(superblock))], &Expected::default());
    assert_eq!(found, Err(refused));
}

#[test]
fn superblocks_that_contradict_each_other_are_refused() {
    let devices = [0, 1].map(|number| DeviceGeometry {
        disk: DiskId(number),
        ..device(1 << 30)
    });
    let config = FormatConfig::default();
    let good = plan(&config, &identity(), &devices, 5).expect("large enough");
    let belong = |first: &Superblock, second: &Superblock| {
        let found = [first, second].map(|found| Ok(found.clone()));
        let found = devices.into_iter().zip(found).collect();
        choose(found, &Expected::default()).map(|members| members.devices.len())
    };
    let (first, second) = (&good[0].1, &good[1].1);
    assert_eq!(belong(first, second), Ok(2));
    assert_eq!(belong(second, first), Ok(2), "in whatever order");
    let twice = OpenError::MissingDevice {
        ordinal: 0,
        count: 2,
    };
    assert_eq!(belong(first, first), Err(twice));
    let no_journal = Superblock {
        layout: second.layout,
        ..first.clone()
    };
    assert_eq!(belong(&no_journal, second), Err(OpenError::Contradiction));
    let two_journals = Superblock {
        layout: first.layout,
        ..second.clone()
    };
    assert_eq!(belong(first, &two_journals), Err(OpenError::Contradiction));
    let many_partitions = Superblock {
        partitions: 64,
        ..first.clone()
    };
    let refused = belong(&many_partitions, second);
    assert_eq!(refused, Err(OpenError::Contradiction));
    let worn = Superblock {
        use_counter: USE_COUNTER_MAX,
        ..first.clone()
    };
    assert_eq!(belong(&worn, second), Err(OpenError::UsedUp));
    // Of version 1, without lists: slots are numbered without gaps.
    let plain = |found: &Superblock| Superblock {
        device_id: 0,
        list: DeviceList::NONE,
        places: false,
        ..found.clone()
    };
    assert_eq!(belong(&plain(first), &plain(second)), Ok(2));
    assert_eq!(belong(first, &plain(second)), Ok(2), "cut short");
    let gap = Superblock {
        slot_base: second.slot_base + 8,
        ..plain(second)
    };
    let refused = belong(&plain(first), &gap);
    assert_eq!(refused, Err(OpenError::Contradiction));
    assert_eq!(belong(first, &gap), Err(OpenError::Contradiction));
}

/// The list says which devices there are: others are told about, unless one is missing.
#[test]
fn devices_that_are_not_of_the_list_are_strays() {
    let devices = [0, 1].map(|number| DeviceGeometry {
        disk: DiskId(number),
        ..device(1 << 30)
    });
    let config = FormatConfig::default();
    let other = DeviceGeometry {
        disk: DiskId(2),
        ..device(1 << 30)
    };
    let good = plan(&config, &identity(), &devices, 5).expect("large enough");
    let with = |third: Result<Superblock, OpenError>| {
        let mut found: Vec<Found> = good
            .iter()
            .cloned()
            .map(|(at, found)| (at, Ok(found)))
            .collect();
        found.push((other, third));
        choose(found, &Expected::default()).map(|members| {
            assert_eq!(members.devices, good);
            let [stray] = members.strays[..] else {
                panic!("one is a stray");
            };
            assert_eq!(stray.disk, other.disk);
            stray.stray
        })
    };
    let disk = other.disk;
    assert_eq!(with(Err(OpenError::Blank { disk })), Ok(Stray::Blank));
    let bad = OpenError::BadSuperblocks { disk };
    assert_eq!(with(Err(bad)), Ok(Stray::Unreadable));
    let second = &good[1].1;
    let foreign = Superblock {
        store: StoreId(7),
        ..second.clone()
    };
    assert_eq!(with(Ok(foreign.clone())), Ok(Stray::Foreign));
    let joining = Superblock {
        device_id: 77,
        ordinal: 2,
        device_count: 0,
        list: DeviceList::NONE,
        places: false,
        ..second.clone()
    };
    assert_eq!(with(Ok(joining)), Ok(Stray::Joining));
    let mut gone = second.clone();
    gone.device_id = 78;
    assert_eq!(with(Ok(gone.clone())), Ok(Stray::Gone));
    // What knows of a later list, or a later start, shows that the journal's device is an old copy.
    let later = |start| OpenError::LaterDevice {
        disk,
        known: 0,
        start,
    };
    gone.use_counter = 1;
    assert_eq!(with(Ok(gone.clone())), Err(later(1)));
    (gone.use_counter, gone.list.generation) = (0, 2);
    assert_eq!(with(Ok(gone)), Err(later(0)));
    // Two stores.
    let second_journal = Superblock {
        ordinal: 0,
        ..foreign
    };
    let refused = with(Ok(second_journal));
    assert!(matches!(refused, Err(OpenError::Foreign { disk, .. }) if disk == other.disk));
}

/// The device with the journal was brought back from before, the store went on without one that was newer, and that was removed. It may be met
/// again until the node's own list of devices says so as well.
#[test]
fn a_device_that_has_left_the_store_is_a_stray_however_late_it_was_used() {
    let config = FormatConfig::default();
    let devices = [device(1 << 30), device(1 << 30)];
    let mut good = plan(&config, &identity(), &devices, 5).expect("large enough");
    let removed = good[1].1.list.next_ordinal;
    let later = Superblock {
        device_id: 78,
        ordinal: removed,
        use_counter: 7,
        ..good[1].1.clone()
    };
    let disk = DiskId(2);
    let other = DeviceGeometry {
        disk,
        ..device(1 << 30)
    };
    let strays = |good: &[Member]| {
        let mut found: Vec<Found> = good
            .iter()
            .cloned()
            .map(|(at, found)| (at, Ok(found)))
            .collect();
        found.push((other, Ok(later.clone())));
        let chosen = choose(found, &Expected::default());
        chosen.map(|members| members.strays.iter().map(|it| it.stray).collect::<Vec<_>>())
    };
    // It came later than all that the journal's device knows of.
    assert!(matches!(strays(&good), Err(OpenError::LaterDevice { .. })));
    for (_, found) in &mut good {
        found.list.next_ordinal = removed + 1;
    }
    assert_eq!(strays(&good), Ok(vec![Stray::Gone]));
}

#[test]
fn the_device_with_the_journal_is_needed_and_any_other_may_be_missing() {
    let config = FormatConfig::default();
    let journal = device(1 << 30);
    let mut first = planned(config, 1 << 30).expect("large enough");
    first.list.devices.push(ListedDevice {
        id: 9,
        ordinal: 4,
        slot_base: first.list.next_slot,
        slot_count: 8,
        state: DeviceState::Draining,
        absent: None,
        journal: JournalMark::None,
    });
    first.device_count = 2;
    let choose = |found| choose(found, &Expected::default());
    let alone = choose(vec![(journal, Ok(first.clone()))]).expect("it has the journal");
    assert_eq!((alone.devices.len(), alone.missing), (1, vec![4]));
    let disk = DiskId(1);
    let other = DeviceGeometry { disk, ..journal };
    let blank = OpenError::Blank { disk };
    let found = choose(vec![(journal, Ok(first.clone())), (other, Err(blank))]);
    let found = found.expect("it has the journal");
    let stray = Stray::Blank;
    assert_eq!(found.strays, [StrayDevice { disk, stray }]);
    assert_eq!(found.missing, [4]);
    // It was known before.
    let mut known = first.clone();
    known.list.devices[1].absent = Some(Absence {
        is_lost: false,
        last_use: 0,
    });
    let found = choose(vec![(journal, Ok(known))]).expect("it has the journal");
    assert!(found.missing.is_empty() && found.back.is_empty());
    let mut second = first;
    second.ordinal = 4;
    second.device_id = 9;
    let missing = OpenError::MissingDevice {
        ordinal: 0,
        count: 2,
    };
    assert_eq!(choose(vec![(other, Ok(second))]), Err(missing));
}

/// The devices of a store whose journal is about to move from the first to the second.
fn about_to_move() -> [(DeviceGeometry, Superblock); 2] {
    let config = FormatConfig::default();
    let here = device(1 << 30);
    let there = DeviceGeometry {
        disk: DiskId(1),
        ..here
    };
    let mut first = planned(config, 1 << 30).expect("large enough");
    let mut listed = first.list.devices[0];
    listed.id = 9;
    listed.ordinal = 1;
    listed.slot_base = first.list.next_slot;
    listed.journal = JournalMark::Next;
    first.list.devices[0].state = DeviceState::Leaving;
    first.list.devices.push(listed);
    first.list.next_ordinal = 2;
    first.list.next_slot = 2 * listed.slot_count;
    first.device_count = 2;
    let mut second = first.clone();
    second.ordinal = 1;
    second.device_id = 9;
    second.slot_base = listed.slot_base;
    // It has not heard of that.
    second.list.generation -= 1;
    second.list.devices[1].journal = JournalMark::Room;
    [(here, first), (there, second)]
}

/// The second device gets the journal.
fn moved(second: &Superblock) -> Superblock {
    let mut moved = second.clone();
    moved.list.generation += 2;
    moved.list.devices[0].journal = JournalMark::Room;
    moved.list.devices[1].journal = JournalMark::Here;
    moved
}

#[test]
fn while_the_journal_is_about_to_move_both_devices_say_where_it_is() {
    let choose = |found: &[(DeviceGeometry, &Superblock)]| {
        let found = found
            .iter()
            .map(|(device, it)| (*device, Ok((*it).clone())));
        let chosen = choose(found.collect(), &Expected::default());
        chosen.map(|members| {
            let devices = members.devices.iter();
            let ordinals: Vec<u16> = devices.map(|(_, found)| found.ordinal).collect();
            (ordinals, members.missing)
        })
    };
    let missing = |ordinal| Err(OpenError::MissingDevice { ordinal, count: 2 });
    let [(here, first), (there, second)] = about_to_move();
    let both = |second| choose(&[(here, &first), (there, second)]);
    assert_eq!(both(&second), Ok((vec![0, 1], vec![])));
    assert_eq!(choose(&[(here, &first)]), missing(1));
    assert_eq!(choose(&[(there, &second)]), missing(0));
    // It has moved, and the first has not heard of that.
    let moved = moved(&second);
    assert_eq!(both(&moved), Ok((vec![1, 0], vec![])));
    assert_eq!(choose(&[(there, &moved)]), Ok((vec![1], vec![0])));
    // Called off: what was about to be the second one's list is older.
    let mut called_off = first.clone();
    journal_move::call_off(&mut called_off.list);
    let both = |second| choose(&[(there, second), (here, &called_off)]);
    assert_eq!(both(&moved), Ok((vec![0, 1], vec![])));
    assert_eq!(choose(&[(here, &called_off)]), Ok((vec![0], vec![1])));
    // Two that say it in one breath are none of ours.
    called_off.list.generation = moved.list.generation;
    let both = choose(&[(here, &called_off), (there, &moved)]);
    assert_eq!(both, Err(OpenError::Contradiction));
}

/// An older copy of the device that had the journal says that it has it.
#[test]
fn an_older_copy_of_a_former_journal_is_refused() {
    let [(here, older), (there, second)] = about_to_move();
    let mut moved = moved(&second);
    moved.use_counter = 5;
    let disk = DiskId(0);
    let found = vec![(here, Ok(older.clone())), (there, Ok(moved.clone()))];
    let (known, start) = (0, 5);
    let refused = OpenError::OlderDevice { disk, known, start };
    assert_eq!(choose(found, &Expected::default()), Err(refused));
    // Beside one that knows of the move, without the device that has the journal by now.
    let mut third = moved.clone();
    let mut listed = moved.list.devices[1];
    listed.id = 10;
    listed.ordinal = 2;
    listed.slot_base = moved.list.next_slot;
    listed.journal = JournalMark::None;
    third.list.devices.push(listed);
    (third.ordinal, third.device_id) = (2, 10);
    let found = vec![(here, Ok(older)), (there, Ok(third))];
    assert_eq!(choose(found, &Expected::default()), Err(refused));
}

#[test]
fn a_journal_that_cannot_carry_every_change_is_refused() {
    let format = FormatConfig {
        segment_bytes: 256 << 10,
        ..FormatConfig::default()
    };
    let small = StoreConfig {
        change_bytes_max: 128 << 10,
        format,
        ..StoreConfig::default()
    };
    let device = device(1 << 30);
    assert_eq!(check(&small, &[device], true), Ok(()));
    let found = (device, planned(format, 1 << 30).expect("large enough"));
    assert_eq!(must_carry(&small, &found), Ok(()));
    let large = StoreConfig {
        change_bytes_max: (128 << 10) + 1,
        ..small
    };
    assert_eq!(check(&large, &[device], true), Err(OpenError::BadConfig));
    let refused = OpenError::SmallSegments {
        disk: DiskId(0),
        bytes: 256 << 10,
        bytes_min: (256 << 10) + 2,
    };
    assert_eq!(must_carry(&large, &found), Err(refused));
}

#[test]
fn every_refusal_says_what_to_do_and_leaves_the_name_to_others() {
    let disk = DiskId(0);
    let owner = Some((ClusterId(1), StoreId(2), NodeId(3)));
    let all: Vec<OpenError> = vec![
        OpenError::NoFlashDevice,
        OpenError::BadConfig,
        OpenError::JournalTooSmall {
            bytes: 1,
            bytes_min: 2,
        },
        OpenError::TooSmall {
            disk,
            bytes: 1,
            bytes_min: 2,
        },
        OpenError::TooLarge,
        OpenError::TooManyDevices,
        OpenError::NotListed { disk },
        OpenError::Contradiction,
        OpenError::OlderSuperblocks {
            disk,
            known: 1,
            start: 2,
        },
        OpenError::OlderDevice {
            disk,
            known: 1,
            start: 2,
        },
        OpenError::LaterDevice {
            disk,
            known: 1,
            start: 2,
        },
        OpenError::UsedUp,
        OpenError::Blank { disk },
        OpenError::NotBlank { disk, owner },
        OpenError::NotBlank { disk, owner: None },
        OpenError::BadSuperblocks { disk },
        OpenError::NewerVersion {
            disk,
            version: 2,
            known: 1,
        },
        OpenError::Foreign {
            disk,
            cluster: ClusterId(1),
            store: StoreId(2),
            node: NodeId(3),
        },
        OpenError::MissingDevice {
            ordinal: 1,
            count: 2,
        },
        OpenError::Shrunk {
            disk,
            bytes: 1,
            bytes_then: 2,
        },
        OpenError::SmallSegments {
            disk,
            bytes: 1,
            bytes_min: 2,
        },
        OpenError::BadSector { disk, sector: 520 },
        OpenError::LargerSector {
            disk,
            sector: 4096,
            sector_then: 512,
        },
        OpenError::DeviceFailed { disk },
    ];
    for error in all {
        let text = error.to_string();
        let (what, hint) = text.split_once("\n\nhint: ").expect("it says what to do");
        assert!(!what.is_empty() && !hint.is_empty(), "{text}");
        assert!(!text.contains("DiskId"), "{text}");
        let about_one = what.starts_with("the device ") || what.starts_with("the device's ");
        assert_eq!(error.disk().is_some(), about_one, "{text}");
    }
}
