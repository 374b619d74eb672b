//! Which documents of the metadata have secrets, and where in them.
//!
//! Invariants:
//! - a document without a secret keeps its bytes, and so does one that cannot be read: others say so;
//! - each secret has a context of its own: the document's key, and the field.

use holdfast_model::record::{INITIATORS_PREFIX, InitiatorRecord, Record, Secret};

/// Where documents with secrets are.
pub const PREFIXES: [&str; 1] = [INITIATORS_PREFIX];

/// Whether the document at a key may have secrets.
pub(crate) fn has_secrets(key: &str) -> bool {
    PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Has each secret in a document changed; it is written anew if one was.
pub(crate) fn change<V>(key: &str, value: &mut V, mut each: impl FnMut(&str, &mut Secret))
where
    V: AsRef<[u8]> + From<Vec<u8>>,
{
    if !has_secrets(key) {
        return;
    }
    let Ok(mut record) = InitiatorRecord::decode(value.as_ref()) else {
        return;
    };
    let before = record.clone();
    let fields = [("chap", &mut record.chap), ("mutual", &mut record.mutual)];
    for (field, account) in fields {
        if let Some(account) = account {
            each(&format!("{key}#{field}"), &mut account.secret);
        }
    }
    if record != before {
        *value = record.encode().to_vec().into();
    }
}
