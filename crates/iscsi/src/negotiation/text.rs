//! `key=value` pairs, each ended by a zero byte (RFC 7143 6.1).

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

/// Longest name of a key: the "key-name" of RFC 7143 6.1 has at most 63 bytes.
pub const KEY_LENGTH_MAX: usize = 63;
/// Longest value: 255 bytes "unless otherwise specified" (RFC 7143 6.1). Nothing that we take is
/// specified otherwise, save CHAP's binary values, of which the longest is 1024 bytes in hexadecimal
/// (RFC 7143 12.1.3).
pub const VALUE_LENGTH_MAX: usize = 2 + 2 * 1024;
/// Most pairs of one text; a login has about thirty keys to choose from.
pub const KEYS_MAX: usize = 128;

/// A key and its value, as they stand in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key's name.
    pub key: &'a str,
    /// The value, empty if nothing follows the equals sign.
    pub value: &'a str,
}

/// Why bytes are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// Not UTF-8.
    #[error("the text is not UTF-8")]
    Encoding,
    /// A piece without an equals sign, or without a key before it.
    #[error("the text has a piece that is no key=value")]
    NoPair,
    /// A key or a value is too long.
    #[error("a key or a value is longer than permitted")]
    TooLong,
    /// There are too many pairs.
    #[error("the text has more pairs than permitted")]
    TooMany,
}

/// The pairs of `text`.
///
/// A zero byte that is missing at the end is forgiven, and so are further ones: both are seen in the
/// field (padding that was counted).
///
/// # Errors
/// [`TextError`] if it is not made of pairs, or of too many, or of too long ones.
pub fn parse_text(text: &[u8]) -> Result<Vec<Pair<'_>>, TextError> {
    let text = core::str::from_utf8(text).map_err(|_| TextError::Encoding)?;
    let mut pairs = Vec::new();
    for piece in text.split('\0').filter(|piece| !piece.is_empty()) {
        let (key, value) = piece.split_once('=').ok_or(TextError::NoPair)?;
        if key.is_empty() {
            return Err(TextError::NoPair);
        }
        if key.len() > KEY_LENGTH_MAX || value.len() > VALUE_LENGTH_MAX {
            return Err(TextError::TooLong);
        }
        if pairs.len() == KEYS_MAX {
            return Err(TextError::TooMany);
        }
        pairs.push(Pair { key, value });
    }
    Ok(pairs)
}

/// Appends `key=value` to `text`.
pub fn put_pair(text: &mut String, key: &str, value: &str) {
    assert!(!value.contains('\0'), "a zero byte would end the value");
    text.push_str(key);
    text.push('=');
    text.push_str(value);
    text.push('\0');
}
