//! What is refused for bits that ask for something which is not to be had.

use super::bench::{Bench, assert_illegal, sense, sixteen, ten, twelve};
use crate::{AdditionalSense, FieldPointer};

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
        for code in [0x88, 0x8A, 0x8E, 0x8F, 0x93] {
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
    // Reservations, ALUA, COMPARE AND WRITE, EXTENDED COPY, MODE SELECT, FORMAT, SANITIZE.
    for code in [
        0x16, 0x17, 0x56, 0x57, 0x5E, 0x5F, 0x89, 0x83, 0x84, 0x15, 0x55, 0x04, 0x48,
    ] {
        let mut cdb = [0; 16];
        cdb[0] = code;
        assert_illegal(
            &bench.run(&cdb),
            AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
        );
    }
    // REPORT TARGET PORT GROUPS: the operation code is known, this service action is not.
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0xA3, 0x0A]);
    assert_illegal(&bench.run(&cdb), AdditionalSense::INVALID_FIELD_IN_CDB);
}
