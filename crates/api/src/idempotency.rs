//! Requests that bear a key, so that whoever got no answer may repeat them (the header `Idempotency-Key`, as the IETF's
//! draft of that name has it).

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;

use crate::{Problem, ProblemKind};

/// Letters in a key at most: an UUID has 36.
const KEY_LENGTH_MAX: usize = 255;
/// The header.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Names a request: whoever repeats it uses the same, and for another one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key of a header: a text in quotes, as RFC 8941 has it, or without them.
    ///
    /// # Errors
    /// [`ProblemKind::Invalid`] if it is none.
    pub fn new(header: &str) -> Result<Self, Problem> {
        let header = header.trim();
        let key = match header.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"').unwrap_or_default(),
            None => header,
        };
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if (1..=KEY_LENGTH_MAX).contains(&key.len()) && key.bytes().all(plain) {
            return Ok(Self(key.to_owned()));
        }
        Err(invalid())
    }

    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn invalid() -> Problem {
    let detail = format!(
        "Idempotency-Key has 1 to {KEY_LENGTH_MAX} letters, digits and signs, without blanks, quotes and backslashes between"
    );
    Problem::new(ProblemKind::Invalid, detail).hint("an UUID is a good key")
}

/// The key of a request, if it has one.
pub(crate) struct OfRequest(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for OfRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut headers = parts.headers.get_all(KEY).iter();
        let key = match (headers.next(), headers.next()) {
            (None, _) => None,
            (Some(header), None) => {
                let header = header.to_str().map_err(|_| invalid())?;
                Some(IdempotencyKey::new(header)?)
            }
            _ => return Err(invalid()),
        };
        Ok(Self(key))
    }
}

/// A request, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed<T> {
    /// What is to be done.
    pub request: T,
    /// Its key.
    pub key: Option<IdempotencyKey>,
}

impl<T> From<T> for Keyed<T> {
    /// Without a key.
    fn from(request: T) -> Self {
        Self { request, key: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_with_quotes_and_without() {
        let key = |text| IdempotencyKey::new(text);
        assert_eq!(
            key("\"8e03978e-40d5\"").unwrap(),
            key("8e03978e-40d5").unwrap()
        );
        let long = "x".repeat(KEY_LENGTH_MAX + 1);
        for bad in [
            "",
            "\"\"",
            "\"a",
            "a\"",
            "a b",
            "\"a\", \"b\"",
            "\\",
            "ä",
            &long,
        ] {
            assert_eq!(key(bad).unwrap_err().kind, ProblemKind::Invalid, "{bad}");
        }
    }
}
