//! The commands that a host sends to a disk, as CDBs and parameter lists (SPC-4, SBC-3).
//!
//! It refuses to check them against the unit: that is for the target to do, and for tests to try.

mod copy;
mod reservation;

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_scsi::Lun;
use holdfast_stdx::Bytes;

pub use self::copy::{CopyPlace, extended_copy};
pub use self::reservation::{
    RegisterAndMove, ReserveIn, ReserveOut, ReserveParameters, ReserveType, persistent_reserve_in,
    persistent_reserve_out, register_and_move,
};

/// Bytes that INQUIRY asks for.
const INQUIRY_BYTES: u16 = 255;
/// Bytes of READ CAPACITY (16)'s answer.
const CAPACITY_BYTES: u32 = 32;

/// TEST UNIT READY.
#[must_use]
pub fn test_unit_ready(lun: Lun) -> CommandRequest {
    CommandRequest::new(lun, &[0; 6])
}

/// INQUIRY: standard data, or a vital product data page.
#[must_use]
pub fn inquiry(lun: Lun, page: Option<u8>) -> CommandRequest {
    long_inquiry(lun, page, INQUIRY_BYTES)
}

/// INQUIRY with room for `length` bytes. Above 255 it is one that targets of before SPC-3 misread.
#[must_use]
pub fn long_inquiry(lun: Lun, page: Option<u8>, length: u16) -> CommandRequest {
    let [high, low] = length.to_be_bytes();
    let cdb = [
        0x12,
        u8::from(page.is_some()),
        page.unwrap_or_default(),
        high,
        low,
        0,
    ];
    CommandRequest::new(lun, &cdb).reading(u32::from(length))
}

/// REPORT LUNS (SELECT REPORT 00h).
#[must_use]
pub fn report_luns(lun: Lun, length: u32) -> CommandRequest {
    let mut cdb = [0; 12];
    cdb[0] = 0xA0;
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    CommandRequest::new(lun, &cdb).reading(length)
}

/// REPORT TARGET PORT GROUPS.
#[must_use]
pub fn report_port_groups(lun: Lun, length: u32) -> CommandRequest {
    let mut cdb = [0; 12];
    cdb[..2].copy_from_slice(&[0xA3, 0x0A]);
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    CommandRequest::new(lun, &cdb).reading(length)
}

/// REPORT SUPPORTED OPERATION CODES, about one operation code with a service action.
#[must_use]
pub fn report_operation_code(lun: Lun, operation_code: u8, service_action: u16) -> CommandRequest {
    const LENGTH: u32 = 64;
    let mut cdb = [0; 12];
    cdb[..4].copy_from_slice(&[0xA3, 0x0C, 0x02, operation_code]);
    cdb[4..6].copy_from_slice(&service_action.to_be_bytes());
    cdb[6..10].copy_from_slice(&LENGTH.to_be_bytes());
    CommandRequest::new(lun, &cdb).reading(LENGTH)
}

/// MODE SENSE (10) of one page, without block descriptors.
#[must_use]
pub fn mode_sense(lun: Lun, page: u8, subpage: u8, length: u16) -> CommandRequest {
    /// DBD.
    const NO_BLOCK_DESCRIPTORS: u8 = 0x08;
    let [high, low] = length.to_be_bytes();
    let cdb = [
        0x5A,
        NO_BLOCK_DESCRIPTORS,
        page,
        subpage,
        0,
        0,
        0,
        high,
        low,
        0,
    ];
    CommandRequest::new(lun, &cdb).reading(u32::from(length))
}

/// LOG SENSE of one page's cumulative values.
#[must_use]
pub fn log_sense(lun: Lun, page: u8, length: u16) -> CommandRequest {
    /// PC 01b.
    const CUMULATIVE: u8 = 0x40;
    let [high, low] = length.to_be_bytes();
    let cdb = [0x4D, 0, CUMULATIVE | page, 0, 0, 0, 0, high, low, 0];
    CommandRequest::new(lun, &cdb).reading(u32::from(length))
}

/// READ CAPACITY (16).
#[must_use]
pub fn read_capacity(lun: Lun) -> CommandRequest {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x9E, 0x10]);
    cdb[10..14].copy_from_slice(&CAPACITY_BYTES.to_be_bytes());
    CommandRequest::new(lun, &cdb).reading(CAPACITY_BYTES)
}

/// READ CAPACITY (10).
#[must_use]
pub fn read_capacity_10(lun: Lun) -> CommandRequest {
    CommandRequest::new(lun, &ten(0x25, 0, 0)).reading(8)
}

/// GET LBA STATUS from block `first` on.
#[must_use]
pub fn lba_status(lun: Lun, first: u64, length: u32) -> CommandRequest {
    let mut cdb = sixteen(0x9E, first, length);
    cdb[1] = 0x12;
    CommandRequest::new(lun, &cdb).reading(length)
}

/// READ (16) of `count` logical blocks of `block_length` bytes.
#[must_use]
pub fn read(lun: Lun, first: u64, count: u32, block_length: u32) -> CommandRequest {
    CommandRequest::new(lun, &sixteen(0x88, first, count)).reading(count * block_length)
}

/// READ (16) likewise, with FUA.
#[must_use]
pub fn read_from_medium(lun: Lun, first: u64, count: u32, block_length: u32) -> CommandRequest {
    let mut request = read(lun, first, count, block_length);
    request.cdb[1] |= 0x08;
    request
}

/// READ (10) likewise; `first` has 32 bits there.
#[must_use]
pub fn read_10(lun: Lun, first: u32, count: u16, block_length: u32) -> CommandRequest {
    CommandRequest::new(lun, &ten(0x28, first, count)).reading(u32::from(count) * block_length)
}

/// WRITE (16) of `count` logical blocks, which `data` holds. `force_unit_access` sets FUA.
#[must_use]
pub fn write(
    lun: Lun,
    first: u64,
    count: u32,
    data: Vec<Bytes>,
    force_unit_access: bool,
) -> CommandRequest {
    let mut cdb = sixteen(0x8A, first, count);
    cdb[1] |= u8::from(force_unit_access) << 3;
    CommandRequest::new(lun, &cdb).writing(data)
}

/// WRITE (10) likewise; `first` has 32 bits there.
#[must_use]
pub fn write_10(lun: Lun, first: u32, count: u16, data: Vec<Bytes>) -> CommandRequest {
    CommandRequest::new(lun, &ten(0x2A, first, count)).writing(data)
}

/// WRITE SAME (16) of `count` logical blocks with the block `pattern`; `unmap` sets UNMAP, which asks
/// for the space back if the pattern is zeros.
#[must_use]
pub fn write_same(lun: Lun, first: u64, count: u32, pattern: Bytes, unmap: bool) -> CommandRequest {
    let mut cdb = sixteen(0x93, first, count);
    cdb[1] |= u8::from(unmap) << 3;
    CommandRequest::new(lun, &cdb).writing(vec![pattern])
}

/// UNMAP of ranges of logical blocks: the first, and how many. At most 4,095 of them fit.
#[must_use]
pub fn unmap(lun: Lun, ranges: &[(u64, u32)]) -> CommandRequest {
    let descriptors = u16::try_from(ranges.len() * 16).expect("a list has at most 65,535 bytes");
    let length = descriptors.checked_add(8).expect("with its header, too");
    let mut list = Vec::with_capacity(usize::from(length));
    list.extend((length - 2).to_be_bytes());
    list.extend(descriptors.to_be_bytes());
    list.extend([0; 4]);
    for (first, count) in ranges {
        list.extend(first.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    let [high, low] = length.to_be_bytes();
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, high, low, 0];
    CommandRequest::new(lun, &cdb).writing(vec![list.into()])
}

/// COMPARE AND WRITE of `count` logical blocks: `data` is what is to be there, and then as much that is written.
#[must_use]
pub fn compare_and_write(lun: Lun, first: u64, count: u8, data: Vec<Bytes>) -> CommandRequest {
    let mut cdb = sixteen(0x89, first, 0);
    cdb[13] = count;
    CommandRequest::new(lun, &cdb).writing(data)
}

/// SYNCHRONIZE CACHE (16) of the whole unit.
#[must_use]
pub fn synchronize_cache(lun: Lun) -> CommandRequest {
    CommandRequest::new(lun, &sixteen(0x91, 0, 0))
}

/// SYNCHRONIZE CACHE (10) of the whole unit.
#[must_use]
pub fn synchronize_cache_10(lun: Lun) -> CommandRequest {
    CommandRequest::new(lun, &ten(0x35, 0, 0))
}

fn sixteen(operation_code: u8, first: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation_code;
    cdb[2..10].copy_from_slice(&first.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

fn ten(operation_code: u8, first: u32, count: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = operation_code;
    cdb[2..6].copy_from_slice(&first.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

#[cfg(test)]
mod tests {
    use holdfast_scsi::cdb::{Cdb, Command};
    use holdfast_scsi::geometry::BlockSpan;
    use holdfast_scsi::{BlockLength, Geometry};

    use super::*;

    fn parsed(request: &CommandRequest) -> Command {
        let geometry = Geometry::new(1 << 40, BlockLength::Emulated512);
        let cdb = Cdb::parse(&request.cdb, geometry);
        let length: usize = request.data_out.iter().map(Bytes::len).sum();
        assert_eq!(cdb.data_out_length(), length as u64);
        cdb.command().unwrap()
    }

    #[test]
    fn the_target_understands_what_was_meant() {
        let lun = Lun::from_number(0);
        let span = BlockSpan {
            first: 0x0102_0304,
            count: 3,
        };
        let data = || vec![Bytes::from(vec![7; 1536])];
        assert_eq!(parsed(&test_unit_ready(lun)), Command::TestUnitReady);
        for request in [
            read(lun, span.first, 3, 512),
            read_10(lun, span.first as u32, 3, 512),
        ] {
            assert_eq!(request.expected_in, 1536);
            let expected = Command::Read {
                span,
                force_unit_access: false,
            };
            assert_eq!(parsed(&request), expected);
        }
        for (request, force_unit_access) in [
            (write(lun, span.first, 3, data(), true), true),
            (write_10(lun, span.first as u32, 3, data()), false),
        ] {
            let expected = Command::Write {
                span,
                force_unit_access,
                verify: None,
            };
            assert_eq!(parsed(&request), expected);
        }
        let pattern = Bytes::from(vec![0; 512]);
        assert_eq!(
            parsed(&write_same(lun, span.first, 3, pattern, true)),
            Command::WriteSame {
                span,
                with_data: true,
                unmap: true
            }
        );
        assert_eq!(
            parsed(&unmap(lun, &[(1, 2), (3, 4)])),
            Command::Unmap {
                parameter_list_length: 40
            }
        );
        assert!(matches!(
            parsed(&synchronize_cache(lun)),
            Command::SynchronizeCache { .. }
        ));
        assert!(matches!(
            parsed(&read_capacity(lun)),
            Command::ReadCapacity16 { .. }
        ));
        let place = CopyPlace {
            naa: [0x60; 16],
            first: 9,
        };
        let cdbs = [
            report_luns(lun, 8192),
            report_port_groups(lun, 512),
            report_operation_code(lun, 0x5F, 7),
            mode_sense(lun, 8, 0, 255),
            log_sense(lun, 0x0C, 512),
            read_capacity_10(lun),
            lba_status(lun, 9, 512),
            read_from_medium(lun, 9, 1, 512),
            synchronize_cache_10(lun),
            compare_and_write(lun, 9, 1, vec![Bytes::from(vec![0; 1024])]),
            extended_copy(lun, place, place, 8, 512),
        ];
        let names: Vec<String> = cdbs
            .iter()
            .map(|request| format!("{:?}", parsed(request)))
            .collect();
        for (name, expected) in names.iter().zip([
            "ReportLuns",
            "ReportPortGroups",
            "ReportOperationCodes",
            "ModeSense",
            "LogSense",
            "ReadCapacity10",
            "LbaStatus { first: 9",
            "Read { span: BlockSpan { first: 9, count: 1 }, force_unit_access: true",
            "SynchronizeCache",
            "CompareAndWrite { span: BlockSpan { first: 9, count: 1 }",
            "ExtendedCopy { parameter_list_length: 108 }",
        ]) {
            assert!(name.starts_with(expected), "{name}");
        }
        assert!(matches!(
            parsed(&inquiry(lun, Some(0xB0))),
            Command::Inquiry {
                page: Some(0xB0),
                ..
            }
        ));
    }
}
