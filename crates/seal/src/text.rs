//! A sealed secret, as text: `sealed:FORM:KEY:BYTES`, with the name of the key, and the nonce, the ciphertext and the tag in
//! hexadecimal digits.
//!
//! AES-256-GCM, with 96 random bits for a nonce: safe for 2^32 secrets of one key, and a cluster seals a few thousand. What is
//! authenticated besides is the context. A secret is filled up to [`SECRET_LENGTH_MAX`] bytes before, so that nothing can
//! be told of its length; a URL, which may be longer, to the next multiple of [`URL_STEP_BYTES`].
//!
//! Invariants:
//! - what is sealed is longer than a secret may be, whatever the secret is;
//! - text that somebody has tampered with is never opened.

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use crate::keys::{KEY_FILE, KeyId, Keys, bytes, hexadecimal};

/// Bytes of a secret that can be sealed, at most: as many as CHAP lets one have (RFC 7143 6.1).
pub const SECRET_LENGTH_MAX: usize = 255;
/// What a URL is filled up to a multiple of: most are of one length then.
const URL_STEP_BYTES: usize = 256;

/// What is sealed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A secret: one byte says how long it is.
    Secret,
    /// A URL that is a secret, for whoever has it may use it: two bytes say how long it is, the higher one first. Earlier versions
    /// do not look for one.
    Url,
}

impl Form {
    const ALL: [Self; 2] = [Self::Secret, Self::Url];

    /// What it begins with when it is sealed.
    const fn head(self) -> &'static str {
        match self {
            Self::Secret => "sealed:1:",
            Self::Url => "sealed:2:",
        }
    }

    /// The bytes that are sealed; none of what is longer than such a thing may be.
    fn fill(self, text: &str) -> Option<Vec<u8>> {
        let mut whole = match self {
            Self::Secret => vec![u8::try_from(text.len()).ok()?],
            Self::Url => u16::try_from(text.len()).ok()?.to_be_bytes().to_vec(),
        };
        let room = match self {
            Self::Secret => SECRET_LENGTH_MAX,
            Self::Url => text.len().max(1).next_multiple_of(URL_STEP_BYTES),
        };
        let length = whole.len() + room;
        whole.extend_from_slice(text.as_bytes());
        whole.resize(length, 0);
        Some(whole)
    }

    /// The text in such bytes.
    fn text(self, whole: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Secret => {
                let (length, rest) = whole.split_first()?;
                rest.get(..usize::from(*length))
            }
            Self::Url => {
                let (length, rest) = whole.split_first_chunk()?;
                rest.get(..usize::from(u16::from_be_bytes(*length)))
            }
        }
    }
}

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

/// Seals a secret with a key of that name. One that is longer than such a one may be stays as it is: nobody can prove anything by it.
pub(crate) fn seal(
    (id, key): (KeyId, &LessSafeKey),
    form: Form,
    context: &str,
    secret: &str,
) -> String {
    let Some(mut whole) = form.fill(secret) else {
        return secret.to_owned();
    };
    let mut nonce = [0; NONCE_LEN];
    let filled = getrandom::fill(&mut nonce);
    filled.expect("the system has randomness");
    let unique = Nonce::assume_unique_for_key(nonce);
    let context = Aad::from(context.as_bytes());
    let sealed = key.seal_in_place_append_tag(unique, context, &mut whole);
    sealed.expect("so few bytes can be sealed");
    let (head, nonce, whole) = (form.head(), hexadecimal(&nonce), hexadecimal(&whole));
    let text = format!("{head}{id}:{nonce}{whole}");
    assert!(is_sealed(&text), "it is told from secrets by its length");
    text
}

/// The name of the key that a secret is sealed with.
pub(crate) fn key_of(text: &str) -> Option<KeyId> {
    Some(parts(text)?.1)
}

/// Opens a sealed secret.
pub(crate) fn open(keys: Option<&Keys>, context: &str, text: &str) -> Result<String, OpenError> {
    let (form, wanted, nonce, mut whole) = parts(text).ok_or(OpenError::Unknown)?;
    let keys = keys.ok_or(OpenError::NoKey { wanted })?;
    let own = keys.id();
    let key = keys.find(wanted);
    let key = key.ok_or(OpenError::OtherKey { wanted, own })?;
    let unique = Nonce::assume_unique_for_key(nonce);
    let opened = key.open_in_place(unique, Aad::from(context.as_bytes()), &mut whole);
    let opened = opened.map_err(|_| OpenError::Changed)?;
    let secret = form.text(opened).ok_or(OpenError::Changed)?;
    String::from_utf8(secret.to_vec()).map_err(|_| OpenError::Changed)
}

fn parts(text: &str) -> Option<(Form, KeyId, [u8; NONCE_LEN], Vec<u8>)> {
    let mut forms = Form::ALL.into_iter();
    let (form, rest) = forms.find_map(|it| Some((it, text.strip_prefix(it.head())?)))?;
    let (id, sealed) = rest.split_once(':')?;
    let id = bytes(id)?.try_into().ok()?;
    let sealed = bytes(sealed)?;
    let (nonce, whole) = sealed.split_at_checked(NONCE_LEN)?;
    Some((form, KeyId(id), nonce.try_into().ok()?, whole.to_vec()))
}
