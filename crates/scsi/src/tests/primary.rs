//! Commands of SPC-4, and READ CAPACITY.

use alloc::string::String;
use alloc::vec;

use super::bench::{Bench, UNIT_BLOCKS, assert_good, assert_illegal, data, sense, sixteen, ten};
use crate::{
    AdditionalSense, BlockLength, Cdb, FieldPointer, Outcome, Request, SenseKey, Surroundings,
    UnitAttention, inquiry, respond_absent,
};

fn inquire(page: u8) -> [u8; 6] {
    [0x12, 0x01, page, 0, 255, 0]
}

#[test]
fn standard_inquiry() {
    let mut bench = Bench::new();
    let answer = data(&bench.run(&[0x12, 0, 0, 1, 4, 0]));
    assert_eq!(answer.len(), 96);
    assert_eq!(answer[..8], [0x00, 0x00, 0x06, 0x12, 91, 0x18, 0x10, 0x02]);
    assert_eq!(&answer[8..36], b"HOLDFASTVIRTUAL DISK    0001");
    assert_eq!(
        answer[58..74],
        [
            0x00, 0xA0, 0x09, 0x60, 0x04, 0x60, 0x04, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    for length in 0..=96 {
        let cut = bench.run(&[0x12, 0, 0, 0, length, 0]);
        assert_eq!(data(&cut), answer[..usize::from(length)]);
    }
}

#[test]
fn every_page_that_is_listed_is_answered_and_no_other() {
    let mut bench = Bench::new();
    let listed = data(&bench.run(&inquire(0x00)));
    assert_eq!(listed[..4], [0, 0, 0, 10]);
    assert_eq!(
        listed[4..],
        [0x00, 0x80, 0x83, 0x86, 0x87, 0x88, 0x8F, 0xB0, 0xB1, 0xB2]
    );
    for page in 0..=255 {
        let response = bench.run(&inquire(page));
        if listed[4..].contains(&page) {
            let answer = data(&response);
            assert_eq!(answer[..2], [0x00, page]);
            let length = u16::from_be_bytes([answer[2], answer[3]]);
            assert_eq!(answer.len(), usize::from(length) + 4);
        } else {
            assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
        }
    }
    let without_evpd = bench.run(&[0x12, 0, 0x80, 0, 255, 0]);
    assert_illegal(&without_evpd, AdditionalSense::INVALID_FIELD_IN_CDB);
}

#[test]
fn identification() {
    let mut bench = Bench::new();
    let naa = bench.unit.identity().naa();
    assert_eq!(
        naa,
        [
            0x60, 0x24, 0x84, 0x60, 0x00, 0x00, 0x0A, 0xBC, 0, 0, 0, 0, 0, 0, 0, 7
        ]
    );
    let serial = String::from("602484600000 0abc 0000000000000007").replace(' ', "");
    let page = data(&bench.run(&inquire(0x80)));
    assert_eq!(&page[4..], serial.as_bytes());

    let page = data(&bench.run(&inquire(0x83)));
    let mut expected = vec![0x00, 0x83, 0x00, 20 + 44 + 8 + 8 + 44 + 36];
    expected.extend([0x01, 0x03, 0x00, 16]);
    expected.extend(naa);
    expected.extend([0x02, 0x01, 0x00, 40]);
    expected.extend(inquiry::VENDOR.bytes());
    expected.extend(serial.bytes());
    expected.extend([0x51, 0x94, 0x00, 4, 0, 0, 0, 3]);
    let of_nobody = expected.len();
    expected.extend([0x51, 0x95, 0x00, 4, 0, 0, 0, 3]);
    expected.extend([0x53, 0x98, 0x00, 40]);
    expected.extend(b"iqn.2026-11.io.holdfast:test,t,0x0003\0\0\0");
    expected.extend([0x53, 0xA8, 0x00, 32]);
    expected.extend(b"iqn.2026-11.io.holdfast:test\0\0\0\0");
    assert_eq!(page, expected);

    // Without a name and without groups.
    let request = Request {
        cdb: Cdb::parse(&inquire(0x83), bench.unit.geometry()),
        data_out: vec![],
        data_out_expected: 0,
        data_in_expected: 255,
        luns: &[],
        access: &bench.access,
        port: &bench.port,
        surroundings: Surroundings::default(),
    };
    let Outcome::Done(response) = bench.unit.begin(&mut bench.nexus, request) else {
        panic!("INQUIRY needs no medium")
    };
    expected[3] = 20 + 44 + 8;
    assert_eq!(data(&response), expected[..of_nobody]);
}

#[test]
fn limits_in_both_block_lengths() {
    for (block_length, granularity, transfer, optimal, unmap) in [
        (BlockLength::Emulated512, 8, 8192, 2048, 512),
        (BlockLength::Native4096, 1, 1024, 256, 64),
    ] {
        let mut bench = Bench::with(1 << 20, block_length);
        let page = data(&bench.run(&inquire(0xB0)));
        assert_eq!(page.len(), 0x40);
        let long = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().unwrap());
        assert_eq!(page[4], 0, "WSNZ");
        let compared = (4096 / block_length.bytes()) as u8;
        assert_eq!(page[5], compared, "MAXIMUM COMPARE AND WRITE LENGTH");
        assert_eq!(long(4) & 0xFFFF, granularity);
        assert_eq!(long(8), transfer);
        assert_eq!(long(12), optimal);
        assert_eq!(long(20), 1 << 20, "MAXIMUM UNMAP LBA COUNT");
        assert_eq!(long(24), 256, "MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT");
        assert_eq!(long(28), unmap);
        assert_eq!(long(32), 0x8000_0000, "UGAVALID");
        assert_eq!(page[36..44], (1_u64 << 15).to_be_bytes());
        assert_eq!(long(44), optimal, "MAXIMUM ATOMIC TRANSFER LENGTH");
        assert_eq!(long(48), granularity, "ATOMIC ALIGNMENT");
        assert_eq!(long(52), granularity, "ATOMIC TRANSFER LENGTH GRANULARITY");
        assert!(page[56..].iter().all(|byte| *byte == 0));
    }
    let mut bench = Bench::new();
    let page = data(&bench.run(&inquire(0xB1)));
    assert_eq!(page[..8], [0, 0xB1, 0, 0x3C, 0, 1, 0, 0]);
    let page = data(&bench.run(&inquire(0xB2)));
    assert_eq!(page, [0, 0xB2, 0, 4, 0, 0xE4, 2, 0]);
}

#[test]
fn capacities() {
    const READ_CAPACITY_10: [u8; 10] = [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let read_capacity_16 = sixteen(0x9E, 0x10, 0, 32);
    for (bytes, block_length, last_10, last_16, exponent) in [
        (1 << 20, BlockLength::Emulated512, 2047, 2047, 3),
        (1 << 20, BlockLength::Native4096, 255, 255, 0),
        (
            (2 << 40) - 4096,
            BlockLength::Emulated512,
            0xFFFF_FFF7,
            0xFFFF_FFF7,
            3,
        ),
        // The last address would itself be the value that says "ask READ CAPACITY (16)".
        (2 << 40, BlockLength::Emulated512, u32::MAX, 0xFFFF_FFFF, 3),
        (
            64 << 40,
            BlockLength::Emulated512,
            u32::MAX,
            (1_u64 << 37) - 1,
            3,
        ),
        (
            64 << 40,
            BlockLength::Native4096,
            u32::MAX,
            (1 << 34) - 1,
            0,
        ),
    ] {
        let mut bench = Bench::with(bytes, block_length);
        let length = block_length.bytes() as u32;
        let answer = data(&bench.run(&READ_CAPACITY_10));
        assert_eq!(answer[..4], last_10.to_be_bytes());
        assert_eq!(answer[4..], length.to_be_bytes());
        let answer = data(&bench.run(&read_capacity_16));
        assert_eq!(answer.len(), 32);
        assert_eq!(answer[..8], last_16.to_be_bytes());
        assert_eq!(answer[8..12], length.to_be_bytes());
        assert_eq!(answer[12..16], [0, exponent, 0xC0, 0]);
        assert!(answer[16..].iter().all(|byte| *byte == 0));
        let cut = bench.run(&sixteen(0x9E, 0x10, 0, 12));
        assert_eq!(data(&cut), answer[..12]);
    }
}

#[test]
fn units_are_reported() {
    let mut bench = Bench::new();
    let report = |select| [0xA0, 0, select, 0, 0, 0, 0, 0, 0, 255, 0, 0];
    let all = [
        0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x2C, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(data(&bench.run(&report(0x00))), all);
    assert_eq!(data(&bench.run(&report(0x02))), all);
    assert_eq!(data(&bench.run(&report(0x01))), [0; 8]);
    assert_illegal(
        &bench.run(&report(0x10)),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
}

const RECOVERY: [u8; 12] = [0x01, 0x0A, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CACHING: [u8; 20] = [
    0x08, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
const CONTROL: [u8; 12] = [0x0A, 0x0A, 0x02, 0x10, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0];
const EXTENSION: [u8; 32] = {
    let mut page = [0; 32];
    page[0] = 0x4A;
    page[1] = 0x01;
    page[3] = 0x1C;
    page[4] = 0x01;
    page
};
const EXCEPTIONS: [u8; 12] = [0x1C, 0x0A, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn mode_pages_by_themselves_and_all() {
    let mut bench = Bench::new();
    for (page, subpage, expected) in [
        (0x01, 0x00, RECOVERY.to_vec()),
        (0x01, 0xFF, RECOVERY.to_vec()),
        (0x08, 0x00, CACHING.to_vec()),
        (0x0A, 0x00, CONTROL.to_vec()),
        (0x0A, 0x01, EXTENSION.to_vec()),
        (0x0A, 0xFF, [&CONTROL[..], &EXTENSION].concat()),
        (0x1C, 0x00, EXCEPTIONS.to_vec()),
    ] {
        let answer = data(&bench.run(&[0x1A, 0x08, page, subpage, 255, 0]));
        assert_eq!(answer[..4], [3 + expected.len() as u8, 0, 0x10, 0]);
        assert_eq!(&answer[4..], expected);
    }
    let all = [&RECOVERY[..], &CACHING, &CONTROL, &EXCEPTIONS].concat();
    let all_subpages = [&RECOVERY[..], &CACHING, &CONTROL, &EXTENSION, &EXCEPTIONS].concat();
    // With a block descriptor in the header's wake.
    let answer = data(&bench.run(&[0x1A, 0x00, 0x3F, 0, 255, 0]));
    assert_eq!(answer[..4], [3 + 8 + 56, 0, 0x10, 8]);
    assert_eq!(answer[4..12], [0, 0, 8, 0, 0, 0, 2, 0]);
    assert_eq!(answer[12..], all);
    let cut = data(&bench.run(&[0x1A, 0x00, 0x3F, 0, 4, 0]));
    assert_eq!(cut, answer[..4]);
    // Defaults are what they are; nothing can be changed; nothing is saved.
    let defaults = data(&bench.run(&[0x1A, 0x08, 0x80 | 0x3F, 0xFF, 255, 0]));
    assert_eq!(defaults[4..], all_subpages);
    let changeable = data(&bench.run(&[0x1A, 0x08, 0x40 | 0x0A, 0, 255, 0]));
    assert_eq!(changeable[4..], [0x0A, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_illegal(
        &bench.run(&[0x1A, 0x08, 0xC0 | 0x3F, 0, 255, 0]),
        AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED,
    );
    // Access that is symmetric does not change by itself.
    bench.groups.clear();
    let answer = data(&bench.run(&[0x1A, 0x08, 0x0A, 0x01, 255, 0]));
    assert_eq!(answer[8], 0);
}

#[test]
fn the_long_mode_sense() {
    let mut bench = Bench::new();
    let answer = data(&bench.run(&[0x5A, 0x00, 0x0A, 0, 0, 0, 0, 1, 0, 0]));
    assert_eq!(answer[..8], [0, 6 + 8 + 12, 0, 0x10, 0, 0, 0, 8]);
    assert_eq!(answer[8..16], [0, 0, 8, 0, 0, 0, 2, 0]);
    assert_eq!(answer[16..], CONTROL);
    let answer = data(&bench.run(&[0x5A, 0x10, 0x0A, 0, 0, 0, 0, 1, 0, 0]));
    assert_eq!(answer[..8], [0, 6 + 16 + 12, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(answer[8..16], UNIT_BLOCKS.to_be_bytes());
    assert_eq!(answer[16..24], [0, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(answer[24..], CONTROL);
    let mut large = Bench::with(64 << 40, BlockLength::Native4096);
    let answer = data(&large.run(&[0x1A, 0x00, 0x0A, 0, 255, 0]));
    assert_eq!(answer[4..12], [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x10, 0]);
}

#[test]
fn mode_pages_that_are_not_there() {
    let mut bench = Bench::new();
    let field = |response| sense(&response).field;
    assert_eq!(
        field(bench.run(&[0x1A, 0, 0x02, 0, 255, 0])),
        Some(FieldPointer {
            in_cdb: true,
            byte: 2,
            bit: Some(5)
        })
    );
    assert_eq!(
        field(bench.run(&[0x1A, 0, 0x0A, 2, 255, 0])),
        Some(FieldPointer {
            in_cdb: true,
            byte: 3,
            bit: None
        })
    );
}

#[test]
fn a_unit_says_first_that_it_is_new() {
    let mut bench = Bench::just_powered_on(1 << 20, BlockLength::Emulated512);
    // The three that do not care, and do not end it.
    assert_good(&bench.run(&[0x12, 0, 0, 0, 96, 0]));
    assert_good(&bench.run(&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]));
    assert_illegal(
        &bench.run(&[0x12, 0, 1, 0, 96, 0]),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
    // It is told even where the command would be refused.
    let told = sense(&bench.run(&[0xFF; 16]));
    assert_eq!(told.key, SenseKey::UnitAttention);
    assert_eq!(
        told.additional,
        AdditionalSense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED
    );
    assert_illegal(
        &bench.run(&[0xFF; 16]),
        AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
    );
    assert_good(&bench.run(&[0; 6]));
}

#[test]
fn a_write_is_not_begun_while_something_is_to_be_told() {
    let mut bench = Bench::new();
    bench.unit.grow(2 << 20);
    bench.nexus.raise(UnitAttention::CapacityChanged);
    let write = ten(0x2A, 0, 0, 1);
    let told = sense(&bench.send(&write, &[7; 512]));
    assert_eq!(told.additional, AdditionalSense::CAPACITY_DATA_HAS_CHANGED);
    assert!(bench.operations.is_empty());
    assert_good(&bench.send(&write, &[7; 512]));
    let answer = data(&bench.run(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(answer[..4], 4095_u32.to_be_bytes());
}

#[test]
fn request_sense_tells_what_waits() {
    let mut bench = Bench::just_powered_on(1 << 20, BlockLength::Emulated512);
    bench.nexus.raise(UnitAttention::CapacityChanged);
    let fixed = data(&bench.run(&[0x03, 0, 0, 0, 252, 0]));
    assert_eq!(fixed[..3], [0x70, 0, 6]);
    assert_eq!(fixed[12..14], [0x29, 0x00]);
    assert_eq!(fixed.len(), 18);
    let descriptor = data(&bench.run(&[0x03, 1, 0, 0, 252, 0]));
    assert_eq!(descriptor, [0x72, 6, 0x2A, 0x09, 0, 0, 0, 0]);
    let nothing = data(&bench.run(&[0x03, 1, 0, 0, 252, 0]));
    assert_eq!(nothing, [0x72, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(data(&bench.run(&[0x03, 0, 0, 0, 3, 0])), [0x70, 0, 0]);
}

#[test]
fn report_luns_ends_the_attention_about_luns() {
    let mut bench = Bench::new();
    bench.nexus.raise(UnitAttention::ReportedLunsChanged);
    assert_good(&bench.run(&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]));
    assert_good(&bench.run(&[0; 6]));
}

#[test]
fn start_stop() {
    let mut bench = Bench::new();
    assert_good(&bench.run(&[0x1B, 0, 0, 0, 0x01, 0]));
    assert_good(&bench.run(&[0x1B, 1, 0, 0, 0x05, 0]));
    for refused in [0x00, 0x02, 0x03, 0x10, 0xB1] {
        assert_illegal(
            &bench.run(&[0x1B, 0, 0, 0, refused, 0]),
            AdditionalSense::INVALID_FIELD_IN_CDB,
        );
    }
}

#[test]
fn a_unit_that_is_not_there() {
    let luns = [crate::Lun::from_number(0)];
    let answer = data(&respond_absent(&[0x12, 0, 0, 0, 96, 0], &luns));
    assert_eq!(answer[0], 0x7F);
    assert_eq!(answer.len(), 96);
    let answer = data(&respond_absent(&inquire(0x00), &luns));
    assert_eq!(answer, [0x7F, 0, 0, 1, 0]);
    assert_illegal(
        &respond_absent(&inquire(0x83), &luns),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
    let answer = data(&respond_absent(
        &[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0],
        &luns,
    ));
    assert_eq!(answer.len(), 16);
    let answer = data(&respond_absent(&[0x03, 0, 0, 0, 18, 0], &luns));
    assert_eq!((answer[2], answer[12], answer[13]), (5, 0x25, 0));
    for cdb in [&[0; 6][..], &ten(0x28, 0, 0, 1), &[0xFF; 16], &[]] {
        assert_illegal(
            &respond_absent(cdb, &luns),
            AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED,
        );
    }
}
