//! Log pages, and what goes with them: thresholds.

use super::bench::{Bench, assert_illegal, data};
use crate::{AdditionalSense, Provisioning};

fn log(page: u8, subpage: u8, pointer: u16) -> [u8; 10] {
    let [high, low] = pointer.to_be_bytes();
    [0x4D, 0, 0x40 | page, subpage, 0, high, low, 0, 255, 0]
}

const PROVISIONING: Provisioning = Provisioning {
    used_bytes: (3 << 30) + 5,
    available_bytes: u64::MAX,
    thresholds_bytes: Some([10 << 30, 5 << 30, 1 << 30]),
};

#[test]
fn pages_are_listed_as_they_are_answered() {
    let mut bench = Bench::new();
    assert_eq!(data(&bench.run(&log(0, 0, 0))), [0, 0, 0, 2, 0x00, 0x2F]);
    bench.provisioning = Some(PROVISIONING);
    let listed = data(&bench.run(&log(0, 0, 0)));
    assert_eq!(listed, [0, 0, 0, 3, 0x00, 0x0C, 0x2F]);
    assert_eq!(
        data(&bench.run(&log(0, 0xFF, 0))),
        [
            0x40, 0xFF, 0, 8, 0x00, 0x00, 0x00, 0xFF, 0x0C, 0x00, 0x2F, 0x00
        ]
    );
    for page in 0..0x40 {
        let response = bench.run(&log(page, 0, 0));
        if listed[4..].contains(&page) {
            assert_eq!(data(&response)[0], page);
        } else {
            assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
        }
    }
    for (page, subpage) in [(0x00, 0x01), (0x0C, 0x01), (0x2F, 0xFF)] {
        let response = bench.run(&log(page, subpage, 0));
        assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn space_is_counted_in_sets() {
    let mut bench = Bench::new();
    assert_illegal(
        &bench.run(&log(0x0C, 0, 0)),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
    assert_eq!(data(&bench.run(&[0x12, 1, 0xB2, 0, 8, 0]))[4], 0);
    bench.provisioning = Some(PROVISIONING);
    // 2^11 blocks of 512 bytes.
    assert_eq!(data(&bench.run(&[0x12, 1, 0xB2, 0, 8, 0]))[4], 11);
    let available = [0, 1, 3, 8, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0];
    let used = [0, 2, 3, 8, 0, 0, 0x0C, 0x00, 1, 0, 0, 0];
    let page = data(&bench.run(&log(0x0C, 0, 0)));
    assert_eq!(page, [&[0x0C, 0, 0, 24][..], &available, &used].concat());
    let page = data(&bench.run(&log(0x0C, 0, 2)));
    assert_eq!(page, [&[0x0C, 0, 0, 12][..], &used].concat());
    assert_illegal(
        &bench.run(&log(0x0C, 0, 3)),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
}

#[test]
fn the_thresholds_are_a_mode_page() {
    let mut bench = Bench::new();
    bench.provisioning = Some(PROVISIONING);
    let page = data(&bench.run(&[0x1A, 0x08, 0x1C, 0x02, 255, 0]));
    let mut expected = [0; 4 + 36];
    expected[..4].copy_from_slice(&[0x5C, 0x02, 0, 36]);
    for (place, sets) in [0x28, 0x14, 0x04].into_iter().enumerate() {
        let at = 16 + place * 8;
        expected[at..at + 8].copy_from_slice(&[0x80, 0x01, 0, 0, 0, 0, sets, 0]);
    }
    assert_eq!(page[4..], expected);
    bench.provisioning = Some(Provisioning {
        thresholds_bytes: None,
        ..PROVISIONING
    });
    assert_illegal(
        &bench.run(&[0x1A, 0x08, 0x1C, 0x02, 255, 0]),
        AdditionalSense::INVALID_FIELD_IN_CDB,
    );
}

#[test]
fn there_are_no_exceptions_and_no_temperature() {
    let mut bench = Bench::new();
    assert_eq!(
        data(&bench.run(&log(0x2F, 0, 0))),
        [0x2F, 0, 0, 8, 0, 0, 3, 4, 0, 0, 0xFF, 0]
    );
    // SP: nothing is saved.
    let mut saving = log(0x2F, 0, 0);
    saving[1] = 1;
    assert_illegal(&bench.run(&saving), AdditionalSense::INVALID_FIELD_IN_CDB);
}
