//! A password or a key that is told to nobody but the receiver.
//!
//! Invariants: it is not in any text that is made of what holds it; its memory is overwritten when it goes.

use std::fmt;

use zeroize::Zeroizing;

/// A password or a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text as a secret.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for whoever must have it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("open sesame".to_owned());
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "Secret(…) Some(\n    Secret(…),\n)"
        );
        assert_eq!(secret.expose(), "open sesame");
    }
}
