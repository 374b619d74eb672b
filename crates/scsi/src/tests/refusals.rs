//! What is refused for bits that ask for something which is not to be had.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use super::bench::{Bench, assert_illegal, sense, sixteen, ten, twelve};
use crate::{AdditionalSense, Cdb, FieldPointer, Outcome, Request, Surroundings};

fn assert_refused(cdb: &[u8], byte: u16, bit: Option<u8>) {
    let mut bench = Bench::new();
    let response = bench.send(cdb, &[1; 512]);
    assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
    let field = FieldPointer {
        in_cdb: true,
        byte,
        bit,
    };
    assert_eq!(sense(&response).field, Some(field), "{cdb:x?}");
    assert!(bench.operations.is_empty());
}

#[test]
fn protection_information() {
    for protect in 1..8 {
        let flags = protect << 5;
        for code in [0x28, 0x2A, 0x2E, 0x2F, 0x41] {
            assert_refused(&ten(code, flags, 0, 1), 1, Some(7));
        }
        for code in [0xA8, 0xAA, 0xAE, 0xAF] {
            assert_refused(&twelve(code, flags, 0, 1), 1, Some(7));
        }
        for code in [0x88, 0x89, 0x8A, 0x8B, 0x8E, 0x8F, 0x93, 0x9C] {
            assert_refused(&sixteen(code, flags, 0, 1), 1, Some(7));
        }
    }
}

#[test]
fn groups_and_control() {
    for code in [0x28, 0x2A, 0x2F, 0x35, 0x41, 0x42] {
        let mut cdb = ten(code, 0, 0, 1);
        cdb[6] = 0x05;
        assert_refused(&cdb, 6, None);
        // NACA (SAM-5, CONTROL byte).
        let mut cdb = ten(code, 0, 0, 1);
        cdb[9] = 0x04;
        assert_refused(&cdb, 9, None);
    }
    assert_refused(&[0, 0, 0, 0, 0, 0x04], 5, None);
    assert_refused(&[0x12, 0, 0, 0, 96, 0x04], 5, None);
}

#[test]
fn old_ways() {
    // PMI and an address in READ CAPACITY, CMDDT in INQUIRY, RELADR in READ.
    assert_refused(&[0x25, 0, 0, 0, 0, 0, 0, 0, 1, 0], 8, None);
    assert_refused(&[0x25, 0, 0, 0, 0, 7, 0, 0, 0, 0], 5, None);
    assert_refused(&[0x12, 0x02, 0x28, 0, 96, 0], 1, Some(7));
    assert_refused(&ten(0x28, 0x01, 0, 1), 1, Some(0));
}

#[test]
fn commands_of_later_issues_are_unknown() {
    let mut bench = Bench::new();
    // FORMAT, SANITIZE.
    for code in [0x04, 0x48] {
        let mut cdb = [0; 16];
        cdb[0] = code;
        assert_illegal(
            &bench.run(&cdb),
            AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
        );
    }
    // The operation code is known, this service action is not: REPORT IDENTIFYING INFORMATION, EXTENDED COPY (LID4),
    // POPULATE TOKEN, RECEIVE COPY DATA (LID1), RECEIVE ROD TOKEN INFORMATION.
    for head in [
        [0xA3, 0x05],
        [0x83, 0x01],
        [0x83, 0x10],
        [0x84, 0x01],
        [0x84, 0x07],
    ] {
        let mut cdb = [0; 16];
        cdb[..2].copy_from_slice(&head);
        assert_illegal(&bench.run(&cdb), AdditionalSense::INVALID_FIELD_IN_CDB);
    }
}

/// As the initiator's flags say that data moves one way, and the CDB the other.
fn misdirected(cdb: &[u8], data_out_expected: u64, data_in_expected: u64) -> Outcome {
    let mut bench = Bench::new();
    let cdb = Cdb::parse(cdb, bench.unit.geometry());
    let data_out = match data_out_expected.min(cdb.data_out_length()) {
        0 => Vec::new(),
        length => vec![Bytes::from(vec![1; length as usize])],
    };
    let request = Request {
        cdb,
        data_out,
        data_out_expected,
        data_in_expected,
        luns: &[],
        access: &bench.access,
        port: &bench.port,
        surroundings: Surroundings::default(),
    };
    bench.unit.begin(&mut bench.nexus, request)
}

#[test]
fn data_in_the_wrong_direction() {
    let additional = AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT;
    let mut unmap = ten(0x42, 0, 0, 24);
    unmap[8] = 24;
    for cdb in [
        ten(0x2A, 0, 0, 1),
        ten(0x2E, 0, 0, 1),
        ten(0x2F, 0x02, 0, 1),
        ten(0x41, 0, 0, 1),
        unmap,
    ] {
        let Outcome::Done(response) = misdirected(&cdb, 0, 512) else {
            panic!("{cdb:x?} is carried out");
        };
        assert_illegal(&response, additional);
        assert_eq!(response.transfer_length, 0, "{cdb:x?}");
    }
    let inquiry = [0x12, 0, 0, 0, 96, 0];
    for cdb in [&ten(0x28, 0, 0, 1)[..], &ten(0x25, 0, 0, 0), &inquiry] {
        let Outcome::Done(response) = misdirected(cdb, 512, 0) else {
            panic!("{cdb:x?} reads the medium");
        };
        assert!(response.sense.is_none(), "{cdb:x?}");
        assert_eq!(response.transfer_length, 0, "{cdb:x?}");
    }
    // Without data there is no direction, but too little of it: an overflow, not a mistake.
    let write = misdirected(&ten(0x2A, 0, 0, 1), 0, 0);
    assert!(matches!(write, Outcome::Done(response) if response.transfer_length == 512));
    // Who moves nothing may say what it wants.
    let ready = misdirected(&[0; 6], 0, 512);
    assert!(matches!(ready, Outcome::Done(response) if response.sense.is_none()));
}
