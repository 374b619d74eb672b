//! Passwords: what is taken as one, and what is kept of it.
//!
//! argon2id (RFC 9106) with the parameters that OWASP's Password Storage Cheat Sheet names first for machines that do other
//! work: 19 MiB, two passes, one lane. They stand in each hash, so that they can be raised.
//!
//! Invariants:
//! - a password is never printed, and never kept;
//! - verifying takes as long for a user that there is not.

use alloc::string::{String, ToString};
use core::fmt;

use argon2::password_hash::{PasswordHash as Parsed, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};

/// Bytes of a password at least: with fewer, what can be tried at all is a danger (NIST SP 800-63B, 3.1.1.2).
pub const PASSWORD_BYTES_MIN: usize = 12;
/// Bytes at most, so that hashing one has a bound.
pub const PASSWORD_BYTES_MAX: usize = 256;

const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Bytes of a salt.
const SALT_BYTES: usize = 16;
/// What is verified against for a user that there is not: a hash of nothing that anybody knows.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Why a text is no password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// It is too short.
    #[error("the password has fewer than 12 letters")]
    Short,
    /// It is too long.
    #[error("the password has more than 256 bytes")]
    Long,
    /// It is the user's name, or one letter again and again.
    #[error("the password is the user's name, or the same letter again and again")]
    Guessable,
}

/// What is kept of a password: its argon2id hash as a PHC string.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Of a user's new password. This takes some ten milliseconds of a processor, and 19 MiB.
    ///
    /// # Errors
    /// [`PasswordError`] if it is not good enough to be one.
    pub fn of(user: &str, password: &str, salt: [u8; SALT_BYTES]) -> Result<Self, PasswordError> {
        check(user, password)?;
        let salt = SaltString::encode_b64(&salt).expect("16 bytes are a salt");
        let hash = hasher().hash_password(password.as_bytes(), &salt);
        let hash = hash.expect("the parameters are within argon2's ranges");
        Ok(Self(hash.to_string()))
    }

    /// Whether a password is the one, or none where there is no user; that takes as long.
    #[must_use]
    pub fn is_of(hash: Option<&Self>, password: &str) -> bool {
        // What is longer than any password would only cost time.
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let text = hash.map_or(NOBODY, |hash| &hash.0);
        let Ok(parsed) = Parsed::new(text) else {
            return false;
        };
        let matches = hasher()
            .verify_password(password.as_bytes(), &parsed)
            .is_ok();
        matches && hash.is_some()
    }
}

impl fmt::Debug for PasswordHash {
    /// That there is one, and no more: what is kept can be tried against.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PasswordHash(..)")
    }
}

fn hasher() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None);
    let params = params.expect("the parameters are within argon2's ranges");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn check(user: &str, password: &str) -> Result<(), PasswordError> {
    if password.chars().count() < PASSWORD_BYTES_MIN {
        return Err(PasswordError::Short);
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(PasswordError::Long);
    }
    let first = password.chars().next();
    let one_letter = password.chars().all(|letter| Some(letter) == first);
    if one_letter || password.eq_ignore_ascii_case(user) {
        return Err(PasswordError::Guessable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_by_what_is_kept_of_it() {
        let hash = PasswordHash::of("ada", "correct horse battery", [7; 16]).unwrap();
        assert!(
            hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{}",
            hash.0
        );
        assert!(!hash.0.contains("correct"));
        assert!(PasswordHash::is_of(Some(&hash), "correct horse battery"));
        for wrong in [
            "",
            "correct horse batterz",
            "Correct horse battery",
            &"x".repeat(300),
        ] {
            assert!(!PasswordHash::is_of(Some(&hash), wrong), "{wrong}");
        }
        // Not even nothing is nobody's password.
        assert!(!PasswordHash::is_of(None, ""));
        assert!(!PasswordHash::is_of(None, "correct horse battery"));
        assert!(Parsed::new(NOBODY).is_ok(), "else no time passes");
        let other = PasswordHash::of("ada", "correct horse battery", [8; 16]).unwrap();
        assert_ne!(hash, other, "salted");
        assert!(!PasswordHash::is_of(
            Some(&PasswordHash("nonsense".to_string())),
            "x"
        ));
    }

    #[test]
    fn what_is_too_easily_tried_is_no_password() {
        let of = |password: &str| PasswordHash::of("administrator", password, [0; 16]);
        assert_eq!(of("short"), Err(PasswordError::Short));
        assert_eq!(of(&"ä".repeat(11)), Err(PasswordError::Short));
        assert_eq!(of(&"ab".repeat(129)), Err(PasswordError::Long));
        assert_eq!(of("aaaaaaaaaaaaaaaa"), Err(PasswordError::Guessable));
        assert_eq!(of("Administrator"), Err(PasswordError::Guessable));
        assert!(of("ääääääääääab").is_ok());
    }

    #[test]
    fn nothing_of_it_is_printed() {
        let hash = PasswordHash::of("ada", "correct horse battery", [7; 16]).unwrap();
        assert_eq!(alloc::format!("{hash:?}"), "PasswordHash(..)");
    }
}
