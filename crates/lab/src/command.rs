//! The commands that a host sends to a disk, as CDBs and parameter lists (SPC-4, SBC-3).
//!
//! It refuses to check them against the unit: that is for the target to do, and for tests to try.

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_scsi::Lun;
use holdfast_stdx::Bytes;

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
    let [high, low] = INQUIRY_BYTES.to_be_bytes();
    let cdb = [
        0x12,
        u8::from(page.is_some()),
        page.unwrap_or_default(),
        high,
        low,
        0,
    ];
    CommandRequest::new(lun, &cdb).reading(u32::from(INQUIRY_BYTES))
}

/// READ CAPACITY (16).
#[must_use]
pub fn read_capacity(lun: Lun) -> CommandRequest {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x9E, 0x10]);
    cdb[10..14].copy_from_slice(&CAPACITY_BYTES.to_be_bytes());
    CommandRequest::new(lun, &cdb).reading(CAPACITY_BYTES)
}

/// READ (16) of `count` logical blocks of `block_length` bytes.
#[must_use]
pub fn read(lun: Lun, first: u64, count: u32, block_length: u32) -> CommandRequest {
    CommandRequest::new(lun, &sixteen(0x88, first, count)).reading(count * block_length)
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

/// SYNCHRONIZE CACHE (16) of the whole unit.
#[must_use]
pub fn synchronize_cache(lun: Lun) -> CommandRequest {
    CommandRequest::new(lun, &sixteen(0x91, 0, 0))
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
        assert!(matches!(
            parsed(&inquiry(lun, Some(0xB0))),
            Command::Inquiry {
                page: Some(0xB0),
                ..
            }
        ));
    }
}
