//! The literal bytes of every released version, made without this crate's code. If one of these
//! tests fails, the change is wrong, not the test.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::{
    BlockIndex, Change, ClusterId, CommandId, Entry, Epoch, Fence, Incarnation, NodeId, PageIndex,
    Sequence, SliceId, StoreId, Tier, VolumeId,
};
use holdfast_stdx::Bytes;

use crate::group::{GroupHeader, GroupWriter};
use crate::{
    Absence, Body, DeviceLayout, DeviceList, DeviceState, EntryError, GroupError, JournalMark,
    ListedDevice, Looks, PageEntry, PageKey, Record, SegmentError, SegmentHeader, SlotContent,
    Superblock, SuperblockError, UseIds,
};

const STORE: StoreId = StoreId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
const CLUSTER: ClusterId = ClusterId(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100);
const NONCE: u64 = 0x0123_4567_89ab_cdef;
const SLICE: SliceId = SliceId {
    volume: VolumeId(3),
    index: 1,
};

/// Bytes that are zero but for some stretches, each given by its place and in hexadecimal digits.
fn literal(length: usize, stretches: &[(usize, &str)]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (offset, digits) in stretches {
        for (index, pair) in digits.as_bytes().chunks(2).enumerate() {
            let pair = String::from_utf8(pair.to_vec()).expect("digits");
            bytes[offset + index] = u8::from_str_radix(&pair, 16).expect("digits");
        }
    }
    bytes
}

const SUPERBLOCK: &[(usize, &str)] = &[
    (0, "484f4c444641535401000000877a623007"),
    (
        25,
        "0102030405060708090a0b0c0d0e0fffeeddccbbaa99887766554433221100efcdab896745230105\
         00000000000000030001000200010000020000040000000000004000000000000020000000000000\
         00400010000000000020040000000000403c04000000000040bc3c00000000200e00000010",
    ),
];
const SEGMENT: &[(usize, &str)] = &[(
    0,
    "48467365676d6e748423782509000000ffeeddccbbaa99887766554433221100efcdab8967452301\
         0300000005000000e803000000000000840300000000000002",
)];
const GROUP_HEADER: &[(usize, &str)] = &[
    (
        0,
        "484667726f757000fe7fbde0efbeaddeffeeddccbbaa99887766554433221100efcdab8967452301\
         0300000005000000e903000000000000e8030000000000008403000000000000de03000000000000\
         0010000000100000a00000000200000002",
    ),
    (
        128,
        "01000000680000000300000000000000010000000000000046000000000000000400000000000000\
         4d00000000000000060000000000000002000000000000000b000000000000000c00000000000000\
         01000000800200000100000000000000498cf1370000000004000000380000000300000000000000\
         010000000000000046000000000000000400000000000000460000000000000002",
    ),
    (4064, "48467374616d7000efcdab89674523010300000005000000e903"),
];
const PAGE_ENTRY: &[(usize, &str)] = &[
    (
        0,
        "4846706799394d6befcdab896745230101000000000500000410000001",
    ),
    (40, "0300000000000000010000000a"),
    (72, "4d00000000000000010000000000008002"),
    (256, "11111111"),
    (508, "22222222"),
];
const FREE_ENTRY: &[(usize, &str)] = &[(0, "484670673f12f905efcdab896745230102000000000500000410")];

/// Of version 2: the device is the second of two, of four that there have been.
const LISTING_SUPERBLOCK: &[(usize, &str)] = &[
    (0, "484f4c44464153540200000085731c7b07"),
    (
        25,
        "0102030405060708090a0b0c0d0e0fffeeddccbbaa99887766554433221100efcdab896745230105\
         00000000000000030003000200010000020000040000000000004000000000000020000000000000\
         00400010000000000020040000000000403c04000000000040bc3c00000000200e00000010",
    ),
    (176, "08070605040302011817161514131211"),
    (
        656,
        "28272625242322210900000000000000201e00000400000038373635343332310000000000080000\
         0000010000000000282726252423222100100000200e0000030003",
    ),
];

/// Of version 3: the device has the journal, the second of three is missing, the third has failed.
const LACKING_SUPERBLOCK: &[(usize, &str)] = &[
    (0, "484f4c444641535403000000d864e37707"),
    (
        25,
        "0102030405060708090a0b0c0d0e0fffeeddccbbaa99887766554433221100efcdab896745230105\
         00000000000000030000000300010000020000040000000000004000000000000020000000000000\
         00400010000000000020040000000000403c04000000000040bc3c000000000008",
    ),
    (176, "08070605040302011817161514131211"),
    (
        656,
        "38373635343332310900000000000000281e00000800000038373635343332310000000000080000\
         0000010000000000282726252423222100100000200e000003000301030201004847464544434241\
         201e0000080000000700010204",
    ),
];

/// Of version 4: the journal is on the device, number 3, and on its way to number 7; number 0 has room for it,
/// and is leaving.
const MOVED_SUPERBLOCK: &[(usize, &str)] = &[
    (0, "484f4c4446415354040000001592ed9607"),
    (
        25,
        "0102030405060708090a0b0c0d0e0fffeeddccbbaa99887766554433221100efcdab896745230105\
         00000000000000030003000300010000020000040000000000004000000000000020000000000000\
         00400010000000000020040000000000403c04000000000040bc3c00000000200e00000010",
    ),
    (176, "08070605040302011817161514131211"),
    (
        656,
        "28272625242322210900000000000000281e00000800000038373635343332310000000000080000\
         0000030000000001282726252423222100100000200e000003000100000000034847464544434241\
         201e0000080000000700010000000002",
    ),
];

/// Of version 1: without an id and a list.
fn superblock() -> Superblock {
    Superblock {
        update: 7,
        cluster: CLUSTER,
        store: STORE,
        nonce: NONCE,
        use_counter: 5,
        use_ids: UseIds::NONE,
        claimed: false,
        node: NodeId(3),
        ordinal: 1,
        device_id: 0,
        device_count: 2,
        list: DeviceList::NONE,
        places: false,
        tier: Tier::Capacity,
        sector: 512,
        partitions: 4,
        device_bytes: 1 << 30,
        slot_base: 4096,
        layout: DeviceLayout {
            journal_offset: 2 << 20,
            segment_bytes: 4 << 20,
            segment_count: 16,
            table_offsets: [69_206_016, 1_018_970_112],
            slots_offset: 71_057_408,
            slot_count: 3616,
        },
    }
}

/// The same device in a store of version 2.
fn listing_superblock() -> Superblock {
    let listed = |id, ordinal, slot_base, slot_count, state| ListedDevice {
        id,
        ordinal,
        slot_base,
        slot_count,
        state,
        absent: None,
        journal: JournalMark::unmarked(ordinal),
    };
    let id = 0x2122_2324_2526_2728;
    let mut known = Superblock {
        ordinal: 3,
        device_id: id,
        list: DeviceList {
            generation: 9,
            next_slot: 7712,
            next_ordinal: 4,
            devices: vec![
                listed(0x3132_3334_3536_3738, 0, 0, 2048, DeviceState::InUse),
                listed(id, 3, 4096, 3616, DeviceState::Leaving),
            ],
        },
        ..superblock()
    };
    known.use_ids.begin(4, 0x0102_0304_0506_0708);
    known.use_ids.begin(5, 0x1112_1314_1516_1718);
    known
}

#[test]
fn version_1_superblock() {
    let bytes = literal(4096, SUPERBLOCK);
    assert_eq!(Superblock::decode(&bytes), Ok(superblock()));
}

#[test]
fn version_1_superblock_with_ids_of_uses() {
    let mut known = superblock();
    known.use_ids.begin(4, 0x0102_0304_0506_0708);
    known.use_ids.begin(5, 0x1112_1314_1516_1718);
    let mut bytes = literal(4096, SUPERBLOCK);
    bytes[144 + 4 * 8..144 + 6 * 8].copy_from_slice(&[
        8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
    ]);
    let checksum = crate::bytes::checksum_without(&bytes, 12);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(Superblock::decode(&bytes), Ok(known));
}

#[test]
fn version_2_superblock() {
    let bytes = literal(4096, LISTING_SUPERBLOCK);
    assert_eq!(listing_superblock().encode(), bytes);
    assert_eq!(Superblock::decode(&bytes), Ok(listing_superblock()));
}

/// A superblock of a version whose programs know less does not have what is new in it.
fn must_not_be_of(version: u8, bytes: &[u8]) {
    let mut older = bytes.to_vec();
    older[8] = version;
    let checksum = crate::bytes::checksum_without(&older, 12);
    older[12..16].copy_from_slice(&checksum.to_le_bytes());
    let refused = Superblock::decode(&older);
    assert_eq!(refused, Err(SuperblockError::Malformed));
}

/// Of version 3: the same, but the second device is missing, and a third one has failed.
#[test]
fn version_3_superblock() {
    let mut known = listing_superblock();
    known.ordinal = 0;
    known.slot_base = 0;
    known.device_id = 0x3132_3334_3536_3738;
    known.layout.slot_count = 2048;
    let absent = |is_lost, last_use| Some(Absence { is_lost, last_use });
    known.list.devices[1].absent = absent(false, 0x01_0203);
    known.list.devices.push(ListedDevice {
        id: 0x4142_4344_4546_4748,
        ordinal: 7,
        slot_base: 7712,
        slot_count: 8,
        state: DeviceState::InUse,
        absent: absent(true, 4),
        journal: JournalMark::None,
    });
    known.list.next_ordinal = 8;
    known.list.next_slot = 7720;
    known.device_count = 3;
    let bytes = literal(4096, LACKING_SUPERBLOCK);
    assert_eq!(known.encode(), bytes);
    assert_eq!(Superblock::decode(&bytes), Ok(known));
    // A program that knows no such entries must not take them for others.
    must_not_be_of(2, &bytes);
}

/// Of version 4: the journal has moved, and moves again.
#[test]
fn version_4_superblock() {
    let mut known = listing_superblock();
    known.list.devices[0].state = DeviceState::Leaving;
    known.list.devices[0].journal = JournalMark::Room;
    known.list.devices[1].state = DeviceState::InUse;
    known.list.devices[1].journal = JournalMark::Here;
    known.list.devices.push(ListedDevice {
        id: 0x4142_4344_4546_4748,
        ordinal: 7,
        slot_base: 7712,
        slot_count: 8,
        state: DeviceState::InUse,
        absent: None,
        journal: JournalMark::Next,
    });
    known.list.next_ordinal = 8;
    known.list.next_slot = 7720;
    known.device_count = 3;
    assert!(known.has_journal());
    let bytes = literal(4096, MOVED_SUPERBLOCK);
    assert_eq!(known.encode(), bytes);
    assert_eq!(Superblock::decode(&bytes), Ok(known));
    // A program that knows no marks must not take the journal to be where it is not.
    must_not_be_of(3, &bytes);
}

/// What is added with room for a journal is of a version that older programs refuse, before the list says so.
#[test]
fn a_device_that_is_being_added_with_room_for_a_journal_is_of_version_4() {
    let joining = |segment_count| {
        let mut known = listing_superblock();
        known.device_count = 0;
        known.list = DeviceList::NONE;
        known.layout.segment_count = segment_count;
        known
    };
    assert_eq!(joining(0).encode()[8], 2);
    assert_eq!(joining(16).encode()[8], 4);
    assert!(!joining(16).has_journal());
}

#[test]
fn a_device_that_is_being_added_has_an_id_and_no_list() {
    let joining = Superblock {
        device_count: 0,
        list: DeviceList::NONE,
        places: false,
        ..listing_superblock()
    };
    assert!(joining.is_joining());
    assert_eq!(Superblock::decode(&joining.encode()), Ok(joining));
    assert!(!listing_superblock().is_joining());
    assert!(!superblock().is_joining());
}

#[test]
fn version_1_becomes_version_2() {
    let first = Superblock {
        ordinal: 0,
        slot_base: 0,
        layout: DeviceLayout {
            slot_count: 4096,
            ..superblock().layout
        },
        ..superblock()
    };
    let mut upgraded = [first.clone(), superblock()];
    let mut numbers = 5..;
    let [one, two] = &mut upgraded;
    let done = Superblock::upgrade(&mut [one, two], || numbers.next().expect("endless"));
    assert_eq!(done, Ok(()));
    let listed = |id, ordinal, slot_base, slot_count| ListedDevice {
        id,
        ordinal,
        slot_base,
        slot_count,
        state: DeviceState::InUse,
        absent: None,
        journal: JournalMark::unmarked(ordinal),
    };
    let list = DeviceList {
        generation: 1,
        next_slot: 7712,
        next_ordinal: 2,
        devices: vec![listed(5, 0, 0, 4096), listed(6, 1, 4096, 3616)],
    };
    let expected = |before: Superblock, device_id| Superblock {
        device_id,
        list: list.clone(),
        ..before
    };
    assert_eq!(upgraded[0], expected(first, 5));
    assert_eq!(upgraded[1], expected(superblock(), 6));
    // Cut short after the first device: its list counts.
    let mut again = superblock();
    let [one, _] = &mut upgraded;
    let done = Superblock::upgrade(&mut [one, &mut again], || unreachable!("nothing is drawn"));
    assert_eq!(done, Ok(()));
    assert_eq!(upgraded[1], again);
}

#[test]
fn ids_are_known_of_the_latest_uses_only() {
    let mut ids = UseIds::NONE;
    for number in 1..=100 {
        ids.begin(number, 1000 + number);
    }
    assert_eq!(ids.of(100, 100), Some(1100));
    assert_eq!(ids.of(37, 100), Some(1037));
    assert_eq!(ids.of(36, 100), None);
    assert_eq!(ids.of(101, 100), None);
    assert_eq!(UseIds::NONE.of(1, 2), None);
}

#[test]
fn a_superblock_is_refused_with_the_reason() {
    assert_eq!(Superblock::decode(&[0; 4096]), Err(SuperblockError::Blank));
    assert_eq!(
        Superblock::decode(&[0xEB; 4096]),
        Err(SuperblockError::NotOurs)
    );
    assert_eq!(Superblock::decode(&[0; 512]), Err(SuperblockError::NotOurs));
    let good = literal(4096, LISTING_SUPERBLOCK);
    for offset in [9, 12, 60, 143, 680, 4095] {
        let mut bad = good.clone();
        bad[offset] ^= 4;
        assert_eq!(
            Superblock::decode(&bad),
            Err(SuperblockError::BadChecksum),
            "byte {offset}"
        );
    }
    let mut newer = listing_superblock().encode().to_vec();
    newer[8] = 9;
    let checksum = crate::bytes::checksum_without(&newer, 12);
    newer[12..16].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(
        Superblock::decode(&newer),
        Err(SuperblockError::NewerVersion(9))
    );
    let absurd = Superblock {
        layout: DeviceLayout {
            slots_offset: 4096,
            ..superblock().layout
        },
        ..listing_superblock()
    };
    assert_eq!(
        Superblock::decode(&absurd.encode()),
        Err(SuperblockError::Malformed)
    );
}

#[test]
fn version_1_segment_header() {
    let header = SegmentHeader {
        store: STORE,
        nonce: NONCE,
        index: 9,
        ordinal: 5 << 32 | 3,
        partition: Some(2),
        first_group: 1000,
        oldest_group: 900,
    };
    let bytes = literal(4096, SEGMENT);
    assert_eq!(header.encode(), bytes);
    assert_eq!(SegmentHeader::decode(&bytes, STORE, NONCE, 9), Ok(header));
    assert_eq!(
        SegmentHeader::decode(&bytes, STORE, NONCE, 8),
        Err(SegmentError::NotOurs)
    );
    assert_eq!(
        SegmentHeader::decode(&bytes, STORE, NONCE + 1, 9),
        Err(SegmentError::NotOurs)
    );
}

fn records() -> [Record; 2] {
    let record = |body| Record {
        slice: SLICE,
        committed: Sequence(70),
        body,
    };
    [
        record(Body::Entry(Entry {
            epoch: Epoch(4),
            sequence: Sequence(77),
            fence: Fence(6),
            command: CommandId {
                node: 2,
                incarnation: Incarnation(11),
                number: 12,
            },
            change: Change::write(BlockIndex(640), Bytes::from_static(&[0x5A; 4096])),
        })),
        record(Body::Position {
            epoch: Epoch(4),
            sequence: Sequence(70),
            restart: false,
            damaged: true,
        }),
    ]
}

fn group_header() -> GroupHeader {
    GroupHeader {
        store: STORE,
        nonce: NONCE,
        partition: 2,
        ordinal: 5 << 32 | 3,
        group: 1001,
        previous: 0xDEAD_BEEF,
        durable_up_to: 1000,
        oldest_group: 900,
        redo_from: 990,
        overwrote: 0,
    }
}

#[test]
fn version_1_group() {
    let mut bytes = literal(4096, GROUP_HEADER);
    bytes.extend_from_slice(&[0x5A; 4096]);
    let mut writer = GroupWriter::new();
    for record in records() {
        writer.push(&record);
    }
    let (parts, _) = writer.finish(&group_header());
    assert_eq!(parts.concat(), bytes);
    let group = GroupHeader::read(&Bytes::from(bytes), STORE, NONCE).expect("a group");
    assert_eq!(group.header, group_header());
    assert_eq!(group.bytes, 8192);
    assert!(group.is_whole());
    let found: Vec<Record> = group.records.into_iter().map(|read| read.record).collect();
    assert_eq!(found, records());
}

/// Bytes 104 to 112 are zero in whatever was written before they meant something.
#[test]
fn a_group_says_what_was_overwritten() {
    let header = GroupHeader {
        overwrote: 950,
        ..group_header()
    };
    let (parts, _) = GroupWriter::new().finish(&header);
    let bytes = Bytes::from(parts.concat());
    assert_eq!(bytes[104..112], 950_u64.to_le_bytes());
    let group = GroupHeader::read(&bytes, STORE, NONCE).expect("a group");
    assert_eq!(group.header, header);
}

#[test]
fn a_group_with_bad_bytes_says_which() {
    let mut bytes = literal(4096, GROUP_HEADER);
    bytes.extend_from_slice(&[0x5A; 4096]);
    let ordinal = 5 << 32 | 3;
    let mut bad_data = bytes.clone();
    bad_data[5000] = 0;
    let group = GroupHeader::read(&Bytes::from(bad_data), STORE, NONCE).expect("a good header");
    assert!(!group.is_whole());
    assert_eq!(group.records[0].bad, [0]);
    for offset in [40, 200, 4000] {
        let mut bad = bytes.clone();
        bad[offset] ^= 1;
        assert!(GroupHeader::read(&Bytes::from(bad.clone()), STORE, NONCE).is_err());
        assert_eq!(
            Looks::at(&bad[..4096], NONCE, ordinal, 1001),
            Looks::LikeTheGroup
        );
    }
    let mut no_head = bytes.clone();
    no_head[..512].fill(0);
    assert_eq!(
        GroupHeader::read(&Bytes::from(no_head.clone()), STORE, NONCE),
        Err(GroupError::NotOurs)
    );
    assert_eq!(
        Looks::at(&no_head[..4096], NONCE, ordinal, 1001),
        Looks::LikeTheGroup
    );
    assert_eq!(
        Looks::at(&no_head[..4096], NONCE, ordinal, 1002),
        Looks::LikeNothing
    );
    let cut = Bytes::from(bytes[..4096].to_vec());
    assert!(GroupHeader::read(&cut, STORE, NONCE).is_err());
}

#[test]
fn version_1_table_entries() {
    let key = PageKey {
        slice: SLICE,
        page: PageIndex(10),
    };
    let mut checksums = Box::new([0; 64]);
    checksums[0] = 0x1111_1111;
    checksums[63] = 0x2222_2222;
    let page = PageEntry {
        version: (5 << 40) + 1,
        slot: 4100,
        content: SlotContent::Page {
            key,
            written: Sequence(77),
            mask: 1 << 63 | 1,
            bad: 2,
            checksums,
        },
    };
    let free = PageEntry {
        version: (5 << 40) + 2,
        slot: 4100,
        content: SlotContent::Free,
    };
    for (entry, stretches) in [(page, PAGE_ENTRY), (free, FREE_ENTRY)] {
        let bytes = literal(512, stretches);
        assert_eq!(entry.encode(NONCE)[..], bytes);
        assert_eq!(PageEntry::decode(&bytes, NONCE, 4100), Ok(entry));
        assert_eq!(
            PageEntry::decode(&bytes, NONCE, 4101),
            Err(EntryError::NotOurs)
        );
        let mut bad = bytes;
        bad[100] = 1;
        assert_eq!(
            PageEntry::decode(&bad, NONCE, 4100),
            Err(EntryError::BadChecksum)
        );
    }
}

#[test]
fn the_layout_is_the_one_that_is_documented() {
    assert_eq!(
        crate::layout::layout(),
        include_str!("../testdata/layout.txt")
    );
}
