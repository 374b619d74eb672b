//! Which documents of the metadata have secrets, and where in them.
//!
//! Invariants:
//! - a document without a secret keeps its bytes, and so does one that cannot be read: others say so;
//! - each secret has a context of its own: the document's key, and the field.

use std::mem::take;

use holdfast_model::record::{
    INITIATORS_PREFIX, InitiatorRecord, RECEIVERS_KEY, ReceiverWay, ReceiversRecord, Record, Secret,
};

use crate::text::Form;

/// Where documents with secrets are.
pub const PREFIXES: [&str; 2] = [INITIATORS_PREFIX, RECEIVERS_KEY];

/// Whether the document at a key may have secrets.
pub(crate) fn has_secrets(key: &str) -> bool {
    PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Has each secret in a document changed; it is written anew if one was.
pub(crate) fn change<V>(key: &str, value: &mut V, mut each: impl FnMut(Form, &str, &mut Secret))
where
    V: AsRef<[u8]> + From<Vec<u8>>,
{
    if key == RECEIVERS_KEY {
        rewrite(value, |record| of_receivers(key, record, each));
    } else if key.starts_with(INITIATORS_PREFIX) {
        rewrite(value, |record: &mut InitiatorRecord| {
            let fields = [("chap", &mut record.chap), ("mutual", &mut record.mutual)];
            for (field, account) in fields {
                if let Some(account) = account {
                    let context = format!("{key}#{field}");
                    each(Form::Secret, &context, &mut account.secret);
                }
            }
        });
    }
}

fn of_receivers(
    key: &str,
    record: &mut ReceiversRecord,
    mut each: impl FnMut(Form, &str, &mut Secret),
) {
    for (name, receiver) in &mut record.receivers {
        let secret = match &mut receiver.way {
            ReceiverWay::Mail { password, .. } => password,
            ReceiverWay::Webhook { url, secret } => {
                // Whoever has it may post there. No name of a receiver has a full stop.
                let mut whole = Secret(take(url));
                each(Form::Url, &format!("{key}#{name}.url"), &mut whole);
                *url = whole.0;
                secret
            }
        };
        if let Some(secret) = secret {
            each(Form::Secret, &format!("{key}#{name}"), secret);
        }
    }
}

/// Reads a document, has it changed, and writes it if that made another one of it.
fn rewrite<V, R>(value: &mut V, change: impl FnOnce(&mut R))
where
    V: AsRef<[u8]> + From<Vec<u8>>,
    R: Record + Clone + PartialEq,
{
    let Ok(mut record) = R::decode(value.as_ref()) else {
        return;
    };
    let before = record.clone();
    change(&mut record);
    if record != before {
        *value = record.encode().to_vec().into();
    }
}
