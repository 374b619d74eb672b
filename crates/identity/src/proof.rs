//! What programs and browsers prove who they are by: a text drawn at random, in two parts. The first names what is on record,
//! the second is the secret.
//!
//! Invariants:
//! - of the secret only its SHA-256 is kept. It has 256 bits that nobody can guess, so that nothing slower is needed;
//! - comparing takes as long wherever the difference is.

use alloc::string::String;
use core::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Random bytes that one is made of.
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// What somebody shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    /// A program's token.
    Token,
    /// A browser's session.
    Session,
}

impl ProofKind {
    /// What it begins with, so that it is known where it is found: in a file, or by whoever looks for secrets in public.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Token => "hft_",
            Self::Session => "hfs_",
        }
    }
}

/// What is kept of one, without its id.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Proof(String);

impl fmt::Debug for Proof {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Proof(..)")
    }
}

/// One that has just been drawn.
pub struct Drawn {
    /// What names it on record: 16 hexadecimal digits.
    pub id: String,
    /// What is kept.
    pub proof: Proof,
    /// What its holder shows, and is told this once.
    pub text: String,
}

impl Drawn {
    /// One of that kind, of bytes that nobody can guess.
    #[must_use]
    pub fn new(kind: ProofKind, random: [u8; ID_BYTES + SECRET_BYTES]) -> Self {
        let (id, secret) = random.split_at(ID_BYTES);
        let (id, secret) = (hex(id), hex(secret));
        let text = [kind.prefix(), &id, "_", &secret].concat();
        Self {
            id,
            proof: Proof::of(&secret),
            text,
        }
    }
}

impl Proof {
    fn of(secret: &str) -> Self {
        Self(hex(&Sha256::digest(secret.as_bytes())))
    }

    /// Whether that is the secret.
    #[must_use]
    pub fn is_of(&self, secret: &str) -> bool {
        let shown = Self::of(secret).0;
        let differing = shown.bytes().zip(self.0.bytes());
        let differing = differing.fold(0, |seen, (one, other)| seen | (one ^ other));
        self.0.len() == shown.len() && differing == 0
    }

    /// Id and secret of what is shown; none if it is nothing of that kind.
    #[must_use]
    pub fn taken_apart(kind: ProofKind, text: &str) -> Option<(&str, &str)> {
        let rest = text.strip_prefix(kind.prefix())?;
        let (id, secret) = rest.split_once('_')?;
        let is_hex = |text: &str, bytes: usize| {
            text.len() == 2 * bytes && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES)).then_some((id, secret))
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a text takes what it is given");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_drawn_is_known_again_and_nothing_else_is() {
        let random: [u8; 40] = core::array::from_fn(|place| place as u8);
        let drawn = Drawn::new(ProofKind::Token, random);
        assert_eq!(drawn.id, "0001020304050607");
        assert!(drawn.text.starts_with("hft_0001020304050607_08090a"));
        let (id, secret) = Proof::taken_apart(ProofKind::Token, &drawn.text).unwrap();
        assert_eq!(id, drawn.id);
        assert!(drawn.proof.is_of(secret));
        assert!(!drawn.proof.0.contains(secret), "only its hash is kept");
        let mut other = String::from(secret);
        other.replace_range(63..64, if secret.ends_with('0') { "1" } else { "0" });
        assert!(!drawn.proof.is_of(&other));
        assert!(!drawn.proof.is_of(""));
        assert!(
            !Proof(String::new()).is_of(secret),
            "a cut record lets nobody in"
        );
        for text in [
            "",
            "hft_",
            "hft_00_11",
            &drawn.text[1..],
            &drawn.text[..drawn.text.len() - 1],
        ] {
            assert_eq!(Proof::taken_apart(ProofKind::Token, text), None, "{text}");
        }
        assert_eq!(Proof::taken_apart(ProofKind::Session, &drawn.text), None);
    }
}
