//! Checksums of structures whose checksum is one of their own fields.

use alloc::vec::Vec;

use holdfast_stdx::crc32c;

/// Structures up to this are copied to the stack: an opening looks at millions of page table entries.
const ON_STACK_MAX: usize = 512;

/// CRC-32C of `bytes` without the four at `field`, where the checksum itself is kept: of what is
/// before them, four zeros, and what is after.
pub(crate) fn checksum_without(bytes: &[u8], field: usize) -> u32 {
    assert!(field + 4 <= bytes.len(), "the field lies in the structure");
    let (mut small, mut large) = ([0; ON_STACK_MAX], Vec::new());
    let copy = match small.get_mut(..bytes.len()) {
        Some(small) => {
            small.copy_from_slice(bytes);
            small
        }
        None => {
            large.extend_from_slice(bytes);
            &mut large[..]
        }
    };
    copy[field..field + 4].fill(0);
    crc32c(copy)
}

/// Whether reserved bytes are what they must be.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    // Without an end before the last: then many are looked at in one step.
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}
