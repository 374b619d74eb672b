//! A block of zeros is a block that is not there.

use holdfast_model::BLOCK_SIZE;

/// CRC-32C of a block of zeros.
pub const ZERO_BLOCK_CHECKSUM: u32 = 0x98F9_4189;

static ZEROS: [u8; BLOCK_SIZE] = [0; BLOCK_SIZE];

/// Whether `block`, whose checksum is `checksum`, is all zeros. The checksum spares looking at the
/// bytes of nearly every block that is not.
#[must_use]
pub fn is_zero_block(checksum: u32, block: &[u8]) -> bool {
    checksum == ZERO_BLOCK_CHECKSUM && block == ZEROS
}

#[cfg(test)]
mod tests {
    use holdfast_stdx::crc32c;

    use super::*;

    #[test]
    fn the_constant_is_the_checksum() {
        assert_eq!(crc32c(&ZEROS), ZERO_BLOCK_CHECKSUM);
    }

    #[test]
    fn zeros_only() {
        assert!(is_zero_block(ZERO_BLOCK_CHECKSUM, &ZEROS));
        let mut block = ZEROS;
        block[4095] = 1;
        assert!(!is_zero_block(crc32c(&block), &block));
        assert!(!is_zero_block(ZERO_BLOCK_CHECKSUM, &block));
    }
}
