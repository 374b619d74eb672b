//! The keys that secrets are sealed with: a file beside a machine's credentials.
//!
//! Every machine of a cluster has the authority's key, so each derives the same from it, and nothing has to be carried
//! around. What was derived is kept in [`KEY_FILE`]: it is what counts from then on, also where somebody takes the authority's
//! key away, or the authority is replaced. A key that was in use before, in [`FORMER_FILE`], opens, and
//! seals as long as there are machines that have no other.
//!
//! Invariants:
//! - a key that others on the machine can read is refused;
//! - nothing that is there is overwritten.

use std::fmt;
use std::path::Path;

use holdfast_tls::{AUTHORITY_KEY_FILE, CredentialsError, authority_key, read_key, write_key};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

/// The key, in a directory of credentials: 64 hexadecimal digits.
pub const KEY_FILE: &str = "secrets.key";
/// The one before, where secrets are still to be opened that were sealed with it.
pub const FORMER_FILE: &str = "secrets.former.key";

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// What is derived from the authority's key is for this, and for nothing else.
const PURPOSE: &[u8] = b"holdfast: secrets in the metadata, 1";

/// The name of a key: it tells keys from each other, and tells nothing of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(pub(crate) [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The key that seals, and those that open.
pub struct Keys {
    present: (KeyId, LessSafeKey),
    former: Option<(KeyId, LessSafeKey)>,
}

impl Keys {
    /// Those in a directory of credentials; the present one is derived and kept where it is missing. None if it cannot be
    /// derived either, because the authority's key is not there.
    ///
    /// # Errors
    /// [`CredentialsError`] if one is there and not usable, or others can read it.
    pub fn of_directory(directory: &Path) -> Result<Option<Self>, CredentialsError> {
        let path = directory.join(KEY_FILE);
        let present = match read(&path)? {
            Some(key) => key,
            None => match authority_key(directory) {
                Ok(from) => {
                    let key = derive(&from, PURPOSE);
                    match write_key(&path, &(hexadecimal(&key) + "\n")) {
                        Ok(()) => key,
                        // Another process was as quick.
                        Err(CredentialsError::Exists(_)) => read(&path)?.unwrap_or(key),
                        // It can be derived again.
                        Err(error) => {
                            tracing::warn!("keep the key that secrets are sealed with: {error}");
                            key
                        }
                    }
                }
                Err(CredentialsError::Missing(path)) if path.ends_with(AUTHORITY_KEY_FILE) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
        };
        let former = read(&directory.join(FORMER_FILE))?;
        Ok(Some(Self::new(&present, former.as_ref())))
    }

    /// These: what seals, and what opens besides.
    #[must_use]
    pub fn new(present: &[u8; KEY_BYTES], former: Option<&[u8; KEY_BYTES]>) -> Self {
        Self {
            present: usable(present),
            former: former.map(usable),
        }
    }

    /// The name of the present one.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.present.0
    }

    /// The name of the former one, if there is one.
    #[must_use]
    pub fn former_id(&self) -> Option<KeyId> {
        self.former.as_ref().map(|(id, _)| *id)
    }

    /// What seals: the present one, or, where that is wanted and there is one, the former.
    pub(crate) fn sealing(&self, is_former: bool) -> (KeyId, &LessSafeKey) {
        let former = self.former.as_ref().filter(|_| is_former);
        let (id, key) = former.unwrap_or(&self.present);
        (*id, key)
    }

    /// The key of a name.
    pub(crate) fn find(&self, id: KeyId) -> Option<&LessSafeKey> {
        let all = [Some(&self.present), self.former.as_ref()];
        let mut all = all.into_iter().flatten();
        all.find(|(own, _)| *own == id).map(|(_, key)| key)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let former = self.former.as_ref().map(|(id, _)| id);
        let mut told = formatter.debug_struct("Keys");
        told.field("present", &self.present.0)
            .field("former", &former);
        told.finish_non_exhaustive()
    }
}

/// A key of the file's, with the name that follows from it.
fn usable(key: &[u8; KEY_BYTES]) -> (KeyId, LessSafeKey) {
    let name: [u8; KEY_BYTES] = derive(key, b"name");
    let mut id = [0; 8];
    id.copy_from_slice(&name[..8]);
    let sealing = UnboundKey::new(&AES_256_GCM, &derive(key, b"AES-256-GCM"));
    let sealing = sealing.expect("a key of AES-256 has 32 bytes");
    (KeyId(id), LessSafeKey::new(sealing))
}

/// A key for a purpose (HKDF, RFC 5869).
fn derive(from: &[u8], purpose: &[u8]) -> [u8; KEY_BYTES] {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            KEY_BYTES
        }
    }
    let extracted = Salt::new(HKDF_SHA256, b"holdfast").extract(from);
    let mut key = [0; KEY_BYTES];
    let purposes = [purpose];
    let expanded = extracted.expand(&purposes, Length);
    let filled = expanded.and_then(|it| it.fill(&mut key));
    filled.expect("32 bytes are what HKDF with SHA-256 gives at once");
    key
}

/// The key in a file, if that is there.
fn read(path: &Path) -> Result<Option<[u8; KEY_BYTES]>, CredentialsError> {
    let text = match read_key(path) {
        Ok(text) => text,
        Err(CredentialsError::Missing(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let key = bytes(text.trim()).and_then(|it| it.try_into().ok());
    key.map(Some).ok_or_else(|| CredentialsError::Unreadable {
        path: path.to_owned(),
        what: "key of 64 hexadecimal digits",
    })
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits, lower case, are.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    let whole = text.len().is_multiple_of(2);
    let read = pairs.map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    whole.then(|| read.collect()).flatten()
}
