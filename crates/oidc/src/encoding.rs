//! How bytes and texts are written in URLs.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// A text as a part of `application/x-www-form-urlencoded`, which is as good in a query: everything but unreserved letters is
/// escaped (RFC 3986, section 2.3).
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a text takes what it is given");
        }
    }
    escaped
}

/// Names and values as a form.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Bytes as letters that need no escape (RFC 4648, section 5).
pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes that such letters are.
pub(crate) fn of_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// What stands in `Authorization` for a client with a secret (RFC 6749, section 2.3.1).
pub(crate) fn basic(id: &str, secret: &str) -> String {
    let pair = format!("{}:{}", escape(id), escape(secret));
    format!("Basic {}", STANDARD.encode(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_url_is_escaped() {
        assert_eq!(
            escape("aZ09-._~ /?&=+%:ä"),
            "aZ09-._~%20%2F%3F%26%3D%2B%25%3A%C3%A4"
        );
        assert_eq!(form(&[("a", "b c"), ("d", "&")]), "a=b%20c&d=%26");
        // The name and the secret are escaped first, so that a colon in them is none.
        assert_eq!(
            basic("a:b", "c"),
            format!("Basic {}", STANDARD.encode("a%3Ab:c"))
        );
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(of_base64url(&base64url(&bytes)), Some(bytes));
        assert_eq!(of_base64url("a+b/"), None);
    }
}
