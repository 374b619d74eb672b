//! A sealed secret, as text: `sealed:1:KEY:BYTES`, with the name of the key, and the nonce, the ciphertext and the tag in
//! hexadecimal digits.
//!
//! AES-256-GCM, with 96 random bits for a nonce: safe for 2^32 secrets of one key, and a cluster seals a few thousand. What is
//! authenticated besides is the context. A secret is filled up to [`SECRET_LENGTH_MAX`] bytes before, so that nothing can
//! be told of its length.
//!
//! Invariants:
//! - what is sealed is longer than a secret may be, whatever the secret is;
//! - text that somebody has tampered with is never opened.

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use crate::keys::{KEY_FILE, KeyId, Keys, bytes, hexadecimal};

/// Bytes of a secret that can be sealed, at most: as many as CHAP lets one have (RFC 7143 6.1).
pub const SECRET_LENGTH_MAX: usize = 255;
/// What sealed secrets begin with: the last number is that of this way to seal.
const HEAD: &str = "sealed:1:";
/// One byte says how long the secret is.
const FILLED_BYTES: usize = 1 + SECRET_LENGTH_MAX;

/// Why a sealed secret cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no key at all.
    #[error(
        "it is sealed with the key {wanted}, and this machine has none: put the {KEY_FILE} of another machine beside its \
         credentials, or give the secret anew"
    )]
    NoKey {
        /// The key's name.
        wanted: KeyId,
    },
    /// It was sealed with another key.
    #[error(
        "it is sealed with the key {wanted}, and this machine has {own}: put the {KEY_FILE} of before beside it as \
         secrets.former.key and start again, or give the secret anew"
    )]
    OtherKey {
        /// The key's name.
        wanted: KeyId,
        /// That of the one that is here.
        own: KeyId,
    },
    /// It is not as it was sealed, or was sealed for another document.
    #[error("it is not as it was sealed, or was sealed for another document: give the secret anew")]
    Changed,
    /// It is sealed in a way that this version does not know, or is cut short.
    #[error(
        "it is sealed in a way that this version does not know, or not whole: give the secret anew"
    )]
    Unknown,
}

/// Whether a secret is sealed. None that a person gives is: those are shorter.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.len() > SECRET_LENGTH_MAX && text.starts_with("sealed:")
}

/// Seals a secret with a key of that name. One that is longer than a secret may be stays as it is: nobody can prove anything by it.
pub(crate) fn seal((id, key): (KeyId, &LessSafeKey), context: &str, secret: &str) -> String {
    let Ok(length) = u8::try_from(secret.len()) else {
        return secret.to_owned();
    };
    let mut nonce = [0; NONCE_LEN];
    let filled = getrandom::fill(&mut nonce);
    filled.expect("the system has randomness");
    let mut whole = vec![0; FILLED_BYTES];
    whole[0] = length;
    whole[1..=secret.len()].copy_from_slice(secret.as_bytes());
    let unique = Nonce::assume_unique_for_key(nonce);
    let context = Aad::from(context.as_bytes());
    let sealed = key.seal_in_place_append_tag(unique, context, &mut whole);
    sealed.expect("256 bytes can be sealed");
    let text = format!("{HEAD}{id}:{}{}", hexadecimal(&nonce), hexadecimal(&whole));
    assert!(is_sealed(&text), "it is told from secrets by its length");
    text
}

/// The name of the key that a secret is sealed with.
pub(crate) fn key_of(text: &str) -> Option<KeyId> {
    Some(parts(text)?.0)
}

/// Opens a sealed secret.
pub(crate) fn open(keys: Option<&Keys>, context: &str, text: &str) -> Result<String, OpenError> {
    let (wanted, nonce, mut whole) = parts(text).ok_or(OpenError::Unknown)?;
    let keys = keys.ok_or(OpenError::NoKey { wanted })?;
    let own = keys.id();
    let key = keys.find(wanted);
    let key = key.ok_or(OpenError::OtherKey { wanted, own })?;
    let unique = Nonce::assume_unique_for_key(nonce);
    let opened = key.open_in_place(unique, Aad::from(context.as_bytes()), &mut whole);
    let opened = opened.map_err(|_| OpenError::Changed)?;
    let (length, rest) = opened.split_first().ok_or(OpenError::Changed)?;
    let secret = rest.get(..usize::from(*length)).ok_or(OpenError::Changed)?;
    String::from_utf8(secret.to_vec()).map_err(|_| OpenError::Changed)
}

fn parts(text: &str) -> Option<(KeyId, [u8; NONCE_LEN], Vec<u8>)> {
    let (id, sealed) = text.strip_prefix(HEAD)?.split_once(':')?;
    let id = bytes(id)?.try_into().ok()?;
    let sealed = bytes(sealed)?;
    let (nonce, whole) = sealed.split_at_checked(NONCE_LEN)?;
    Some((KeyId(id), nonce.try_into().ok()?, whole.to_vec()))
}
