//! EXTENDED COPY (LID1), as a host sends it (SPC-4 6.4).

use holdfast_iscsi::initiator::CommandRequest;
use holdfast_scsi::Lun;
use holdfast_stdx::Bytes;

/// LIST ID USAGE 11b: nobody asks how it ended.
const NO_IDENTIFIER: u8 = 0x18;

/// Where blocks are copied from, or to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPlace {
    /// The NAA identifier of the unit.
    pub naa: [u8; 16],
    /// The first block.
    pub first: u64,
}

/// EXTENDED COPY of `count` logical blocks from one place to another.
#[must_use]
pub fn extended_copy(
    lun: Lun,
    from: CopyPlace,
    to: CopyPlace,
    count: u16,
    block_length: u32,
) -> CommandRequest {
    let mut list = vec![0, NO_IDENTIFIER, 0, 64, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    for place in [from, to] {
        // An identification descriptor: binary; NAA of a unit.
        list.extend([0xE4, 0, 0, 0, 0x01, 0x03, 0, 16]);
        list.extend(place.naa);
        list.extend([0; 4]);
        list.extend(block_length.to_be_bytes());
    }
    // From block to block, from the first unit to the second.
    list.extend([0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
    list.extend(count.to_be_bytes());
    list.extend(from.first.to_be_bytes());
    list.extend(to.first.to_be_bytes());
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    CommandRequest::new(lun, &cdb).writing(vec![Bytes::from(list)])
}
