//! Reading, writing and verifying.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use super::bench::{
    Bench, UNIT_BLOCKS, assert_good, assert_illegal, data, pattern, sense, sixteen, ten, twelve,
};
use crate::{
    AdditionalSense, BlockLength, ByteRange, Cdb, Direction, MediumData, MediumError,
    MediumOperation, Outcome, SenseKey, Status,
};

fn six(operation_code: u8, first: u32, count: u8) -> [u8; 6] {
    let [_, a, b, c] = first.to_be_bytes();
    [operation_code, a, b, c, count, 0]
}

/// The same access in each length that there is: operation codes for 10, 12 and 16 bytes.
fn each(codes: [u8; 3], flags: u8, first: u32, count: u16) -> Vec<Vec<u8>> {
    vec![
        ten(codes[0], flags, first, count).to_vec(),
        twelve(codes[1], flags, first, count.into()).to_vec(),
        sixteen(codes[2], flags, first.into(), count.into()).to_vec(),
    ]
}

const READS: [u8; 3] = [0x28, 0xA8, 0x88];
const WRITES: [u8; 3] = [0x2A, 0xAA, 0x8A];
const WRITES_AND_VERIFIES: [u8; 3] = [0x2E, 0xAE, 0x8E];
const VERIFIES: [u8; 3] = [0x2F, 0xAF, 0x8F];

#[test]
fn what_is_written_is_read_in_every_length() {
    let mut writes = each(WRITES, 0x18, 100, 3);
    writes.extend(each(WRITES_AND_VERIFIES, 0x00, 100, 3));
    writes.extend(each(WRITES_AND_VERIFIES, 0x12, 100, 3));
    writes.push(six(0x0A, 100, 3).to_vec());
    let mut reads = each(READS, 0x1A, 100, 3);
    reads.push(six(0x08, 100, 3).to_vec());
    for (seed, write) in writes.iter().enumerate() {
        let mut bench = Bench::new();
        let written = pattern(3, seed as u8);
        assert_good(&bench.send(write, &written));
        assert_eq!(bench.content[100 * 512..103 * 512], written);
        for read in &reads {
            assert_eq!(data(&bench.run(read)), written);
        }
    }
}

#[test]
fn a_native_unit_counts_in_4_kib() {
    let mut bench = Bench::with(1 << 20, BlockLength::Native4096);
    let written = pattern(16, 1);
    assert_good(&bench.send(&ten(0x2A, 0, 254, 2), &written));
    assert_eq!(bench.content[254 * 4096..], written);
    assert_eq!(data(&bench.run(&ten(0x28, 0, 255, 1))), written[4096..]);
    let beyond = bench.run(&ten(0x28, 0, 255, 2));
    assert_eq!(sense(&beyond).information, Some(256));
}

#[test]
fn six_bytes_with_zero_blocks_are_256() {
    let mut bench = Bench::new();
    let written = pattern(256, 9);
    assert_good(&bench.send(&six(0x0A, 7, 0), &written));
    assert_eq!(data(&bench.run(&six(0x08, 7, 0))), written);
}

#[test]
fn force_unit_access_reaches_the_medium() {
    let mut bench = Bench::new();
    for flags in [0x00, 0x08, 0x10] {
        bench.send(&ten(0x2A, flags, 0, 1), &[1; 512]);
        bench.run(&ten(0x28, flags, 0, 1));
    }
    let forced: Vec<bool> = bench
        .operations
        .iter()
        .map(|operation| match operation {
            MediumOperation::Read {
                force_unit_access, ..
            }
            | MediumOperation::Write {
                force_unit_access, ..
            } => *force_unit_access,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(forced, [false, false, true, true, false, false]);
}

#[test]
fn no_blocks_are_no_error_but_their_address_is_checked() {
    let mut bench = Bench::new();
    for codes in [READS, WRITES, WRITES_AND_VERIFIES, VERIFIES] {
        for cdb in each(codes, 0, 5, 0) {
            assert_good(&bench.run(&cdb));
        }
        for first in [UNIT_BLOCKS as u32, u32::MAX] {
            for cdb in each(codes, 0, first, 0) {
                let response = bench.run(&cdb);
                assert_illegal(
                    &response,
                    AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
                );
            }
        }
    }
    assert!(bench.operations.is_empty());
}

#[test]
fn beyond_the_end() {
    let mut bench = Bench::new();
    let end = UNIT_BLOCKS as u32;
    for (first, count, invalid) in [(end - 1, 2, end), (end, 1, end), (end + 9, 1, end + 9)] {
        for codes in [READS, WRITES, WRITES_AND_VERIFIES, VERIFIES] {
            for cdb in each(codes, 0, first, count) {
                let response = bench.run(&cdb);
                assert_illegal(
                    &response,
                    AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
                );
                assert_eq!(sense(&response).information, Some(invalid.into()));
            }
        }
    }
    let response = bench.run(&sixteen(0x88, 0, u64::MAX, u32::MAX));
    assert_eq!(sense(&response).information, Some(u64::MAX));
    assert!(bench.operations.is_empty());
}

#[test]
fn the_longest_transfer() {
    let mut bench = Bench::with(32 << 20, BlockLength::Emulated512);
    for codes in [[0x28, 0xA8, 0x88], WRITES, VERIFIES] {
        for cdb in each(codes, 0, 0, 8192) {
            let response = bench.send(&cdb, &vec![1; 4 << 20]);
            assert_good(&response);
        }
        for (cdb, byte) in each(codes, 0, 0, 8193).iter().zip([7, 6, 10]) {
            let response = bench.run(cdb);
            assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
            assert_eq!(sense(&response).field.map(|field| field.byte), Some(byte));
        }
    }
}

#[test]
fn data_out_is_known_before_it_arrives() {
    let bench = Bench::new();
    let geometry = bench.unit.geometry();
    for (cdb, length, direction) in [
        (ten(0x2A, 0, 0, 3), 1536, Direction::Out),
        (ten(0x2E, 0, 0, 3), 1536, Direction::Out),
        (ten(0x2F, 0x00, 0, 3), 0, Direction::None),
        (ten(0x2F, 0x02, 0, 3), 1536, Direction::Out),
        (ten(0x2F, 0x06, 0, 3), 512, Direction::Out),
        (ten(0x2F, 0x06, 0, 0), 0, Direction::None),
        (ten(0x41, 0, 0, 3), 512, Direction::Out),
        (ten(0x42, 0, 0, 24), 24, Direction::Out),
        (ten(0x28, 0, 0, 3), 0, Direction::In),
        (ten(0x35, 0, 0, 3), 0, Direction::None),
        // Refused: nothing is to be sent for it.
        (ten(0x2A, 0, 5000, 3), 0, Direction::None),
        (ten(0x2A, 0x20, 0, 3), 0, Direction::None),
    ] {
        let cdb = Cdb::parse(&cdb, geometry);
        assert_eq!(cdb.data_out_length(), length, "{cdb:?}");
        assert_eq!(cdb.direction(), direction, "{cdb:?}");
    }
    let no_data_out_buffer = Cdb::parse(&sixteen(0x93, 0x01, 0, 3), geometry);
    assert_eq!(no_data_out_buffer.data_out_length(), 0);
}

#[test]
fn a_write_of_less_than_its_cdb_wants_is_done_as_far_as_it_goes() {
    for codes in [WRITES, WRITES_AND_VERIFIES] {
        for cdb in each(codes, 0, 0, 2) {
            let mut bench = Bench::new();
            bench.send(&ten(0x2A, 0, 0, 2), &[b'a'; 1024]);
            assert_good(&bench.send(&cdb, &[b'b'; 512]));
            assert_eq!(bench.content[..512], [b'b'; 512]);
            assert_eq!(bench.content[512..1024], [b'a'; 512]);
            bench.operations.clear();
            assert_good(&bench.send(&cdb, &[]));
            assert_illegal(
                &bench.send(&cdb, &[b'c'; 200]),
                AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
            );
            assert!(bench.operations.is_empty());
            // More than it wants has no effect.
            assert_good(&bench.send(&cdb, &[b'd'; 1600]));
            assert_eq!(
                bench.content[..1025],
                [[b'd'; 1024].as_slice(), &[0]].concat()
            );
        }
    }
}

#[test]
fn verification_compares() {
    let mut bench = Bench::new();
    let written = pattern(4, 3);
    bench.send(&ten(0x2A, 0, 8, 4), &written);
    bench.operations.clear();
    for cdb in each(VERIFIES, 0x10, 8, 4) {
        assert_good(&bench.run(&cdb));
        // Data-Out that nobody asked for is no reason to compare.
        assert_good(&bench.send(&cdb, &[0xEE; 2048]));
    }
    let range = ByteRange {
        offset: 8 * 512,
        length: 4 * 512,
    };
    assert_eq!(bench.operations, vec![MediumOperation::Verify { range }; 6]);
    for cdb in each(VERIFIES, 0x02, 8, 4) {
        assert_good(&bench.send(&cdb, &written));
        for (flipped, block) in [(0, 8), (511, 8), (512, 9), (2047, 11)] {
            let mut other = written.clone();
            other[flipped] ^= 0x58;
            let sense = sense(&bench.send(&cdb, &other));
            assert_eq!(sense.key, SenseKey::Miscompare);
            assert_eq!(
                sense.additional,
                AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION
            );
            assert_eq!(sense.information, Some(block));
        }
        assert_illegal(
            &bench.send(&cdb, &written[..1024]),
            AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
        );
    }
}

#[test]
fn verification_compares_one_block_with_all() {
    let mut bench = Bench::new();
    let block = pattern(1, 3);
    bench.send(&ten(0x2A, 0, 8, 4), &block.repeat(4));
    for cdb in each(VERIFIES, 0x06, 8, 4) {
        assert_good(&bench.send(&cdb, &block));
    }
    bench.content[10 * 512] ^= 1;
    for cdb in each(VERIFIES, 0x06, 8, 4) {
        let sense = sense(&bench.send(&cdb, &block));
        assert_eq!(sense.information, Some(10));
    }
}

#[test]
fn reserved_kinds_of_verification() {
    let mut bench = Bench::new();
    for (codes, flags) in [
        (VERIFIES, 0x04),
        (WRITES_AND_VERIFIES, 0x04),
        (WRITES_AND_VERIFIES, 0x06),
    ] {
        for cdb in each(codes, flags, 8, 1) {
            let response = bench.run(&cdb);
            assert_illegal(&response, AdditionalSense::INVALID_FIELD_IN_CDB);
            let field = sense(&response).field.expect("the field is named");
            assert_eq!((field.byte, field.bit), (1, Some(2)));
        }
    }
}

#[test]
fn caches_are_synchronized_to_the_end_where_no_number_is_given() {
    let mut bench = Bench::new();
    for (cdb, offset, length) in [
        (ten(0x35, 0, 10, 5).to_vec(), 5120, 2560),
        (ten(0x35, 0x06, 0, 0).to_vec(), 0, 1 << 20),
        (sixteen(0x91, 0x02, 2047, 0).to_vec(), 2047 * 512, 512),
    ] {
        assert_good(&bench.run(&cdb));
        let range = ByteRange { offset, length };
        assert_eq!(
            bench.operations.pop(),
            Some(MediumOperation::SynchronizeCache { range })
        );
    }
    assert_illegal(
        &bench.run(&ten(0x35, 0, 2047, 2)),
        AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE,
    );
}

#[test]
fn errors_of_the_medium_become_sense_data() {
    let mut bench = Bench::new();
    let lost = MediumError::Lost {
        offset: 5 * 512 + 7,
    };
    for (error, key, additional, information) in [
        (MediumError::NotReady, SenseKey::NotReady, 0x0401, None),
        (lost, SenseKey::MediumError, 0x1100, Some(5)),
        (MediumError::Write, SenseKey::MediumError, 0x0C00, None),
        (MediumError::NoSpace, SenseKey::DataProtect, 0x2707, None),
        (MediumError::Aborted, SenseKey::AbortedCommand, 0x0000, None),
        (MediumError::Internal, SenseKey::HardwareError, 0x4400, None),
    ] {
        bench.failure = Some(error);
        for (cdb, out) in [(ten(0x28, 0, 0, 9), 0), (ten(0x2A, 0, 0, 9), 9 * 512)] {
            let sense = sense(&bench.send(&cdb, &vec![1; out]));
            assert_eq!(sense.key, key);
            assert_eq!(sense.additional.0, additional);
            assert_eq!(sense.information, information);
        }
    }
    bench.failure = Some(MediumError::Busy);
    let response = bench.run(&ten(0x28, 0, 0, 9));
    assert_eq!(response.status, Status::Busy);
}

#[test]
fn what_was_not_written_is_not_verified() {
    let mut bench = Bench::new();
    bench.failure = Some(MediumError::NoSpace);
    let response = bench.send(&ten(0x2E, 0x02, 0, 1), &[1; 512]);
    assert_eq!(sense(&response).key, SenseKey::DataProtect);
    assert_eq!(bench.operations.len(), 1);
}

#[test]
fn a_write_that_is_verified_is_read_back() {
    let mut bench = Bench::new();
    assert_good(&bench.send(&ten(0x2E, 0x00, 3, 1), &[1; 512]));
    assert_good(&bench.send(&ten(0x2E, 0x02, 3, 1), &[1; 512]));
    let range = ByteRange {
        offset: 3 * 512,
        length: 512,
    };
    assert_eq!(bench.operations[1], MediumOperation::Verify { range });
    let force_unit_access = true;
    assert_eq!(
        bench.operations[3],
        MediumOperation::Read {
            range,
            force_unit_access
        }
    );
}

#[test]
fn no_more_is_read_than_is_taken() {
    let mut bench = Bench::new();
    let written = pattern(4, 5);
    bench.send(&ten(0x2A, 0, 0, 4), &written);
    for (taken, read) in [
        (0, 0),
        (1, 512),
        (200, 512),
        (512, 512),
        (513, 1024),
        (9999, 2048),
    ] {
        bench.operations.clear();
        bench.data_in_expected = taken;
        let Outcome::Medium(operation, continuation) = bench.begin(&ten(0x28, 0, 0, 4), &[]) else {
            assert_eq!(read, 0);
            let response = bench.run(&ten(0x28, 0, 0, 4));
            assert_eq!(response.transfer_length, 2048);
            continue;
        };
        let MediumOperation::Read { range, .. } = operation else {
            panic!("{operation:?}");
        };
        assert_eq!(
            range,
            ByteRange {
                offset: 0,
                length: read
            }
        );
        let bytes = Bytes::copy_from_slice(&written[..read as usize]);
        let Outcome::Done(response) = continuation.complete(Ok(MediumData::Bytes(vec![bytes])))
        else {
            panic!("that is all");
        };
        // The residual count tells of what the initiator did not take.
        assert_eq!(response.transfer_length, 2048);
        assert_eq!(data(&response), written[..read as usize]);
    }
}

#[test]
fn long_comparisons_are_done_in_steps() {
    let mut bench = Bench::with(8 << 20, BlockLength::Emulated512);
    let block = pattern(1, 3);
    let all = block.repeat(5000);
    for (flags, sent) in [(0x02, &all), (0x06, &block)] {
        bench.send(&ten(0x2A, 0, 0, 5000), &all);
        bench.operations.clear();
        assert_good(&bench.send(&ten(0x2F, flags, 0, 5000), sent));
        assert_eq!(bench.operations.len(), 3);
        bench.content[4321 * 512] ^= 1;
        let sense = sense(&bench.send(&ten(0x2F, flags, 0, 5000), sent));
        assert_eq!(sense.information, Some(4321));
    }
}
