//! TLS to etcd: whom it is believed by, and what is shown to it.
//!
//! It refuses to believe the authorities that the machine trusts otherwise: etcd's is named. And it reads no files: it is
//! given what is in them, again before each connection where whoever gives it says so.
//!
//! Invariants:
//! - what is made of PEM is usable, or refused before anybody connects;
//! - what is no use when it is given again changes nothing: what was given before counts on;
//! - nothing is said in the clear unless [`EtcdTls::or_plain`] was asked for, and then not to an address at which this process has
//!   found a member with TLS: whoever is on the way could choose else, at any time;
//! - a key is in no error, and not in what `Debug` prints.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tonic::Status;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::EtcdError;

/// What TLS to etcd needs: the certificates that its members' are signed by, and what is shown to them if they ask.
#[derive(Clone)]
pub struct EtcdTls {
    config: Arc<Mutex<ClientTlsConfig>>,
    again: Option<Again>,
    is_plain_too: bool,
}

/// Gives what TLS needs, as it is now; none where that is no use.
type Again = Arc<dyn Fn() -> Option<EtcdTls> + Send + Sync>;

/// What is no use for TLS to etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdTlsError {
    /// There is no certificate of an authority.
    #[error("has no certificate of an authority, as PEM")]
    Authority,
    /// There is no certificate to show.
    #[error("has no certificate, as PEM")]
    Certificate,
    /// There is no key.
    #[error("has no private key, as PEM and without a password")]
    Key,
    /// The key is not that of the certificate.
    #[error("is not the key of the certificate, or of a kind that is not known")]
    OtherKey,
}

impl EtcdTls {
    /// Believes members whose certificates one of these authorities has signed, and shows them a certificate with its key, if
    /// there is one. All are PEM.
    ///
    /// # Errors
    /// [`EtcdTlsError`] if one of them is not what it is to be.
    pub fn new(authority: &[u8], shown: Option<(&[u8], &[u8])>) -> Result<Self, EtcdTlsError> {
        let mut roots = RootCertStore::empty();
        for found in certificates(authority).ok_or(EtcdTlsError::Authority)? {
            let added = roots.add(found);
            added.map_err(|_| EtcdTlsError::Authority)?;
        }
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
        if let Some((certificate, key)) = shown {
            let chain = certificates(certificate).ok_or(EtcdTlsError::Certificate)?;
            let own = PrivateKeyDer::from_pem_slice(key).map_err(|_| EtcdTlsError::Key)?;
            // It is made once to be sure that it can be.
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let versions =
                ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            versions
                .expect("the provider has what its versions need")
                .with_root_certificates(roots)
                .with_client_auth_cert(chain, own)
                .map_err(|_| EtcdTlsError::OtherKey)?;
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        Ok(Self {
            config: Arc::new(Mutex::new(tls)),
            again: None,
            is_plain_too: false,
        })
    }

    /// Asks before each connection for what TLS needs then: certificates are renewed. Where nothing is given, what was given last
    /// is used on.
    #[must_use]
    pub fn renewed_by(mut self, again: impl Fn() -> Option<Self> + Send + Sync + 'static) -> Self {
        self.again = Some(Arc::new(again));
        self
    }

    /// Speaks in the clear to what answers and has no TLS: for members of which some have it already, and for no longer than that.
    /// Whoever is on the way before TLS was found at an address can keep it from being found.
    #[must_use]
    pub fn or_plain(mut self) -> Self {
        self.is_plain_too = true;
        self
    }

    pub(crate) const fn is_plain_too(&self) -> bool {
        self.is_plain_too
    }

    pub(crate) fn of_endpoint(&self) -> ClientTlsConfig {
        let new = self.again.as_ref().and_then(|again| again());
        let mut held = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(new) = new {
            let new = new.config.lock().unwrap_or_else(PoisonError::into_inner);
            *held = new.clone();
        }
        held.clone()
    }
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EtcdTls(..)")
    }
}

/// Addresses that are remembered at most: more than there are members. Where they are full, none is taken for one without TLS.
const SECURE_MAX: usize = 1024;

/// Where members with TLS were found, one that is believed, since this process began: whoever asks then, and with what.
pub(super) struct Secure(Mutex<BTreeSet<String>>);

pub(super) static SECURE: Secure = Secure(Mutex::new(BTreeSet::new()));

impl Secure {
    /// There is one.
    pub(super) fn note(&self, address: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < SECURE_MAX && !known.contains(address) {
            known.insert(address.to_owned());
        }
    }

    /// Whether one without TLS may be there.
    pub(super) fn may_be_plain(&self, address: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < SECURE_MAX && !known.contains(address)
    }
}

/// One certificate or more.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// Why TLS with a member of etcd does not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsRefusal {
    /// Somebody else has signed its certificate.
    #[error(
        "its certificate is not of an authority that is believed here (metadata.ca; for etcd.members, authority.pem)"
    )]
    OtherAuthority,
    /// Its certificate was taken back.
    #[error("its certificate has been revoked: it needs another one")]
    Revoked,
    /// Its certificate is for another use.
    #[error(
        "its certificate is not for a server: it needs one with the extended key usage serverAuth (and clientAuth, if it is \
         the one that members show each other)"
    )]
    OtherUse,
    /// Its certificate cannot be read, or says what is not understood here.
    #[error(
        "its certificate cannot be used: it is damaged, or of a form that is not known here; have it made anew, X.509 version 3 \
         with ECDSA, Ed25519 or RSA of 2048 bits or more"
    )]
    Unusable,
    /// Its certificate does not name where it is.
    #[error(
        "its certificate is not for this address: name it in metadata.etcd as its certificate does, or have the address put \
         into it"
    )]
    OtherName,
    /// Its certificate is too old, or of tomorrow.
    #[error("its certificate has expired or is not valid yet, or a clock is wrong")]
    NotValid,
    /// It wants to be shown a certificate, or another one.
    #[error(
        "it refuses the certificate that it is shown, or wants one: metadata.certificate and metadata.key name one that its \
         own authority has signed"
    )]
    Certificate,
    /// It ends what was begun at once, and why is lost on the way.
    #[error(
        "it ends the connection as soon as TLS is there: most often because it refuses the certificate that it is shown, or \
         wants one (metadata.certificate and metadata.key)"
    )]
    Closed,
    /// It does not speak TLS.
    #[error(
        "what answers does not speak TLS: is it an http:// endpoint? Where etcd.members names it, `plain = true` in the section \
         [etcd] has it spoken to in the clear until all members have TLS (docs/upgrade.md)"
    )]
    NoTls,
    /// It does not speak TLS, and did before.
    #[error(
        "it had TLS, and what answers there now does not: it is not spoken to in the clear any more, for somebody may be on the way; \
         if TLS was taken from it on purpose, start this node's service again"
    )]
    Downgraded,
}

impl TlsRefusal {
    /// What is behind an error of a connection, if that is TLS.
    pub(crate) fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            let found = error.downcast_ref::<rustls::Error>();
            let found = found.and_then(Self::of);
            // Behind a connection of HTTP/2 there is but the text of it.
            if let Some(refusal) = found.or_else(|| Self::of_text(&error.to_string())) {
                return Some(refusal);
            }
            let within = error
                .downcast_ref::<io::Error>()
                .and_then(|it| it.get_ref());
            next = match within {
                Some(within) => Some(within),
                None => error.source(),
            };
        }
        None
    }

    fn of(error: &rustls::Error) -> Option<Self> {
        use CertificateError as Wrong;
        Some(match error {
            rustls::Error::InvalidCertificate(wrong) => match wrong {
                Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => Self::OtherName,
                Wrong::Expired
                | Wrong::ExpiredContext { .. }
                | Wrong::NotValidYet
                | Wrong::NotValidYetContext { .. } => Self::NotValid,
                Wrong::Revoked => Self::Revoked,
                Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => Self::OtherUse,
                Wrong::UnknownIssuer | Wrong::BadSignature => Self::OtherAuthority,
                // Whatever else there is, it is not who has signed it.
                _ => Self::Unusable,
            },
            rustls::Error::InvalidMessage(_) => Self::NoTls,
            _ => return None,
        })
    }

    /// Why the first thing that was asked over TLS was not answered: who is not let in is told so when the connection is there
    /// already, and may hear nothing but its end.
    pub(crate) fn at_first(status: Status) -> EtcdError {
        let source = status.source();
        let is_of_way = source.is_some_and(|source| source.is::<tonic::transport::Error>());
        match EtcdError::from(status) {
            EtcdError::Status(_) if is_of_way => EtcdError::Tls(Self::Closed),
            error => error,
        }
    }

    /// What an alert of the member's means, or its silence, from how rustls tells it. Go's TLS says `BadCertificate` of one that is missing.
    fn of_text(text: &str) -> Option<Self> {
        // Some close what they do not understand, without a word.
        if text == "tls handshake eof" {
            return Some(Self::NoTls);
        }
        let alert = text.strip_prefix("received fatal alert: ")?;
        let is_of_certificates = [
            AlertDescription::CertificateRequired,
            AlertDescription::BadCertificate,
            AlertDescription::UnknownCA,
            AlertDescription::CertificateUnknown,
            AlertDescription::CertificateExpired,
            AlertDescription::UnsupportedCertificate,
            AlertDescription::AccessDenied,
        ];
        let mut all = is_of_certificates.iter();
        all.any(|it| format!("{it:?}") == alert)
            .then_some(Self::Certificate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_then_nothing_is_plain() {
        let secure = Secure(Mutex::new(BTreeSet::new()));
        for number in 0..SECURE_MAX {
            let address = format!("192.0.2.1:{number}");
            assert!(secure.may_be_plain(&address));
            secure.note(&address);
            assert!(!secure.may_be_plain(&address));
        }
        secure.note("192.0.2.2:1");
        assert_eq!(secure.0.lock().unwrap().len(), SECURE_MAX);
        assert!(!secure.may_be_plain("192.0.2.2:1"));
    }
}
