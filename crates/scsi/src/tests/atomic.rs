//! What is done in one step: COMPARE AND WRITE, ORWRITE, WRITE ATOMIC; and PRE-FETCH.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::SLICE_SIZE;
use holdfast_stdx::Bytes;

use super::bench::{Bench, UNIT_BLOCKS, assert_good, assert_illegal, pattern, sense, sixteen, ten};
use crate::{
    AdditionalSense, BlockLength, FieldPointer, MediumError, MediumOperation, Response, SenseKey,
};

fn compare_and_write(first: u64, count: u8) -> [u8; 16] {
    let mut cdb = sixteen(0x89, 0, first, 0);
    cdb[13] = count;
    cdb
}

fn write_atomic(first: u64, count: u16) -> [u8; 16] {
    let mut cdb = sixteen(0x9C, 0, first, 0);
    cdb[12..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

fn assert_field(response: &Response, byte: u16) {
    assert_illegal(response, AdditionalSense::INVALID_FIELD_IN_CDB);
    let field = FieldPointer {
        in_cdb: true,
        byte,
        bit: None,
    };
    assert_eq!(sense(response).field, Some(field));
}

#[test]
fn what_is_compared_comes_first_and_what_is_written_after_it() {
    let mut bench = Bench::new();
    let (old, new) = (pattern(8, 1), pattern(8, 2));
    assert_good(&bench.send(&ten(0x2A, 0, 5, 8), &old));
    bench.operations.clear();
    let both = [&old[..], &new].concat();
    assert_good(&bench.send(&compare_and_write(5, 8), &both));
    assert_eq!(
        bench.operations,
        [MediumOperation::CompareAndWrite {
            offset: 5 * 512,
            expected: Bytes::from(old.clone()),
            data: Bytes::from(new.clone()),
        }]
    );
    assert_eq!(bench.content[5 * 512..13 * 512], new);

    // The second of them finds what the first has written.
    let miscompare = bench.send(&compare_and_write(5, 8), &both);
    let told = sense(&miscompare);
    assert_eq!(told.key, SenseKey::Miscompare);
    assert_eq!(
        told.additional,
        AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION
    );
    let position = old.iter().zip(&new).position(|(a, b)| a != b).unwrap();
    assert_eq!(told.information, Some(position as u64));
    assert_eq!(bench.content[5 * 512..13 * 512], new);
}

#[test]
fn a_miscompare_says_where_in_the_data_it_is() {
    let mut bench = Bench::new();
    let mut both = vec![0; 2 * 3 * 512];
    both[2 * 512 + 17] = 1;
    let told = sense(&bench.send(&compare_and_write(100, 3), &both));
    assert_eq!(told.information, Some(2 * 512 + 17));
}

#[test]
fn comparing_nothing_writes_nothing() {
    let mut bench = Bench::new();
    // As the conformance suite of libiscsi does it, with data for half a block (CompareAndWrite.DpoFua).
    assert_good(&bench.send(&compare_and_write(0, 0), &[1; 512]));
    // Of 256 blocks the number is zero (CompareAndWrite.Simple).
    assert_good(&bench.send(&compare_and_write(0, 0), &[1; 8192]));
    assert_field(&bench.send(&compare_and_write(0, 0), &[1; 8193]), 13);
    assert!(bench.operations.is_empty());
}

#[test]
fn limits_of_compare_and_write() {
    let mut bench = Bench::new();
    assert_field(&bench.send(&compare_and_write(0, 9), &[0; 9 * 1024]), 13);
    assert_illegal(
        &bench.send(&compare_and_write(UNIT_BLOCKS - 1, 2), &[0; 2048]),
        AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
    );
    // More data than the CDB takes, and less.
    for count in [1, 3] {
        assert_illegal(
            &bench.send(&compare_and_write(0, count), &[0; 4 * 512]),
            AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
        );
    }
    assert!(bench.operations.is_empty());

    let mut native = Bench::with(1 << 20, BlockLength::Native4096);
    assert_field(&native.send(&compare_and_write(0, 2), &[0; 4 * 4096]), 13);
    assert_good(&native.send(&compare_and_write(3, 1), &[0; 2 * 4096]));
}

#[test]
fn what_straddles_slices_is_not_compared_in_one_step() {
    let mut bench = Bench::with(4 * SLICE_SIZE, BlockLength::Emulated512);
    bench.failure = Some(MediumError::Busy);
    let border = SLICE_SIZE / 512;
    assert_field(
        &bench.send(&compare_and_write(border - 1, 2), &[0; 2048]),
        2,
    );
    assert!(bench.operations.is_empty());
    let _ = bench.send(&compare_and_write(border - 2, 2), &[0; 2048]);
    let _ = bench.send(&compare_and_write(border, 2), &[0; 2048]);
    assert_eq!(bench.operations.len(), 2);
}

#[test]
fn bits_are_set_and_none_is_cleared() {
    let mut bench = Bench::new();
    assert_good(&bench.send(&ten(0x2A, 0, 1, 3), &[0x0F; 3 * 512]));
    assert_good(&bench.send(&sixteen(0x8B, 0x18, 2, 2), &[0xA1; 1024]));
    assert!(bench.content[512..1024].iter().all(|byte| *byte == 0x0F));
    assert!(bench.content[1024..2048].iter().all(|byte| *byte == 0xAF));
    assert_good(&bench.send(&sixteen(0x8B, 0, 2, 0), &[]));
    assert_eq!(bench.operations.len(), 2);
    // More than one command may move.
    let mut large = Bench::with(1 << 40, BlockLength::Emulated512);
    assert_field(&large.send(&sixteen(0x8B, 0, 0, 8193), &[]), 10);
}

#[test]
fn an_atomic_write_is_one_operation() {
    let mut bench = Bench::with(4 << 20, BlockLength::Emulated512);
    for (first, count) in [(0, 8), (8, 16), (2048, 2048), (2040, 8), (0, 2048)] {
        bench.operations.clear();
        let data = pattern(usize::from(count), 3);
        assert_good(&bench.send(&write_atomic(first, count), &data));
        let [
            MediumOperation::WriteAtomic {
                offset,
                data: written,
            },
        ] = &bench.operations[..]
        else {
            panic!("{:?}", bench.operations)
        };
        assert_eq!(*offset, first * 512);
        assert_eq!(written.concat(), data);
    }
}

#[test]
fn limits_of_atomic_writes() {
    let mut bench = Bench::with(8 << 20, BlockLength::Emulated512);
    let data = vec![0; 2 << 20];
    let granularity = bench.send(&write_atomic(0, 1), &data);
    assert_field(&granularity, 12);
    assert_field(&bench.send(&write_atomic(0, 2056), &data), 12);
    assert_field(&bench.send(&write_atomic(1, 8), &data), 2);
    let across = bench.send(&write_atomic(2040, 16), &data);
    assert_field(&across, 2);
    // An atomic boundary is asked for.
    let mut cdb = write_atomic(0, 8);
    cdb[11] = 8;
    assert_field(&bench.send(&cdb, &data), 11);
    // Beyond the end, aligned or not.
    let blocks = (8 << 20) / 512;
    for (first, count) in [(blocks - 8, 16), (blocks + 8, 0), (blocks, 8), (1 << 63, 0)] {
        assert_illegal(
            &bench.send(&write_atomic(first, count), &data),
            AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
        );
    }
    assert_illegal(
        &bench.send(&write_atomic(0, 8), &data[..512]),
        AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
    );
    assert_good(&bench.send(&write_atomic(3, 0), &[]));
    assert!(bench.operations.is_empty());
}

#[test]
fn prefetching_is_good_and_does_nothing() {
    let mut bench = Bench::new();
    let mut grouped = ten(0x34, 0x02, 0, 8);
    grouped[6] = 3;
    let mut cdbs: Vec<Vec<u8>> = vec![grouped.to_vec(), ten(0x34, 0, 2047, 1).to_vec()];
    cdbs.push(sixteen(0x90, 0, 0, 0).to_vec());
    for cdb in cdbs {
        assert_good(&bench.run(&cdb));
    }
    for cdb in [&ten(0x34, 0, 2047, 2)[..], &sixteen(0x90, 0, 2048, 0)] {
        assert_illegal(
            &bench.run(cdb),
            AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
        );
    }
    assert!(bench.operations.is_empty());
}
