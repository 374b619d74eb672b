//! CDBs of SBC-3: what disks know. Addresses and lengths are held against the unit's size and
//! limits here.

use super::fields::Fields;
use super::{Command, Verification};
use crate::geometry::BlockSpan;
use crate::limits::{TRANSFER_BYTES_MAX, WRITE_SAME_BLOCKS_MAX};
use crate::operation_codes::{BlockOperation, Layout};
use crate::{Geometry, Sense};

pub(super) fn parse(
    operation: BlockOperation,
    fields: &Fields,
    geometry: Geometry,
) -> Result<Command, Sense> {
    match operation {
        BlockOperation::Read(layout) => Ok(Command::Read {
            force_unit_access: force_unit_access(layout, fields),
            span: transfer(layout, fields, geometry)?,
        }),
        BlockOperation::Write(layout) => Ok(Command::Write {
            force_unit_access: force_unit_access(layout, fields),
            verify: None,
            span: transfer(layout, fields, geometry)?,
        }),
        BlockOperation::WriteAndVerify(layout) => write_and_verify(layout, fields, geometry),
        BlockOperation::Verify(layout) => Ok(Command::Verify {
            verification: verification(fields)?,
            span: transfer(layout, fields, geometry)?,
        }),
        BlockOperation::SynchronizeCache(layout) => Ok(Command::SynchronizeCache {
            span: span_or_rest(layout, fields, geometry)?,
        }),
        BlockOperation::WriteSame(layout) => write_same(layout, fields, geometry),
        BlockOperation::Unmap => Ok(Command::Unmap {
            parameter_list_length: fields.u16(7),
        }),
        BlockOperation::LbaStatus => Ok(Command::LbaStatus {
            first: geometry.span(fields.number(2, 8), 1)?.first,
            allocation_length: fields.u32(10),
        }),
        BlockOperation::ReadCapacity10 => Ok(Command::ReadCapacity10),
        BlockOperation::ReadCapacity16 => Ok(Command::ReadCapacity16 {
            allocation_length: fields.u32(10),
        }),
        BlockOperation::StartStopUnit => start_stop_unit(fields),
    }
}

impl Layout {
    fn address(self, fields: &Fields) -> u64 {
        match self {
            Self::Six => fields.number(1, 3) & 0x1F_FFFF,
            Self::Ten | Self::Twelve => fields.number(2, 4),
            Self::Sixteen => fields.number(2, 8),
        }
    }

    fn count(self, fields: &Fields) -> u64 {
        match self {
            // SBC-3, READ (6): zero stands for 256 in the six-byte commands only.
            Self::Six => match fields.number(4, 1) {
                0 => 256,
                count => count,
            },
            Self::Ten => fields.number(7, 2),
            Self::Twelve => fields.number(6, 4),
            Self::Sixteen => fields.number(10, 4),
        }
    }

    /// Where the number of blocks stands.
    const fn count_byte(self) -> u16 {
        match self {
            Self::Six => 4,
            Self::Ten => 7,
            Self::Twelve => 6,
            Self::Sixteen => 10,
        }
    }
}

fn force_unit_access(layout: Layout, fields: &Fields) -> bool {
    !matches!(layout, Layout::Six) && fields.bit(1, 3)
}

/// The blocks of a command that moves or reads all of them at once.
fn transfer(layout: Layout, fields: &Fields, geometry: Geometry) -> Result<BlockSpan, Sense> {
    let span = geometry.span(layout.address(fields), layout.count(fields))?;
    // SBC-3, Block Limits VPD page, MAXIMUM TRANSFER LENGTH.
    if geometry.byte_range(span).length > TRANSFER_BYTES_MAX {
        return Err(Sense::invalid_cdb_field(layout.count_byte(), None));
    }
    Ok(span)
}

/// The blocks of a command for which zero blocks stand for all to the end of the unit.
fn span_or_rest(layout: Layout, fields: &Fields, geometry: Geometry) -> Result<BlockSpan, Sense> {
    let span = geometry.span(layout.address(fields), layout.count(fields))?;
    Ok(match span.count {
        0 => BlockSpan {
            count: geometry.blocks() - span.first,
            ..span
        },
        _ => span,
    })
}

fn verification(fields: &Fields) -> Result<Verification, Sense> {
    match fields.byte(1) >> 1 & 0b11 {
        0b00 => Ok(Verification::Medium),
        0b01 => Ok(Verification::Compare),
        0b11 => Ok(Verification::CompareOne),
        // SBC-3, VERIFY (10), BYTCHK: 10b is reserved.
        _ => Err(Sense::invalid_cdb_field(1, Some(2))),
    }
}

fn write_and_verify(layout: Layout, fields: &Fields, geometry: Geometry) -> Result<Command, Sense> {
    let verification = verification(fields)?;
    // One block for all has no meaning where all blocks come as Data-Out.
    if verification == Verification::CompareOne {
        return Err(Sense::invalid_cdb_field(1, Some(2)));
    }
    Ok(Command::Write {
        span: transfer(layout, fields, geometry)?,
        force_unit_access: true,
        verify: Some(verification),
    })
}

fn write_same(layout: Layout, fields: &Fields, geometry: Geometry) -> Result<Command, Sense> {
    let with_data = match layout {
        Layout::Sixteen => !fields.bit(1, 0),
        _ => true,
    };
    // WSNZ is zero, so zero blocks stand for all to the end (SBC-3, Block Limits VPD page).
    let span = span_or_rest(layout, fields, geometry)?;
    if span.count > WRITE_SAME_BLOCKS_MAX {
        return Err(Sense::invalid_cdb_field(layout.count_byte(), None));
    }
    Ok(Command::WriteSame {
        span,
        with_data,
        unmap: fields.bit(1, 3),
    })
}

/// A unit that several hosts share is not stopped by one of them: START it may say (SBC-3, START
/// STOP UNIT), POWER CONDITION and LOEJ mean nothing here and were refused already.
fn start_stop_unit(fields: &Fields) -> Result<Command, Sense> {
    if !fields.bit(4, 0) {
        return Err(Sense::invalid_cdb_field(4, Some(0)));
    }
    Ok(Command::StartUnit)
}
