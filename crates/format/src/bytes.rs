//! Checksums of structures whose checksum is one of their own fields.

use holdfast_stdx::crc32c;

/// CRC-32C of `bytes` without the four at `field`, where the checksum itself is kept: of what is
/// before them, four zeros, and what is after.
pub(crate) fn checksum_without(bytes: &[u8], field: usize) -> u32 {
    assert!(field + 4 <= bytes.len(), "the field lies in the structure");
    let mut copy = bytes.to_vec();
    copy[field..field + 4].fill(0);
    crc32c(&copy)
}

/// Whether reserved bytes are what they must be.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
