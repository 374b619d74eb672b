//! The table of commands, what hosts are shown of it, and whether the parser holds to it.

use alloc::vec::Vec;

use super::bench::{Bench, assert_good, assert_illegal, data, sense};
use crate::operation_codes::{OPERATION_CODES, OperationCode};
use crate::{AdditionalSense, BlockLength, Cdb, Geometry, SenseKey, leaves_traces};

/// A CDB of that command which is accepted.
fn example(row: &OperationCode) -> Vec<u8> {
    let mut cdb = alloc::vec![0; row.usage.len()];
    cdb[0] = row.operation_code;
    cdb[1] = row.service_action.unwrap_or_default() as u8;
    match row.operation_code {
        0x1A | 0x5A => cdb[2] = 0x3F,
        0x1B => cdb[4] = 0x01,
        0x5F => (cdb[2], cdb[8]) = (0x01, 24),
        _ => {}
    }
    cdb
}

#[test]
fn rows_ascend_and_are_consistent() {
    for pair in OPERATION_CODES.windows(2) {
        let key = |row: &OperationCode| (row.operation_code, row.service_action);
        assert!(key(&pair[0]) < key(&pair[1]));
        if pair[0].operation_code == pair[1].operation_code {
            assert!(pair[0].service_action.is_some());
            assert!(pair[1].service_action.is_some());
        }
    }
    for row in OPERATION_CODES {
        // SPC-4, Group codes.
        let length = match row.operation_code >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            5 => 12,
            group => panic!("commands of group {group} have no fixed length"),
        };
        assert_eq!(row.usage.len(), length, "{:02x}", row.operation_code);
        assert_eq!(row.usage[1] & row.tolerated_flags, 0);
        assert_eq!(row.usage[length - 1], 0, "CONTROL: NACA is refused");
    }
}

/// What a command is known to change is not left to what else its table says: here is all of it.
#[test]
fn commands_that_leave_traces_are_these() {
    let with_traces = OPERATION_CODES
        .iter()
        .filter(|row| leaves_traces(&example(row)))
        .map(|row| row.operation_code);
    let mut codes: Vec<u8> = with_traces.collect();
    codes.dedup();
    let wanted = [
        0x0A, 0x15, 0x16, 0x17, 0x2A, 0x2E, 0x41, 0x42, 0x55, 0x56, 0x57, 0x5F, 0x83, 0x89, 0x8A,
        0x8B, 0x8E, 0x93, 0x9C, 0xA4, 0xAA, 0xAE,
    ];
    assert_eq!(codes, wanted);
    // A table of groups is read by what is set by another operation code; a copy's results by 84h.
    for cdb in [[0x84, 0x03], [0xA3, 0x0A], [0x5E, 0x00], [0xC1, 0x00]] {
        assert!(!leaves_traces(&cdb), "{cdb:02x?}");
    }
    assert!(!leaves_traces(&[]));
}

#[test]
fn every_row_is_understood_and_nothing_else() {
    let geometry = Bench::new().unit.geometry();
    for row in OPERATION_CODES {
        let command = Cdb::parse(&example(row), geometry).command();
        assert!(command.is_ok(), "{:02x}: {command:?}", row.operation_code);
    }
    for operation_code in 0..=255 {
        let rows = || {
            let of_code = move |row: &&OperationCode| row.operation_code == operation_code;
            OPERATION_CODES.iter().filter(of_code)
        };
        let mut cdb = [0; 16];
        cdb[0] = operation_code;
        if rows().next().is_none() {
            let refusal = Cdb::parse(&cdb, geometry).command().unwrap_err();
            assert_eq!(refusal.key, SenseKey::IllegalRequest);
            assert_eq!(
                refusal.additional,
                AdditionalSense::INVALID_COMMAND_OPERATION_CODE
            );
            continue;
        }
        let actions: Vec<u16> = rows().filter_map(|row| row.service_action).collect();
        for action in 0..32 {
            cdb[1] = action;
            let refusal = Cdb::parse(&cdb, geometry).command().err();
            if !actions.is_empty() && !actions.contains(&action.into()) {
                let refusal = refusal.expect("there is no such service action");
                assert_eq!(refusal, crate::Sense::invalid_cdb_field(1, Some(4)));
            }
        }
    }
}

#[test]
fn the_usage_bitmap_is_what_the_parser_reads() {
    let geometry = Bench::new().unit.geometry();
    for row in OPERATION_CODES {
        let example = example(row);
        let accepted = Cdb::parse(&example, geometry).command();
        for byte in 1..example.len() {
            for bit in 0..8 {
                let mut cdb = example.clone();
                cdb[byte] ^= 1 << bit;
                let used = row.usage_data().nth(byte).unwrap() & (1 << bit) != 0;
                let action = row.service_action.is_some() && byte == 1 && bit < 5;
                let tolerated = byte == 1 && row.tolerated_flags & (1 << bit) != 0;
                let command = Cdb::parse(&cdb, geometry).command();
                let what = alloc::format!("{:02x} byte {byte} bit {bit}", example[0]);
                if action {
                    assert!(command != accepted, "{what}");
                } else if tolerated {
                    assert_eq!(command, accepted, "{what}");
                } else if !used {
                    let refusal = command.expect_err(&what);
                    assert_eq!(
                        refusal.additional,
                        AdditionalSense::INVALID_FIELD_IN_CDB,
                        "{what}"
                    );
                    let field = refusal.field.expect("the field is named");
                    assert_eq!(usize::from(field.byte), byte, "{what}");
                    assert!(field.bit.is_none_or(|highest| highest >= bit), "{what}");
                }
            }
        }
    }
}

/// Bits that may be set are read, or asked for what a unit does anyway: DPO; FUA; IMMED; NO_FLUSH.
/// All others change what is understood.
#[test]
fn used_bits_make_a_difference() {
    // Not a power of two, so that no single bit says what "to the end" says.
    let geometry = Geometry::new((1 << 20) + 4096, BlockLength::Emulated512);
    let hints = |row: &OperationCode, byte: usize| match (row.operation_code, byte) {
        (0x28 | 0xA8 | 0x88 | 0x2A | 0xAA | 0x8A, 1) => 0x10,
        (0x2E | 0xAE | 0x8E | 0x2F | 0xAF | 0x8F, 1) => 0x10,
        (0x35 | 0x91 | 0x34 | 0x90, 1) => 0x02,
        // DPO and FUA; groups; PC.
        (0x89 | 0x8B | 0x9C, 1) => 0x18,
        (0x34, 6) | (0x90, 14) => 0x1F,
        (0x4D, 2) => 0xC0,
        (0x1B, 1) => 0x01,
        (0x1B, 4) => 0x04,
        // SCOPE and TYPE of REGISTER, CLEAR and the like.
        (0x5F, 2) if matches!(row.service_action, Some(0 | 3 | 6 | 7)) => 0xFF,
        // Ignored where all commands are asked for, as here.
        (0xA3, 3..=5) => 0xFF,
        _ => 0x00,
    };
    for row in OPERATION_CODES {
        let example = example(row);
        let accepted = Cdb::parse(&example, geometry).command();
        for byte in 1..example.len() {
            for bit in 0..8 {
                if row.usage[byte] & !hints(row, byte) & (1 << bit) == 0 {
                    continue;
                }
                let mut cdb = example.clone();
                cdb[byte] ^= 1 << bit;
                let command = Cdb::parse(&cdb, geometry).command();
                assert!(
                    command != accepted,
                    "{:02x} byte {byte} bit {bit}",
                    example[0]
                );
            }
        }
    }
}

#[test]
fn short_cdbs_are_refused() {
    let geometry = Bench::new().unit.geometry();
    for row in OPERATION_CODES {
        let example = example(row);
        for length in 1..example.len() {
            let cdb = Cdb::parse(&example[..length], geometry);
            assert!(cdb.command().is_err());
        }
    }
    assert!(Cdb::parse(&[], geometry).command().is_err());
}

fn report(option: u8, operation_code: u8, service_action: u16) -> [u8; 12] {
    let [high, low] = service_action.to_be_bytes();
    [
        0xA3,
        0x0C,
        option,
        operation_code,
        high,
        low,
        0,
        0,
        0xFF,
        0xFF,
        0,
        0,
    ]
}

#[test]
fn all_commands_are_reported() {
    let mut bench = Bench::new();
    for (option, size) in [(0x00, 8), (0x80, 20)] {
        let answer = data(&bench.run(&report(option, 0, 0)));
        let length = u32::from_be_bytes(answer[..4].try_into().unwrap()) as usize;
        assert_eq!(answer.len(), length + 4);
        assert_eq!(length, size * OPERATION_CODES.len());
        for (descriptor, row) in answer[4..].chunks_exact(size).zip(OPERATION_CODES) {
            let [high, low] = row.service_action.unwrap_or_default().to_be_bytes();
            let flags = u8::from(size == 20) << 1 | u8::from(row.service_action.is_some());
            assert_eq!(
                descriptor[..8],
                [
                    row.operation_code,
                    0,
                    high,
                    low,
                    0,
                    flags,
                    0,
                    row.usage.len() as u8
                ]
            );
            if size == 20 {
                assert_eq!(descriptor[8..], [0, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 30]);
            }
        }
    }
}

#[test]
fn one_command_is_reported() {
    let mut bench = Bench::new();
    for row in OPERATION_CODES {
        let action = row.service_action.unwrap_or_default();
        let (right, wrong) = match row.service_action {
            Some(_) => (2, 1),
            None => (1, 2),
        };
        let refused = bench.run(&report(wrong, row.operation_code, action));
        assert_illegal(&refused, AdditionalSense::INVALID_FIELD_IN_CDB);
        let answer = data(&bench.run(&report(right, row.operation_code, action)));
        assert_eq!(answer[..4], [0, 3, 0, row.usage.len() as u8]);
        assert!(row.usage_data().eq(answer[4..].iter().copied()));
        let either = data(&bench.run(&report(3, row.operation_code, action)));
        assert_eq!(either, answer);
        let timed = data(&bench.run(&report(0x80 | right, row.operation_code, action)));
        assert_eq!(timed[1], 0x83);
        assert_eq!(timed.len(), answer.len() + 12);
    }
    let read_10 = data(&bench.run(&report(1, 0x28, 0)));
    assert_eq!(
        read_10[4..],
        [0x28, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0]
    );
    for (option, operation_code, action) in [
        (1, 0x4C, 0),
        (2, 0x5F, 8),
        (3, 0x5F, 8),
        (2, 0x9E, 0x11),
        (3, 0x9E, 0x11),
        (3, 0x28, 1),
    ] {
        let answer = data(&bench.run(&report(option, operation_code, action)));
        assert_eq!(answer, [0, 1, 0, 0]);
    }
    assert_good(&bench.run(&report(0, 0xFF, 0xFFFF)));
    let reserved = sense(&bench.run(&report(4, 0x28, 0)));
    assert_eq!(reserved.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
}
