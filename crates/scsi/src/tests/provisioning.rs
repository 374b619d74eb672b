//! UNMAP, WRITE SAME and GET LBA STATUS.

use alloc::vec;
use alloc::vec::Vec;

use super::bench::{
    Bench, UNIT_BLOCKS, assert_good, assert_illegal, data, pattern, sense, sixteen, ten,
};
use crate::{
    AdditionalSense, BlockLength, ByteRange, Extent, FieldPointer, MediumData, MediumOperation,
    Outcome, Status,
};

fn parameter_list(descriptors: &[(u64, u32)]) -> Vec<u8> {
    let length = 16 * descriptors.len() as u16;
    let mut list = Vec::new();
    list.extend((length + 6).to_be_bytes());
    list.extend(length.to_be_bytes());
    list.extend([0; 4]);
    for (first, count) in descriptors {
        list.extend(first.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn unmap(bench: &mut Bench, descriptors: &[(u64, u32)]) -> crate::Response {
    let list = parameter_list(descriptors);
    bench.send(&ten(0x42, 0, 0, list.len() as u16), &list)
}

fn full() -> Bench {
    let mut bench = Bench::new();
    let all = pattern(UNIT_BLOCKS as usize, 0xA5);
    assert_good(&bench.send(&ten(0x2A, 0, 0, UNIT_BLOCKS as u16), &all));
    bench.operations.clear();
    bench
}

#[test]
fn unmapped_blocks_read_as_zeros() {
    let mut bench = full();
    let before = bench.content.clone();
    assert_good(&unmap(&mut bench, &[(3, 2), (9, 0), (100, 8)]));
    assert!(
        bench.content[3 * 512..5 * 512]
            .iter()
            .all(|byte| *byte == 0)
    );
    assert!(
        bench.content[100 * 512..108 * 512]
            .iter()
            .all(|byte| *byte == 0)
    );
    assert_eq!(bench.content[..3 * 512], before[..3 * 512]);
    assert_eq!(bench.content[108 * 512..], before[108 * 512..]);
    assert_eq!(bench.operations.len(), 1);
}

#[test]
fn unmapping_nothing() {
    let mut bench = full();
    assert_good(&unmap(&mut bench, &[]));
    assert_good(&unmap(&mut bench, &[(UNIT_BLOCKS, 0)]));
    assert_good(&unmap(&mut bench, &[(1, 0); 256]));
    assert_good(&bench.run(&ten(0x42, 0, 0, 0)));
    assert!(bench.operations.is_empty());
}

#[test]
fn all_of_a_list_is_checked_before_any_of_it_is_done() {
    let mut bench = full();
    let end = UNIT_BLOCKS;
    let response = unmap(&mut bench, &[(0, 8), (end - 1, 2)]);
    assert_illegal(
        &response,
        AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
    );
    assert_eq!(sense(&response).information, Some(end));
    assert!(bench.operations.is_empty());
}

#[test]
fn limits_of_a_list() {
    let mut bench = Bench::with(64 << 40, BlockLength::Emulated512);
    let too_many = unmap(&mut bench, &[(0, 1); 257]);
    let field = |byte| {
        Some(FieldPointer {
            in_cdb: false,
            byte,
            bit: None,
        })
    };
    assert_illegal(&too_many, AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
    assert_eq!(sense(&too_many).field, field(2));
    let too_long = unmap(&mut bench, &[(0, 1 << 19), (0, 1 << 19), (7, 1)]);
    assert_illegal(&too_long, AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
    assert_eq!(sense(&too_long).field, field(8 + 2 * 16 + 8));
    assert!(bench.operations.is_empty());
}

#[test]
fn lists_that_end_too_soon() {
    let mut bench = full();
    let list = parameter_list(&[(0, 8), (16, 8)]);
    for length in 1..list.len() {
        let response = bench.send(&ten(0x42, 0, 0, length as u16), &list[..length]);
        assert_illegal(&response, AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
        // The CDB promises more than is sent.
        let response = bench.send(&ten(0x42, 0, 0, list.len() as u16), &list[..length]);
        assert_illegal(&response, AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    }
    assert!(bench.operations.is_empty());
    // An incomplete descriptor within the stated length is ignored.
    let mut odd = list.clone();
    odd[3] = 31;
    assert_good(&bench.send(&ten(0x42, 0, 0, list.len() as u16), &odd));
    let offset = 0;
    let ranges = vec![ByteRange {
        offset,
        length: 4096,
    }];
    assert_eq!(bench.operations, [MediumOperation::Clear { ranges }]);
}

#[test]
fn the_same_block_over_and_over() {
    let block = pattern(1, 0x77);
    for (cdb, first, count) in [
        (ten(0x41, 0, 5, 9).to_vec(), 5, 9),
        (sixteen(0x93, 0x00, 5, 9).to_vec(), 5, 9),
        (sixteen(0x93, 0x00, 2000, 0).to_vec(), 2000, 48),
        (ten(0x41, 0, 2047, 0).to_vec(), 2047, 1),
    ] {
        let mut bench = full();
        let mut expected = bench.content.clone();
        expected[first * 512..][..count * 512].copy_from_slice(&block.repeat(count));
        assert_good(&bench.send(&cdb, &block));
        assert_eq!(bench.content, expected);
        assert!(matches!(
            bench.operations[..],
            [MediumOperation::Fill { .. }]
        ));
    }
}

#[test]
fn zeros_are_cleared_however_they_are_written() {
    for (cdb, sent) in [
        (ten(0x41, 0x00, 8, 16).to_vec(), 512),
        (ten(0x41, 0x08, 8, 16).to_vec(), 512),
        (sixteen(0x93, 0x08, 8, 16).to_vec(), 512),
        (sixteen(0x93, 0x09, 8, 16).to_vec(), 0),
        (sixteen(0x93, 0x01, 8, 16).to_vec(), 0),
    ] {
        let mut bench = full();
        assert_good(&bench.send(&cdb, &vec![0; sent]));
        let ranges = vec![ByteRange {
            offset: 4096,
            length: 8192,
        }];
        assert_eq!(bench.operations, [MediumOperation::Clear { ranges }]);
        assert!(bench.content[4096..12288].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn unmapping_does_not_look_at_the_block() {
    for cdb in [
        ten(0x41, 0x08, 8, 16).to_vec(),
        sixteen(0x93, 0x08, 8, 16).to_vec(),
    ] {
        let mut bench = full();
        assert_good(&bench.send(&cdb, &[0xFF; 512]));
        let ranges = vec![ByteRange {
            offset: 4096,
            length: 8192,
        }];
        assert_eq!(bench.operations, [MediumOperation::Clear { ranges }]);
    }
}

#[test]
fn the_same_block_not_more_often_than_was_said() {
    let mut bench = Bench::with(64 << 20, BlockLength::Emulated512);
    for flags in [0x00, 0x08] {
        for (cdb, byte) in [
            (ten(0x41, flags, 0, 32769).to_vec(), 7),
            (sixteen(0x93, flags, 0, 32769).to_vec(), 10),
        ] {
            let response = bench.send(&cdb, &[1; 512]);
            assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
            assert_eq!(sense(&response).field.map(|field| field.byte), Some(byte));
        }
        assert_good(&bench.send(&ten(0x41, flags, 0, 32768), &[1; 512]));
        // No number stands for the rest, if that is no longer.
        let end = bench.unit.geometry().blocks() as u32;
        assert_good(&bench.send(&ten(0x41, flags, end - 32768, 0), &[1; 512]));
        let response = bench.send(&ten(0x41, flags, end - 32769, 0), &[1; 512]);
        assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn the_same_block_has_to_be_one_block() {
    let mut bench = full();
    for sent in [0, 256, 511, 513, 1024] {
        for cdb in [ten(0x41, 8, 0, 1).to_vec(), sixteen(0x93, 8, 0, 1).to_vec()] {
            assert_illegal(
                &bench.send(&cdb, &vec![0xA6; sent]),
                AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
            );
        }
    }
    assert!(bench.operations.is_empty());
}

#[test]
fn write_same_beyond_the_end_and_with_anchors() {
    let mut bench = full();
    for cdb in [
        sixteen(0x93, 0, UNIT_BLOCKS, 0),
        sixteen(0x93, 0, u64::MAX, 1),
        sixteen(0x93, 0, 0, UNIT_BLOCKS as u32 + 1),
    ] {
        assert_illegal(
            &bench.send(&cdb, &[1; 512]),
            AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
        );
    }
    for flags in [0x10, 0x18] {
        for cdb in [
            ten(0x41, flags, 0, 1).to_vec(),
            sixteen(0x93, flags, 0, 1).to_vec(),
        ] {
            assert_illegal(
                &bench.send(&cdb, &[1; 512]),
                AdditionalSense::INVALID_FIELD_IN_CDB,
            );
        }
    }
}

/// What a command asks of a medium that does it all without being there.
fn steps(bench: &mut Bench, cdb: &[u8], sent: &[u8]) -> Vec<MediumOperation> {
    let mut operations = Vec::new();
    let mut outcome = bench.begin(cdb, sent);
    loop {
        match outcome {
            Outcome::PortGroups(wanted) => panic!("{wanted:?} is asked of nobody here"),
            Outcome::Done(response) => {
                assert_eq!(response.status, Status::Good);
                return operations;
            }
            Outcome::Access(request) => panic!("{request:?} needs no medium"),
            Outcome::Copy(list) => panic!("{list:?} is of more than one unit"),
            Outcome::Medium(operation, continuation) => {
                operations.push(operation);
                outcome = continuation.complete(Ok(MediumData::None));
            }
        }
    }
}

#[test]
fn what_is_long_is_done_in_steps() {
    let mut bench = Bench::with(64 << 40, BlockLength::Native4096);
    // As many blocks as UNMAP may have are 4 GiB here, in two descriptors of which one is cut.
    let list = parameter_list(&[(5, 1000), (1 << 30, (1 << 20) - 1000)]);
    let cleared = steps(&mut bench, &ten(0x42, 0, 0, list.len() as u16), &list);
    let range = |first: u64, count: u64| ByteRange {
        offset: first * 4096,
        length: count * 4096,
    };
    let ranges = vec![range(5, 1000), range(1 << 30, (1 << 20) - 1000)];
    assert_eq!(cleared, [MediumOperation::Clear { ranges }]);

    let filled = steps(&mut bench, &sixteen(0x93, 0, 3, 5000), &[7; 4096]);
    let lengths: Vec<u64> = filled
        .iter()
        .map(|operation| match operation {
            MediumOperation::Fill { range, .. } => range.length,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [8 << 20, 8 << 20, 5000 * 4096 - (16 << 20)]);
}

#[test]
fn a_long_command_ends_with_its_first_failure() {
    let mut bench = Bench::with(32 << 20, BlockLength::Emulated512);
    let outcome = bench.begin(&sixteen(0x93, 0, 0, 32768), &[7; 512]);
    let Outcome::Medium(_, continuation) = outcome else {
        panic!("a fill needs the medium");
    };
    let Outcome::Medium(_, continuation) = continuation.complete(Ok(MediumData::None)) else {
        panic!("there is more to fill");
    };
    let outcome = continuation.complete(Err(crate::MediumError::NoSpace));
    let Outcome::Done(response) = outcome else {
        panic!("it failed");
    };
    assert_eq!(
        sense(&response).additional,
        AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT
    );
}

fn lba_status(bench: &mut Bench, first: u64, allocation_length: u32) -> Vec<(u64, u32, u8)> {
    let answer = data(&bench.run(&sixteen(0x9E, 0x12, first, allocation_length)));
    let length = u32::from_be_bytes(answer[..4].try_into().unwrap());
    assert_eq!(answer.len(), length as usize + 4);
    answer[8..]
        .chunks_exact(16)
        .map(|descriptor| {
            let (first, rest) = descriptor.split_at(8);
            assert_eq!(rest[5..], [0; 3]);
            (
                u64::from_be_bytes(first.try_into().unwrap()),
                u32::from_be_bytes(rest[..4].try_into().unwrap()),
                rest[4],
            )
        })
        .collect()
}

#[test]
fn what_takes_space() {
    let mut bench = Bench::new();
    assert_eq!(lba_status(&mut bench, 0, 24), [(0, 2048, 1)]);
    bench.send(&ten(0x2A, 0, 19, 10), &pattern(10, 1));
    let all = [(0, 16, 1), (16, 16, 0), (32, 2016, 1)];
    assert_eq!(lba_status(&mut bench, 0, 8 + 3 * 16), all);
    assert_eq!(lba_status(&mut bench, 0, 8 + 3 * 16 + 15), all);
    assert_eq!(lba_status(&mut bench, 0, 8 + 2 * 16), all[..2]);
    assert_eq!(lba_status(&mut bench, 0, 24), all[..1]);
    // The first descriptor is about the address that was asked for.
    assert_eq!(lba_status(&mut bench, 21, 24), [(21, 11, 0)]);
    assert_eq!(lba_status(&mut bench, 2047, 24), [(2047, 1, 1)]);
    assert_good(&unmap(&mut bench, &[(16, 16)]));
    assert_eq!(lba_status(&mut bench, 0, 24), [(0, 2048, 1)]);
    // There is always something to truncate.
    let cut = data(&bench.run(&sixteen(0x9E, 0x12, 0, 10)));
    assert_eq!(cut, [0, 0, 0, 20, 0, 0, 0, 0, 0, 0]);
    for first in [UNIT_BLOCKS, 1 << 63, u64::MAX] {
        assert_illegal(
            &bench.run(&sixteen(0x9E, 0x12, first, 24)),
            AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
        );
    }
}

#[test]
fn an_extent_longer_than_a_descriptor_can_say() {
    let mut bench = Bench::with(64 << 40, BlockLength::Emulated512);
    let outcome = bench.begin(&sixteen(0x9E, 0x12, 0, 8 + 2 * 16), &[]);
    let Outcome::Medium(_, continuation) = outcome else {
        panic!("the medium knows");
    };
    let extents = vec![
        Extent {
            length: 32 << 40,
            mapped: false,
        };
        2
    ];
    let Outcome::Done(response) = continuation.complete(Ok(MediumData::Extents(extents))) else {
        panic!("that is the answer");
    };
    let answer = data(&response);
    assert_eq!(answer.len(), 40);
    assert_eq!(answer[16..20], u32::MAX.to_be_bytes());
    assert_eq!(answer[24..32], u64::from(u32::MAX).to_be_bytes());
}
