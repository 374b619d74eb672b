//! Values (RFC 7143 6.1) as types.

/// A digest that PDUs may have (RFC 7143 13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// None.
    None,
    /// CRC-32C.
    Crc32c,
}

impl Digest {
    /// As it stands in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Crc32c => "CRC32C",
        }
    }

    /// The digest of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "None" => Some(Self::None),
            "CRC32C" => Some(Self::Crc32c),
            _ => None,
        }
    }
}

/// A decimal or hexadecimal number (RFC 7143 6.1), of at most 32 bits.
#[must_use]
pub fn parse_number(text: &str) -> Option<u32> {
    // Rust's own parser takes a sign, which the RFC does not have.
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// `Yes` or `No`.
#[must_use]
pub fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}
