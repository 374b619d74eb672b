//! CRC-32C (Castagnoli), the checksum of blocks, of structures at rest and of iSCSI digests.

/// CRC-32C of `bytes` (RFC 3720 appendix B.4: polynomial 1EDC6F41h, reflected, initial and final
/// value FFFFFFFFh).
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_rfc_3720_appendix_b4() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let rising: [u8; 32] = core::array::from_fn(|index| index as u8);
        assert_eq!(crc32c(&rising), 0x46DD_794E);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
