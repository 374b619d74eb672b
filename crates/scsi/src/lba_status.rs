//! The answer to GET LBA STATUS (SBC-3).
//!
//! Invariants:
//! - descriptors follow each other without gap from the starting address on;
//! - neighbours differ in their provisioning status, unless one is as long as a descriptor can say.

use alloc::vec::Vec;

use crate::Extent;
use crate::data_in;
use crate::limits::LBA_STATUS_DESCRIPTORS_MAX;
use crate::{Geometry, Response};

const HEADER_LENGTH: u32 = 8;
const DESCRIPTOR_LENGTH: u32 = 16;

/// PROVISIONING STATUS (SBC-3, LBA status descriptor).
const MAPPED: u8 = 0;
const DEALLOCATED: u8 = 1;

/// How many descriptors an initiator with that ALLOCATION LENGTH gets at most: at least one, so
/// that there is something to truncate.
pub(crate) fn descriptor_count_max(allocation_length: u32) -> u32 {
    (allocation_length.saturating_sub(HEADER_LENGTH) / DESCRIPTOR_LENGTH)
        .clamp(1, LBA_STATUS_DESCRIPTORS_MAX)
}

pub(crate) fn response(
    geometry: Geometry,
    offset: u64,
    extents: &[Extent],
    allocation_length: u32,
) -> Response {
    let block_bytes = geometry.block_length().bytes();
    let mut first = geometry.block_at(offset);
    let mut descriptors = Vec::new();
    for extent in merged(extents) {
        assert!(
            extent.length.is_multiple_of(block_bytes),
            "an extent is of whole logical blocks"
        );
        let mut blocks = extent.length / block_bytes;
        assert!(
            first + blocks <= geometry.blocks(),
            "an extent lies in the unit"
        );
        while blocks > 0 {
            let count = blocks.min(u64::from(u32::MAX)) as u32;
            descriptors.push((first, count, extent.mapped));
            first += u64::from(count);
            blocks -= u64::from(count);
        }
    }
    assert!(
        !descriptors.is_empty(),
        "something is at the starting address"
    );
    descriptors.truncate(descriptor_count_max(allocation_length) as usize);
    data_in::respond(&encode(&descriptors), allocation_length)
}

fn encode(descriptors: &[(u64, u32, bool)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = HEADER_LENGTH + DESCRIPTOR_LENGTH * descriptors.len() as u32;
    // PARAMETER DATA LENGTH counts what follows it.
    bytes.extend((length - 4).to_be_bytes());
    bytes.extend([0; 4]);
    for (first, count, mapped) in descriptors {
        bytes.extend(first.to_be_bytes());
        bytes.extend(count.to_be_bytes());
        bytes.push(if *mapped { MAPPED } else { DEALLOCATED });
        bytes.extend([0; 3]);
    }
    bytes
}

/// The same extents with equal neighbours joined: they may have ended where a slice does.
fn merged(extents: &[Extent]) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    for extent in extents {
        assert!(extent.length > 0, "an extent is not empty");
        match merged.last_mut() {
            Some(last) if last.mapped == extent.mapped => last.length += extent.length,
            _ => merged.push(*extent),
        }
    }
    merged
}
