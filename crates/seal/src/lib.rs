//! Secrets in the metadata, sealed with a key that only the cluster's machines have: whoever reads etcd, its backups or its
//! snapshots has nothing to log in with.
//!
//! A [`Seal`] stands between a process and the metadata. It *opens* the secrets in what the metadata answers, and *closes*
//! those in what is written there, so that nobody else has to know. Which documents have secrets is said in one place,
//! [`documents`]. The key is a file beside the machine's credentials ([`keys`]), derived from the authority's.
//!
//! It refuses to decide whether all who read can open what is sealed: whoever steers the cluster looks at that, and says
//! so by [`Seal::begin`]. And it protects nothing against whoever is root on one of the machines.
//!
//! Invariants:
//! - a sealed secret that cannot be opened stays as it is, wherever it is read and written again: nothing is dropped;
//! - what is sealed is longer than any secret may be, so that no version takes it for one;
//! - a sealed secret cannot be moved: it opens only in the document and the field that it was sealed for;
//! - no secret, and no key, is in an error, in a log, or in what `Debug` prints.
#![forbid(unsafe_code)]

pub mod documents;
pub mod keys;
mod text;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_model::metadata::{
    Compare, KeyValue, MetadataAnswer, MetadataRequest, Operation, OperationResult, Transaction,
    WatchEvent,
};
use holdfast_model::record::Secret;
use holdfast_tls::CredentialsError;

pub use keys::{FORMER_FILE, KEY_FILE, KeyId, Keys};
use text::Form;
pub use text::{OpenError, SECRET_LENGTH_MAX, is_sealed};

/// Up to which form this version opens what is sealed: the number that each begins with. The first one is of secrets, the second of
/// URLs that are secrets.
pub const FORM: u32 = 2;
/// The first version that sealed had this one.
pub const FORM_OF_SECRETS: u32 = 1;

/// Documents of which it was said that they cannot be opened, at most: of any more it is not said again and again, but once.
const TOLD_MAX: usize = 1 << 10;

/// What stands between a process and the metadata. Clones are one.
#[derive(Clone, Default)]
pub struct Seal(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// None where there is to be no TLS, or the machine has no key.
    keys: Option<Keys>,
    /// Whether there should be one.
    is_to_have_key: bool,
    /// Whether what is written is sealed.
    seals: AtomicBool,
    /// Whether URLs are, too, which earlier versions do not open.
    seals_urls: AtomicBool,
    /// Whether that is with the former key, because there are nodes that have no other.
    uses_former: AtomicBool,
    /// The documents of which it was said that they cannot be opened.
    told: Mutex<BTreeSet<String>>,
}

impl Seal {
    /// One without a key: it seals nothing, and opens nothing.
    #[must_use]
    pub fn without_key() -> Self {
        Self::default()
    }

    /// One with the keys in a directory of credentials; the present one is made there where it is missing and can be derived.
    ///
    /// # Errors
    /// [`CredentialsError`] if a key is there and not usable, or others can read it.
    pub fn of_directory(directory: &Path) -> Result<Self, CredentialsError> {
        Ok(Self::with(Keys::of_directory(directory)?))
    }

    /// One with these keys, for a machine that should have some.
    #[must_use]
    pub fn with(keys: Option<Keys>) -> Self {
        Self(Arc::new(Inner {
            keys,
            is_to_have_key: true,
            ..Inner::default()
        }))
    }

    /// The name of its present key, if it has one. It is no secret.
    #[must_use]
    pub fn key_id(&self) -> Option<KeyId> {
        self.0.keys.as_ref().map(Keys::id)
    }

    /// The name of the key that it sealed with before, if it still has that.
    #[must_use]
    pub fn former_id(&self) -> Option<KeyId> {
        self.0.keys.as_ref().and_then(Keys::former_id)
    }

    /// Says whether there may be nodes that have the former key only: as long as there may, all can open that, and not all the other.
    /// Keys are changed on one machine after the other.
    pub fn use_former(&self, is_needed: bool) {
        self.0.uses_former.store(is_needed, Ordering::Relaxed);
    }

    fn uses_former(&self) -> bool {
        self.0.uses_former.load(Ordering::Relaxed)
    }

    /// Whether the machine should have a key, and has none: a secret that it writes would be there plainly, among others' that are
    /// sealed.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        self.0.is_to_have_key && self.0.keys.is_none()
    }

    /// From now on what is written is sealed, if there is a key: all who read can open it.
    pub fn begin(&self) {
        if self.0.keys.is_some() && !self.0.seals.swap(true, Ordering::Relaxed) {
            tracing::info!("secrets are sealed from now on in what is written to the metadata");
        }
    }

    /// From now on the URLs that are secrets are sealed as well, if there is a key: all who read open those, too.
    pub fn begin_with_urls(&self) {
        if self.0.keys.is_some() && !self.0.seals_urls.swap(true, Ordering::Relaxed) {
            self.begin();
            tracing::info!("URLs of webhooks are sealed, too");
        }
    }

    /// Whether what is of that form is sealed where it is written.
    fn seals_form(&self, form: Form) -> bool {
        match form {
            Form::Secret => true,
            Form::Url => self.0.seals_urls.load(Ordering::Relaxed),
        }
    }

    /// Whether what is written is sealed.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.0.seals.load(Ordering::Relaxed)
    }

    /// Seals the secrets in what is about to be written, if that is to be.
    pub fn close(&self, request: &mut MetadataRequest) {
        let MetadataRequest::Transact(transaction) = request else {
            return;
        };
        let Some(keys) = self.0.keys.as_ref().filter(|_| self.seals()) else {
            return;
        };
        let sealing = keys.sealing(self.uses_former());
        let branches = transaction.success.iter_mut();
        for operation in branches.chain(&mut transaction.failure) {
            if let Operation::Put { key, value, .. } = operation {
                documents::change(key, value, |form, context, secret| {
                    if self.seals_form(form) && !is_sealed(&secret.0) {
                        *secret = Secret(text::seal(sealing, form, context, &secret.0));
                    }
                });
            }
        }
    }

    /// Opens the secrets in what the metadata answers. What cannot be opened stays, and is told of once.
    pub fn open(&self, answer: &mut MetadataAnswer) {
        match answer {
            MetadataAnswer::Transacted(outcome) => {
                for result in &mut outcome.results {
                    if let OperationResult::Range(found) = result {
                        found.iter_mut().for_each(|pair| self.open_pair(pair));
                    }
                }
            }
            MetadataAnswer::Watched { events, .. } => {
                for event in events {
                    if let WatchEvent::Put(pair) = event {
                        self.open_pair(pair);
                    }
                }
            }
            MetadataAnswer::WatchResumed
            | MetadataAnswer::WatchEnded(_)
            | MetadataAnswer::Granted { .. }
            | MetadataAnswer::KeptAlive
            | MetadataAnswer::Revoked
            | MetadataAnswer::Failed(_) => {}
        }
    }

    fn open_pair(&self, pair: &mut KeyValue) {
        if !documents::has_secrets(&pair.key) {
            return;
        }
        let mut failed = None;
        documents::change(&pair.key, &mut pair.value, |form, context, secret| {
            if !is_sealed(&secret.0) {
                return;
            }
            match text::open(self.0.keys.as_ref(), context, &secret.0) {
                Ok(opened) => {
                    // Where one is sealed, with the key of before as well, nothing is written plainly any more: documents with
                    // other secrets are written anew when one of them changes.
                    match form {
                        Form::Secret => self.begin(),
                        Form::Url => self.begin_with_urls(),
                    }
                    *secret = Secret(opened);
                }
                Err(error) => failed = Some(error),
            }
        });
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        match failed {
            None => drop(told.remove(&pair.key)),
            Some(error) if told.len() < TOLD_MAX && told.insert(pair.key.clone()) => {
                tracing::error!(
                    "a secret in {} cannot be opened, and whoever proves himself by it cannot: {error}",
                    pair.key
                );
            }
            Some(_) => {}
        }
    }

    /// What seals a document anew of which a secret is plain, or, unless there is to be `only_plain`, sealed with an earlier key that
    /// is still there; none where nothing is to be done. The document is as it is in the metadata, not opened.
    #[must_use]
    pub fn renew(&self, pair: &KeyValue, only_plain: bool) -> Option<Transaction> {
        let keys = self.0.keys.as_ref()?;
        let sealing = keys.sealing(self.uses_former());
        let mut value = pair.value.clone();
        documents::change(&pair.key, &mut value, |form, context, secret| {
            let plain = match text::key_of(&secret.0) {
                None if is_sealed(&secret.0) || !self.seals_form(form) => return,
                None => Ok(secret.0.clone()),
                Some(id) if only_plain || id == sealing.0 => return,
                Some(_) => text::open(Some(keys), context, &secret.0),
            };
            if let Ok(plain) = plain {
                *secret = Secret(text::seal(sealing, form, context, &plain));
            }
        });
        let (key, equals) = (pair.key.clone(), pair.mod_revision);
        let is_as_before = value == pair.value;
        (!is_as_before).then(|| Transaction {
            compare: vec![Compare::ModRevision {
                key: key.clone(),
                equals,
            }],
            success: vec![Operation::put(key, value)],
            failure: Vec::new(),
        })
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = formatter.debug_struct("Seal");
        told.field("key", &self.key_id())
            .field("seals", &self.seals());
        told.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
