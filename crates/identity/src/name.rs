//! Names of users, and what people call tokens.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters of a user's name at most.
pub const USER_NAME_LENGTH_MAX: usize = 64;
/// Letters of a token's label at most.
pub const LABEL_LENGTH_MAX: usize = 64;

/// A user's name: 1 to [`USER_NAME_LENGTH_MAX`] of `a`-`z`, `0`-`9`, `.`, `_`, `-` and `@`, with a letter or digit first. Capital
/// letters are refused, so that no two names differ by these alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserName(String);

/// A text that is no user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a user's name is 1 to 64 of a-z, 0-9, '.', '_', '-' and '@', with a letter or digit first"
)]
pub struct UserNameError;

impl UserName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserName {
    type Err = UserNameError;

    fn from_str(text: &str) -> Result<Self, UserNameError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let begins = text.bytes().next().is_some_and(plain);
        let goes_on = text
            .bytes()
            .all(|byte| plain(byte) || b"._-@".contains(&byte));
        if begins && goes_on && text.len() <= USER_NAME_LENGTH_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(UserNameError)
        }
    }
}

impl TryFrom<String> for UserName {
    type Error = UserNameError;

    fn try_from(text: String) -> Result<Self, UserNameError> {
        text.parse()
    }
}

impl From<UserName> for String {
    fn from(name: UserName) -> Self {
        name.0
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What people call a token: 1 to [`LABEL_LENGTH_MAX`] letters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

/// A text that is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token's name is 1 to 64 letters, without control characters, and without spaces at its ends"
)]
pub struct LabelError;

impl Label {
    /// The label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let length = text.chars().count();
        let fits = (1..=LABEL_LENGTH_MAX).contains(&length) && text.trim() == text;
        if fits && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(LabelError)
        }
    }
}

impl TryFrom<String> for Label {
    type Error = LabelError;

    fn try_from(text: String) -> Result<Self, LabelError> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_are_told_from_other_texts() {
        for name in ["a", "ada", "ada.l@example.org", "7of9", &"x".repeat(64)] {
            assert_eq!(name.parse::<UserName>().unwrap().as_str(), name);
        }
        for text in [
            "",
            "Ada",
            "-a",
            ".a",
            "a b",
            "ä",
            "a/b",
            "a\n",
            &"x".repeat(65),
        ] {
            assert_eq!(text.parse::<UserName>(), Err(UserNameError), "{text:?}");
        }
    }

    #[test]
    fn labels_are_what_people_write() {
        for label in ["Prometheus", "Ada's script, old", &"ä".repeat(64)] {
            assert_eq!(label.parse::<Label>().unwrap().as_str(), label);
        }
        for text in ["", " a", "a ", "a\u{7}", &"ä".repeat(65)] {
            assert_eq!(text.parse::<Label>(), Err(LabelError), "{text:?}");
        }
    }
}
