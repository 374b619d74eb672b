//! Target port groups, and what may be asked through ports in which state.

use alloc::vec;
use alloc::vec::Vec;

use super::bench::{Bench, TARGET, assert_good, assert_illegal, data, sense, ten};
use crate::{AccessState, AdditionalSense, FieldPointer, MediumError, SenseKey, UnitAttention};

fn report(format: u8) -> [u8; 12] {
    [0xA3, format << 5 | 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
}

fn set(length: u32) -> [u8; 12] {
    let mut cdb = [0; 12];
    cdb[..2].copy_from_slice(&[0xA4, 0x0A]);
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    cdb
}

fn list(states: &[(u8, u16)]) -> Vec<u8> {
    let mut list = vec![0; 4];
    for (state, group) in states {
        list.extend([*state, 0]);
        list.extend(group.to_be_bytes());
    }
    list
}

#[test]
fn groups_are_reported_in_both_formats() {
    let mut bench = Bench::new();
    let descriptors = [
        0x80, 0xCF, 0, 3, 0, 2, 0, 1, 0, 0, 0, 3, // Preferred, active/optimized.
        0x01, 0xCF, 0, 4, 0, 2, 0, 1, 0, 0, 0, 4,
    ];
    let answer = data(&bench.run(&report(0)));
    assert_eq!(answer, [&[0, 0, 0, 24][..], &descriptors].concat());
    let answer = data(&bench.run(&report(1)));
    assert_eq!(
        answer,
        [&[0, 0, 0, 28, 0x10, 30, 0, 0][..], &descriptors].concat()
    );
    let mut short = report(0);
    short[8..10].copy_from_slice(&[0, 8]);
    assert_eq!(data(&bench.run(&short)).len(), 8);
    assert_illegal(
        &bench.run(&report(2)),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
}

#[test]
fn without_groups_access_is_symmetric() {
    let mut bench = Bench::new();
    bench.groups.clear();
    for cdb in [report(0), set(0)] {
        assert_illegal(&bench.run(&cdb), AdditionalSense::INVALID_FIELD_IN_CDB);
    }
    assert_eq!(
        data(&bench.run(&[0x12, 0, 0, 0, 96, 0]))[5],
        0x08,
        "TPGS, 3PC"
    );
    // REPORT SUPPORTED OPERATION CODES: not supported.
    for code in [0xA3, 0xA4] {
        let one = [0xA3, 0x0C, 2, code, 0, 0x0A, 0, 0, 0, 255, 0, 0];
        assert_eq!(data(&bench.run(&one)), [0, 1, 0, 0]);
    }
}

#[test]
fn what_hosts_want_is_handed_on() {
    let mut bench = Bench::new();
    let wanted = list(&[(0, 4), (1, 3)]);
    assert_good(&bench.send(&set(12), &wanted));
    assert_eq!(
        bench.wanted[0].states(),
        [
            (4, AccessState::ActiveOptimized),
            (3, AccessState::ActiveNonOptimized)
        ]
    );
    bench.failure = Some(MediumError::NotReady);
    let failed = sense(&bench.send(&set(12), &wanted));
    assert_eq!(failed.key, SenseKey::HardwareError);
    assert_eq!(
        failed.additional,
        AdditionalSense::SET_TARGET_PORT_GROUPS_COMMAND_FAILED
    );
    bench.wanted.clear();
    // Nothing is wanted.
    assert_good(&bench.send(&set(0), &[]));
    assert_good(&bench.send(&set(4), &[0; 4]));
    assert!(bench.wanted.is_empty());
}

#[test]
fn what_hosts_may_not_want() {
    let mut bench = Bench::new();
    for (states, byte, bit) in [
        // Standby, unavailable, offline: a port that others use.
        (&[(0x2, 3)][..], 4, Some(3)),
        (&[(0x0, 4), (0x3, 3)], 8, Some(3)),
        (&[(0xE, 3)], 4, Some(3)),
        (&[(0xF, 3)], 4, Some(3)),
        // A group that is not there, and one that is named twice.
        (&[(0x0, 9)], 6, None),
        (&[(0x0, 3), (0x1, 3)], 10, None),
    ] {
        let list = list(states);
        let refused = bench.send(&set(list.len() as u32), &list);
        assert_illegal(&refused, AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
        let field = FieldPointer {
            in_cdb: false,
            byte,
            bit,
        };
        assert_eq!(sense(&refused).field, Some(field));
    }
    for length in [1, 7, u32::MAX] {
        assert_illegal(
            &bench.send(&set(length), &[0; 16]),
            AdditionalSense::INVALID_FIELD_IN_CDB,
        );
    }
    assert!(bench.wanted.is_empty());
}

/// State, sense, and whether it lets through: finding out, setting, keeping house.
const STATES: [(AccessState, u16, bool, bool); 4] = [
    (AccessState::Standby, 0x040B, true, true),
    (AccessState::Unavailable, 0x040C, true, false),
    (AccessState::Offline, 0x0412, true, false),
    (AccessState::Transitioning, 0x040A, false, false),
];

#[test]
fn ports_that_are_no_way_now_say_so() {
    for (state, additional, sets, keeps_house) in STATES {
        let mut bench = Bench::new();
        bench.groups[0].state = state;
        let commands: [(&[u8], bool); 12] = [
            (&[0x12, 0, 0, 0, 96, 0], true),
            (&[0x03, 0, 0, 0, 18, 0], true),
            (&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], true),
            (&report(0), true),
            (&set(0), sets),
            (&[0x1A, 0, 0x3F, 0, 255, 0], keeps_house),
            (&[0x15, 0x10, 0, 0, 0, 0], keeps_house),
            (&[0x4D, 0, 0x40, 0, 0, 0, 0, 0, 255, 0], keeps_house),
            (&[0; 6], false),
            (&ten(0x28, 0, 0, 1), false),
            (&ten(0x25, 0, 0, 0), false),
            (&[0x1B, 0, 0, 0, 1, 0], false),
        ];
        for (cdb, is_done) in commands {
            let response = bench.run(cdb);
            if is_done {
                assert_good(&response);
            } else {
                let told = sense(&response);
                assert_eq!(told.key, SenseKey::NotReady, "{state:?} {cdb:x?}");
                assert_eq!(told.additional.0, additional, "{state:?} {cdb:x?}");
            }
        }
        assert!(bench.operations.is_empty());
        // The other port's state is not this one's.
        bench.groups[0].state = AccessState::ActiveNonOptimized;
        bench.groups[1].state = state;
        assert_good(&bench.run(&[0; 6]));
    }
}

#[test]
fn a_change_is_told_first() {
    let mut bench = Bench::new();
    bench.nexus.raise(UnitAttention::AccessStateChanged);
    bench.nexus.raise(UnitAttention::SoftThresholdReached);
    for (code, qualifier) in [(0x2A, 0x06), (0x38, 0x07)] {
        let told = sense(&bench.run(&[0; 6]));
        assert_eq!(told.key, SenseKey::UnitAttention);
        assert_eq!(told.additional.code(), code);
        assert_eq!(told.additional.qualifier(), qualifier);
    }
    assert_good(&bench.run(&[0; 6]));
}

#[test]
fn all_ports_are_listed_with_their_names() {
    let mut bench = Bench::new();
    bench.groups[1].ports = vec![9, 4];
    let page = data(&bench.run(&[0x12, 1, 0x88, 1, 255, 0]));
    let mut expected = vec![0, 0];
    for port in [3, 4, 9_u16] {
        expected.extend([0, 0]);
        expected.extend(port.to_be_bytes());
        expected.extend([0; 6]);
        expected.extend([0, 44, 0x53, 0x98, 0, 40]);
        expected.extend(alloc::format!("{TARGET},t,0x{port:04x}\0\0\0").bytes());
    }
    assert_eq!(page[..4], [0, 0x88, 0, expected.len() as u8]);
    assert_eq!(page[4..], expected);
}

#[test]
fn small_pages() {
    let mut bench = Bench::new();
    let page = data(&bench.run(&[0x12, 1, 0x86, 0, 255, 0]));
    assert_eq!(page.len(), 64);
    assert_eq!(page[..8], [0, 0x86, 0, 0x3C, 0, 0x07, 0, 0]);
    let page = data(&bench.run(&[0x12, 1, 0x87, 0, 255, 0]));
    assert_eq!(page, [0, 0x87, 0, 4, 0x3F, 0xFF, 0, 0]);
}

#[test]
fn task_management_functions_are_reported() {
    let mut bench = Bench::new();
    let report = |extended| [0xA3, 0x0D, extended, 0, 0, 0, 0, 0, 0, 64, 0, 0];
    assert_eq!(data(&bench.run(&report(0))), [0xD8, 0, 0, 0]);
    assert_eq!(
        data(&bench.run(&report(0x80))),
        [0xD8, 0, 0, 12, 1, 0, 0xD8, 0, 0, 0, 0, 150, 0, 0, 0, 150]
    );
}
