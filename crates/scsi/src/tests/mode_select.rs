//! MODE SELECT: what changes nothing is accepted.

use alloc::vec;
use alloc::vec::Vec;

use super::bench::{Bench, assert_good, assert_illegal, data, sense};
use crate::{AdditionalSense, BlockLength, FieldPointer, Provisioning, Response};

fn select(bench: &mut Bench, list: &[u8]) -> Response {
    bench.send(&[0x15, 0x10, 0, 0, list.len() as u8, 0], list)
}

fn select_long(bench: &mut Bench, list: &[u8]) -> Response {
    let [high, low] = (list.len() as u16).to_be_bytes();
    bench.send(&[0x55, 0x10, 0, 0, 0, 0, 0, high, low, 0], list)
}

fn assert_wrong(response: &Response, byte: u16, bit: Option<u8>) {
    assert_illegal(response, AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
    let field = FieldPointer {
        in_cdb: false,
        byte,
        bit,
    };
    assert_eq!(sense(response).field, Some(field));
}

/// What MODE SENSE returns of all pages and subpages, to be written back.
fn everything(bench: &mut Bench) -> Vec<u8> {
    data(&bench.run(&[0x1A, 0x00, 0x3F, 0xFF, 255, 0]))
}

#[test]
fn what_was_read_may_be_written_back() {
    for block_length in [BlockLength::Emulated512, BlockLength::Native4096] {
        let mut bench = Bench::with(1 << 20, block_length);
        bench.provisioning = Some(Provisioning {
            used_bytes: 0,
            available_bytes: 1 << 30,
            thresholds_bytes: Some([1 << 28, 1 << 27, 1 << 26]),
        });
        let list = everything(&mut bench);
        assert_good(&select(&mut bench, &list));
        for long in [0x00, 0x10] {
            let list = data(&bench.run(&[0x5A, long, 0x3F, 0xFF, 0, 0, 0, 1, 0, 0]));
            assert_good(&select_long(&mut bench, &list));
        }
        // PS is reserved in what is written, and set by hosts that write what others return.
        let mut list = data(&bench.run(&[0x1A, 0x08, 0x08, 0, 255, 0]));
        list[4] |= 0x80;
        assert_good(&select(&mut bench, &list));
        assert_good(&select(&mut bench, &[]));
        assert_good(&select(&mut bench, &[0; 4]));
    }
}

/// Every bit of a page is held against what it is.
#[test]
fn nothing_can_be_changed() {
    let mut bench = Bench::new();
    let list = everything(&mut bench);
    let of_pages = 12..list.len();
    for byte in of_pages {
        for bit in 0..8 {
            let mut changed = list.clone();
            changed[byte] ^= 1 << bit;
            let response = select(&mut bench, &changed);
            // PS makes no difference; others end in one of the two refusals.
            let is_ps = bit == 7 && [0x01, 0x08, 0x0A, 0x4A, 0x1C].contains(&list[byte]);
            if response.sense.is_none() {
                assert!(is_ps, "byte {byte} bit {bit}");
                continue;
            }
            let additional = sense(&response).additional;
            assert!(
                additional == AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST
                    || additional == AdditionalSense::PARAMETER_LIST_LENGTH_ERROR,
                "byte {byte} bit {bit}: {additional:?}"
            );
        }
    }
    assert_eq!(everything(&mut bench), list);
}

#[test]
fn the_field_is_named() {
    let mut bench = Bench::new();
    // WCE.
    let mut caching = data(&bench.run(&[0x1A, 0x08, 0x08, 0, 255, 0]));
    caching[6] = 0x04;
    assert_wrong(&select(&mut bench, &caching), 6, None);
    // D_SENSE, behind a block descriptor.
    let mut control = data(&bench.run(&[0x1A, 0x00, 0x0A, 0, 255, 0]));
    control[14] |= 0x04;
    assert_wrong(&select(&mut bench, &control), 14, None);
    // A page that is not there, a subpage that is not there, a wrong length.
    assert_wrong(
        &select(&mut bench, &[0, 0, 0, 0, 0x02, 0x02, 0, 0]),
        4,
        Some(5),
    );
    let subpage = [0, 0, 0, 0, 0x4A, 0x07, 0, 1, 0];
    assert_wrong(&select(&mut bench, &subpage), 5, None);
    assert_wrong(&select(&mut bench, &[0, 0, 0, 0, 0x0A, 0x01, 0]), 5, None);
    let long = [0, 0, 0, 0, 0x4A, 0x01, 0, 1, 0];
    assert_wrong(&select(&mut bench, &long), 6, None);
    // Medium type; length of the descriptor; number of blocks; block length.
    assert_wrong(&select(&mut bench, &[0, 1, 0, 0]), 1, None);
    assert_wrong(&select(&mut bench, &[0, 0, 0, 4, 0, 0, 0, 0]), 3, None);
    let descriptor = |blocks: u32, length: u32| {
        let mut list = vec![0, 0, 0, 8];
        list.extend(blocks.to_be_bytes());
        list.extend(length.to_be_bytes());
        list
    };
    assert_wrong(&select(&mut bench, &descriptor(2047, 512)), 4, None);
    assert_wrong(&select(&mut bench, &descriptor(2048, 4096)), 9, None);
    for blocks in [0, 2048, u32::MAX] {
        assert_good(&select(&mut bench, &descriptor(blocks, 512)));
    }
}

#[test]
fn lists_that_end_too_early() {
    let mut bench = Bench::new();
    let list = everything(&mut bench);
    let mut at_pages = vec![4, 12];
    let mut at = 12;
    while at < list.len() {
        at += match list[at] & 0x40 {
            0 => 2 + usize::from(list[at + 1]),
            _ => 4 + usize::from(list[at + 3]),
        };
        at_pages.push(at);
    }
    for length in 1..list.len() {
        let response = select(&mut bench, &list[..length]);
        if at_pages.contains(&length) && length != 4 {
            assert_good(&response);
        } else {
            assert_illegal(&response, AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
        }
    }
}

#[test]
fn formats_and_saving() {
    let mut bench = Bench::new();
    // Not in the standard's format; nothing is saved.
    for flags in [0x00, 0x11, 0x12] {
        assert_illegal(
            &bench.send(&[0x15, flags, 0, 0, 4, 0], &[0; 4]),
            AdditionalSense::INVALID_FIELD_IN_CDB,
        );
    }
    assert_illegal(
        &bench.send(&[0x15, 0x10, 0, 0, 12, 0], &[0; 4]),
        AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
    );
}
