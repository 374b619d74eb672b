//! CDBs of SBC-3: what disks know. Addresses and lengths are held against the unit's size and
//! limits here.

use holdfast_model::SLICE_SIZE;

use super::fields::Fields;
use super::{Command, Verification};
use crate::geometry::BlockSpan;
use crate::limits::{
    ATOMIC_BYTES_MAX, ATOMIC_GRANULARITY_BYTES, COMPARE_AND_WRITE_BYTES_MAX, TRANSFER_BYTES_MAX,
    WRITE_SAME_BLOCKS_MAX,
};
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
        BlockOperation::CompareAndWrite => compare_and_write(fields, geometry),
        BlockOperation::OrWrite => Ok(Command::OrWrite {
            span: transfer(Layout::Sixteen, fields, geometry)?,
        }),
        BlockOperation::WriteAtomic => write_atomic(fields, geometry),
        BlockOperation::Prefetch(layout) => Ok(Command::Prefetch {
            span: span_or_rest(layout, fields, geometry)?,
        }),
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

/// What is compared and written is of one slice, because only a slice's primary can do that in one
/// step. Blocks that straddle two slices are refused; no host that aligns what it locks asks that.
fn compare_and_write(fields: &Fields, geometry: Geometry) -> Result<Command, Sense> {
    let span = geometry.span(fields.number(2, 8), fields.number(13, 1))?;
    let range = geometry.byte_range(span);
    // SBC-3, Block Limits VPD page, MAXIMUM COMPARE AND WRITE LENGTH.
    if range.length > COMPARE_AND_WRITE_BYTES_MAX {
        return Err(Sense::invalid_cdb_field(13, None));
    }
    if range.crosses(SLICE_SIZE) {
        return Err(Sense::invalid_cdb_field(2, None));
    }
    Ok(Command::CompareAndWrite { span })
}

/// SBC-4, Atomic write operations: the limits of the Block Limits VPD page, and one that it has no
/// field for. What is written becomes one entry of a slice's log, and is read back as one piece:
/// both end where [`ATOMIC_BYTES_MAX`] does. Whoever writes powers of two at multiples of their
/// own length (as Linux requires it of its users) never crosses that. An ATOMIC ALIGNMENT of as
/// much would say it too, and would take from hosts all that is shorter.
fn write_atomic(fields: &Fields, geometry: Geometry) -> Result<Command, Sense> {
    let span = geometry.span(fields.number(2, 8), fields.number(12, 2))?;
    let range = geometry.byte_range(span);
    if range.length == 0 {
        return Ok(Command::WriteAtomic { span });
    }
    let fits = |bytes: u64| bytes.is_multiple_of(ATOMIC_GRANULARITY_BYTES);
    if range.length > ATOMIC_BYTES_MAX || !fits(range.length) {
        return Err(Sense::invalid_cdb_field(12, None));
    }
    if !fits(range.offset) || range.crosses(ATOMIC_BYTES_MAX) {
        return Err(Sense::invalid_cdb_field(2, None));
    }
    Ok(Command::WriteAtomic { span })
}

/// A unit that several hosts share is not stopped by one of them: START it may say (SBC-3, START
/// STOP UNIT), POWER CONDITION and LOEJ mean nothing here and were refused already.
fn start_stop_unit(fields: &Fields) -> Result<Command, Sense> {
    if !fields.bit(4, 0) {
        return Err(Sense::invalid_cdb_field(4, Some(0)));
    }
    Ok(Command::StartUnit)
}
