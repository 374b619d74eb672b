//! What a machine shows others, and by what it knows them: its directory of credentials.
//!
//! Invariants:
//! - what is shown has its key here, is of the authority here, and names this node;
//! - a certificate that is renewed keeps its key, so that no crash leaves one without the other, and is good whenever the one before
//!   was, however wrong the clock is by which it is renewed;
//! - what somebody has changed in the directory is taken as a whole and when it is right, or not at all.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use holdfast_model::{ClusterId, NodeId};
use rcgen::{KeyPair, PublicKeyData};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, crypto::ring};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::authority::{self, Authority, Subject};
use crate::files::{self, CredentialsError};
use crate::issued::{Issued, certificate, fingerprint, unreadable};
use crate::trust::Trust;
use crate::{AUTHORITY_FILE, AUTHORITY_KEY_FILE, NODE_FILE, NODE_KEY_FILE};

/// How long a certificate is good for that is made.
const NODE_TIME: Duration = Duration::from_secs(authority::NODE_DAYS * 24 * 60 * 60);

/// A machine's credentials.
#[derive(Clone)]
pub struct Credentials {
    directory: PathBuf,
    cluster: ClusterId,
    trust: Arc<Trust>,
    shown: Arc<Shown>,
}

/// What came of a look at the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are as they were.
    None,
    /// They are others, and count from now on: what is shown, and the fingerprints of the authorities that are believed, that of
    /// the one that signs first.
    Taken(Issued, Vec<String>),
}

/// What came of a look whether a certificate is to be renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is good for long enough.
    NotDue,
    /// There is a new one, which is shown from now on.
    Renewed(Issued),
    /// It is due, and could not be done: the present one is shown on, for as long as it is good. Why.
    Failed(String),
}

impl Credentials {
    /// Reads the credentials of a node. Where the authority's key is there, and no certificate for the node, it makes one; one
    /// that is good for less than a third of its time, or does not stand for every host of the subject, it makes anew.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub fn of_node(
        directory: &Path,
        cluster: ClusterId,
        subject: &Subject,
        now: SystemTime,
    ) -> Result<(Self, Renewal), CredentialsError> {
        let path = directory.join(AUTHORITY_FILE);
        let (_, found) = authority::certificates_of(&path)?;
        if found != cluster {
            return Err(CredentialsError::OtherCluster {
                path,
                found,
                wanted: cluster,
            });
        }
        let own = directory.join(NODE_FILE);
        let made = match certificate(&own) {
            Err(CredentialsError::Missing(_)) => {
                let authority = Authority::open(directory)?;
                let key_path = directory.join(NODE_KEY_FILE);
                // A start that was cut short may have left it.
                let key = match files::read_key(&key_path) {
                    Ok(text) => KeyPair::from_pem(&text).map_err(|_| no_key(&key_path))?,
                    Err(CredentialsError::Missing(_)) => {
                        let key = authority::new_key();
                        files::write_new(&key_path, &Zeroizing::new(key.serialize_pem()), 0o600)?;
                        key
                    }
                    Err(error) => return Err(error),
                };
                files::replace(&own, &authority.sign(subject, &key, now)?, 0o644)?;
                true
            }
            _ => false,
        };
        let credentials = Self::read(directory)?;
        let issued = credentials.issued();
        let node = issued.identity.map(|it| it.node);
        if let Some(found) = node.filter(|it| *it != subject.node) {
            return Err(CredentialsError::OtherNode {
                path: own,
                found,
                wanted: subject.node,
            });
        }
        if made {
            return Ok((credentials, Renewal::Renewed(issued)));
        }
        let renewal = match credentials.renew(subject, now) {
            Ok(renewal) => renewal,
            // What is good still is shown for as long as it is.
            Err(error) if now < issued.not_after => Renewal::Failed(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok((credentials, renewal))
    }

    /// Reads credentials, whoever's they are.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub fn read(directory: &Path) -> Result<Self, CredentialsError> {
        let (authorities, cluster) = authority::certificates_of(&directory.join(AUTHORITY_FILE))?;
        let (key, issued) = shown(directory, &authorities, cluster)?;
        let shown = RwLock::new((Arc::new(key), issued));
        Ok(Self {
            directory: directory.to_owned(),
            cluster,
            trust: Arc::new(Trust::new(authorities)),
            shown: Arc::new(Shown(shown)),
        })
    }

    /// What is shown says.
    #[must_use]
    pub fn issued(&self) -> Issued {
        self.shown.get().1
    }

    /// Until when the authority's certificate is good that has signed what is shown: they are good for no longer.
    #[must_use]
    pub fn authority_good_until(&self) -> Option<SystemTime> {
        let (key, _) = self.shown.get();
        let own = &key.cert[0];
        let authorities = self.trust.authorities();
        let mut signed = authorities.iter().filter(|it| is_signed_by(own, it));
        Some(Issued::read(signed.next()?)?.not_after)
    }

    /// Whose they are.
    #[must_use]
    pub fn node(&self) -> NodeId {
        whose(&self.issued())
    }

    /// The cluster.
    #[must_use]
    pub const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    pub(crate) fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust)
    }

    pub(crate) fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }

    /// Takes what somebody has put into the directory since: other authorities, another certificate, with its key. Connections that
    /// begin from then on have them.
    ///
    /// # Errors
    /// [`CredentialsError`] if what is there does not go together, is another node's, or is not good now. What there was before is
    /// used on.
    pub fn refresh(&self, now: SystemTime) -> Result<Change, CredentialsError> {
        let path = self.directory.join(AUTHORITY_FILE);
        let (authorities, found) = authority::certificates_of(&path)?;
        if found != self.cluster {
            return Err(CredentialsError::OtherCluster {
                path,
                found,
                wanted: self.cluster,
            });
        }
        let (key, issued) = shown(&self.directory, &authorities, found)?;
        let present = self.issued();
        let are_same = authorities == self.trust.authorities();
        if are_same && issued.fingerprint == present.fingerprint {
            return Ok(Change::None);
        }
        let own = self.directory.join(NODE_FILE);
        let (found, wanted) = (whose(&issued), whose(&present));
        if found != wanted {
            return Err(CredentialsError::OtherNode {
                path: own,
                found,
                wanted,
            });
        }
        let is_other = issued.fingerprint != present.fingerprint;
        if is_other && !(issued.not_before..issued.not_after).contains(&now) {
            return Err(CredentialsError::NotValid(own));
        }
        let fingerprints = authorities.iter().map(|it| fingerprint(it)).collect();
        self.trust.set(authorities);
        self.shown.set(key, issued.clone());
        Ok(Change::Taken(issued, fingerprints))
    }

    /// Makes a new certificate for the same key, if that is due: less than a third of the time is left, the present one does not
    /// stand for every host of the subject, or another authority signs now. All who show it show the new one from then on.
    ///
    /// # Errors
    /// [`CredentialsError`]; the present one stays then.
    pub fn renew(&self, subject: &Subject, now: SystemTime) -> Result<Renewal, CredentialsError> {
        let present = self.issued();
        let stands_for = |name: &String| present.names.contains(name);
        let has_names = subject.names().iter().all(stands_for);
        if !is_due(&present, now) && has_names && !self.is_of_former() {
            return Ok(Renewal::NotDue);
        }
        let authority = Authority::open(&self.directory)?;
        let key_path = self.directory.join(NODE_KEY_FILE);
        let text = files::read_key(&key_path)?;
        let key = KeyPair::from_pem(&text).map_err(|_| no_key(&key_path))?;
        let former = present.not_before..present.not_after;
        let pem = authority.sign_again(subject, &key, former, now)?;
        files::replace(&self.directory.join(NODE_FILE), &pem, 0o644)?;
        let (key, issued) = shown(&self.directory, &self.trust.authorities(), self.cluster)?;
        self.shown.set(key, issued.clone());
        Ok(Renewal::Renewed(issued))
    }

    /// Whether what is shown was signed by the authority before the one that signs now, whose key is here.
    fn is_of_former(&self) -> bool {
        let (key, _) = self.shown.get();
        let authorities = self.trust.authorities();
        self.can_renew() && !is_signed_by(&key.cert[0], &authorities[0])
    }

    /// Whether the directory has the authority's key, with which certificates are renewed.
    #[must_use]
    pub fn can_renew(&self) -> bool {
        self.directory.join(AUTHORITY_KEY_FILE).exists()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Whose what is shown is.
fn whose(issued: &Issued) -> NodeId {
    let identity = issued.identity;
    identity.expect("it was looked at when it was read").node
}

/// Whether less than a third of a certificate's time is left; or none of it has come, because the clock was ahead when it was made, or is
/// behind. One that was renewed begins with the first of them: no more than a year of it is its time.
fn is_due(issued: &Issued, now: SystemTime) -> bool {
    if now < issued.not_before {
        return true;
    }
    let whole = issued.not_after.duration_since(issued.not_before);
    let whole = whole.unwrap_or(Duration::ZERO).min(NODE_TIME);
    let left = issued.not_after.duration_since(now);
    left.unwrap_or(Duration::ZERO) < whole / 3
}

/// What a directory has to show.
fn shown(
    directory: &Path,
    authorities: &[CertificateDer<'static>],
    cluster: ClusterId,
) -> Result<(CertifiedKey, Issued), CredentialsError> {
    let path = directory.join(NODE_FILE);
    let key_path = directory.join(NODE_KEY_FILE);
    let own = certificate(&path)?;
    let issued = Issued::read(&own).ok_or_else(|| unreadable(&path))?;
    let is_ours = issued.identity.is_some_and(|it| it.cluster == cluster);
    if !is_ours || !authorities.iter().any(|it| is_signed_by(&own, it)) {
        return Err(CredentialsError::OtherAuthority(path));
    }
    let text = files::read_key(&key_path)?;
    let pair = KeyPair::from_pem(&text).map_err(|_| no_key(&key_path))?;
    if !belong(&own, &pair) {
        return Err(CredentialsError::OtherKey(key_path));
    }
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| no_key(&key_path))?;
    let key = ring::sign::any_ecdsa_type(&key).map_err(|_| no_key(&key_path))?;
    Ok((CertifiedKey::new(vec![own], key), issued))
}

fn no_key(path: &Path) -> CredentialsError {
    CredentialsError::Unreadable {
        path: path.to_owned(),
        what: "key",
    }
}

/// Whether a key is that of a certificate.
pub(crate) fn belong(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
    let parsed = X509Certificate::from_der(certificate);
    parsed.is_ok_and(|(_, parsed)| parsed.public_key().raw == key.subject_public_key_info())
}

/// Whether an authority has signed a certificate; whether it is valid now is for who is shown it.
pub(crate) fn is_signed_by(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
) -> bool {
    let parsed = X509Certificate::from_der(certificate);
    let authority = X509Certificate::from_der(authority);
    let (Ok((_, parsed)), Ok((_, authority))) = (parsed, authority) else {
        return false;
    };
    let algorithm = webpki_algorithm();
    let signed = authority.public_key().subject_public_key.data.as_ref();
    parsed.issuer() == authority.subject()
        && algorithm
            .verify_signature(
                signed,
                parsed.tbs_certificate.as_ref(),
                parsed.signature_value.data.as_ref(),
            )
            .is_ok()
}

/// How an authority signs: ECDSA on P-256 with SHA-256.
fn webpki_algorithm() -> &'static dyn rustls::pki_types::SignatureVerificationAlgorithm {
    let all = ring::default_provider().signature_verification_algorithms;
    let found = all
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == SignatureScheme::ECDSA_NISTP256_SHA256);
    found.expect("the provider has it").1[0]
}

/// What is shown to others, until there is a later one.
pub(crate) struct Shown(RwLock<(Arc<CertifiedKey>, Issued)>);

impl Shown {
    fn get(&self) -> (Arc<CertifiedKey>, Issued) {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    fn set(&self, key: CertifiedKey, issued: Issued) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *held = (Arc::new(key), issued);
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Shown")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get().0)
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.get().0)
    }

    fn has_certs(&self) -> bool {
        true
    }
}
