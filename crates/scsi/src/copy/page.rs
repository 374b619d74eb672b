//! The Third-Party Copy VPD page (SPC-4), as far as LID1 commands need it.

use alloc::vec::Vec;

use super::DESCRIPTOR_TYPES;
use crate::geometry::BlockLength;
use crate::limits::{
    COPIES_MAX, COPY_CSCDS_MAX, COPY_DESCRIPTORS_BYTES_MAX, COPY_SEGMENT_BYTES_MAX,
    COPY_SEGMENTS_MAX,
};
use crate::operation_codes::{OPERATION_CODES, Operation};

/// Third-party copy descriptor types.
const SUPPORTED_COMMANDS: u16 = 0x0001;
const PARAMETER_DATA: u16 = 0x0004;
const SUPPORTED_DESCRIPTORS: u16 = 0x0008;
const GENERAL_COPY_OPERATIONS: u16 = 0x8001;

/// What follows the page's header.
pub(crate) fn third_party_copy() -> Vec<u8> {
    let mut content = descriptor(SUPPORTED_COMMANDS, with_length(&commands()));
    content.extend(descriptor(PARAMETER_DATA, parameter_data()));
    content.extend(descriptor(
        SUPPORTED_DESCRIPTORS,
        with_length(&DESCRIPTOR_TYPES),
    ));
    content.extend(descriptor(GENERAL_COPY_OPERATIONS, general()));
    content
}

/// A third-party copy descriptor, padded to whole words.
fn descriptor(kind: u16, mut content: Vec<u8>) -> Vec<u8> {
    content.resize(content.len().next_multiple_of(4), 0);
    let mut bytes = Vec::from(kind.to_be_bytes());
    bytes.extend((content.len() as u16).to_be_bytes());
    bytes.extend(content);
    bytes
}

/// A list behind one byte with its length.
fn with_length(list: &[u8]) -> Vec<u8> {
    let length = u8::try_from(list.len()).expect("few things are known");
    let mut content = alloc::vec![length];
    content.extend(list);
    content
}

/// Command support descriptors: an operation code, and its service actions.
fn commands() -> Vec<u8> {
    let rows = OPERATION_CODES.iter();
    let rows = rows.filter(|row| matches!(row.operation, Operation::Copy(_)));
    let mut list: Vec<u8> = Vec::new();
    let mut last = None;
    for row in rows {
        if last.is_none_or(|(code, _)| code != row.operation_code) {
            list.extend([row.operation_code, 0]);
            last = Some((row.operation_code, list.len() - 1));
        }
        if let Some((_, count)) = last {
            list[count] += 1;
            list.push(row.service_action.unwrap_or_default() as u8);
        }
    }
    list
}

fn parameter_data() -> Vec<u8> {
    let mut content = alloc::vec![0; 4];
    content.extend((COPY_CSCDS_MAX as u16).to_be_bytes());
    content.extend((COPY_SEGMENTS_MAX as u16).to_be_bytes());
    content.extend((COPY_DESCRIPTORS_BYTES_MAX as u32).to_be_bytes());
    content.resize(0x1C, 0); // MAXIMUM INLINE DATA LENGTH: none.
    content
}

fn general() -> Vec<u8> {
    let mut content = Vec::new();
    content.extend((COPIES_MAX as u32).to_be_bytes()); // TOTAL CONCURRENT COPIES.
    content.extend((COPIES_MAX as u32).to_be_bytes()); // MAXIMUM IDENTIFIED CONCURRENT COPIES.
    content.extend((COPY_SEGMENT_BYTES_MAX as u32).to_be_bytes());
    content.push(segment_granularity());
    content.resize(0x20, 0);
    content
}

/// DATA SEGMENT GRANULARITY: the smallest length of a segment, as a power of two of bytes.
pub(super) const fn segment_granularity() -> u8 {
    BlockLength::Emulated512.bytes().ilog2() as u8
}
