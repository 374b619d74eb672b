//! The parameter list of UNMAP (SBC-3).
//!
//! Invariants:
//! - all of the list is checked before any of it is done;
//! - the ranges that come of it are within the unit and the stated limits, and not empty.

use alloc::vec::Vec;

use crate::geometry::ByteRange;
use crate::limits::{UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX};
use crate::{AdditionalSense, Geometry, Sense};

const HEADER_LENGTH: usize = 8;
const DESCRIPTOR_LENGTH: usize = 16;

/// What a list asks to be unmapped.
///
/// # Errors
/// PARAMETER LIST LENGTH ERROR if the list ends before it should; INVALID FIELD IN PARAMETER LIST
/// if it exceeds the limits of the Block Limits page; LOGICAL BLOCK ADDRESS OUT OF RANGE.
pub(crate) fn parse(list: &[u8], geometry: Geometry) -> Result<Vec<ByteRange>, Sense> {
    // No list is not an error.
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let truncated = Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    let (header, descriptors) = list.split_at_checked(HEADER_LENGTH).ok_or(truncated)?;
    // UNMAP BLOCK DESCRIPTOR DATA LENGTH; an incomplete last descriptor is ignored. The UNMAP DATA
    // LENGTH before it says the same once more.
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let descriptors = descriptors.get(..length).ok_or(truncated)?;
    if length / DESCRIPTOR_LENGTH > UNMAP_DESCRIPTORS_MAX {
        return Err(Sense::invalid_parameter(2, None));
    }
    let mut ranges = Vec::new();
    let mut total = 0;
    for (index, descriptor) in descriptors.chunks_exact(DESCRIPTOR_LENGTH).enumerate() {
        let at = HEADER_LENGTH + index * DESCRIPTOR_LENGTH;
        let (first, rest) = descriptor.split_at(8);
        let first = u64::from_be_bytes(first.try_into().expect("eight bytes were split off"));
        let count = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
        // SBC-3, UNMAP block descriptor: unmapping no blocks is not an error.
        if count == 0 {
            continue;
        }
        total += u64::from(count);
        if total > UNMAP_BLOCKS_MAX {
            return Err(Sense::invalid_parameter(at as u16 + 8, None));
        }
        ranges.push(geometry.byte_range(geometry.span(first, u64::from(count))?));
    }
    Ok(ranges)
}
