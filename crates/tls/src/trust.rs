//! The authorities that a machine believes: one, and while that is being replaced another one beside it. They can change while
//! connections are made.
//!
//! It refuses to say which of them signs: that is the first in the file, and a matter of [`Authority`](crate::Authority).
//!
//! Invariants:
//! - a connection that begins is judged by what is believed then; one that is there already stays;
//! - there is one at least, and all are of one cluster.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

/// The authorities that are believed now.
pub(crate) struct Trust(RwLock<Arc<Held>>);

struct Held {
    authorities: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
    servers: Arc<dyn ServerCertVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Trust {
    pub(crate) fn new(authorities: Vec<CertificateDer<'static>>) -> Self {
        Self(RwLock::new(Arc::new(Held::new(authorities))))
    }

    /// Believes these from now on, and no others.
    pub(crate) fn set(&self, authorities: Vec<CertificateDer<'static>>) {
        let held = Arc::new(Held::new(authorities));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// Those that are believed, the one that signs first.
    pub(crate) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.held().authorities.clone()
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.held().roots)
    }

    fn held(&self) -> Arc<Held> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Trust")
    }
}

impl Held {
    fn new(authorities: Vec<CertificateDer<'static>>) -> Self {
        let roots = Arc::new(roots(&authorities));
        let provider = || Arc::new(ring::default_provider());
        let servers =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
        // Whether one has to be shown is said by who judges with it.
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider());
        let clients = clients.allow_unauthenticated().build();
        Self {
            authorities,
            roots,
            servers: servers.expect("there is an authority"),
            clients: clients.expect("there is an authority"),
        }
    }
}

pub(crate) fn roots(authorities: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.expect("it was read as an authority's");
    }
    roots
}

/// Judges who answers, by host name and by what is believed at that moment.
#[derive(Debug)]
pub(crate) struct Servers(pub(crate) Arc<Trust>);

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let servers = &self.0.held().servers;
        servers.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let servers = &self.0.held().servers;
        servers.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let servers = &self.0.held().servers;
        servers.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.held().servers.supported_verify_schemes()
    }
}

/// Refuses certificates beside the one that is shown. The authority signs what machines show, and nothing comes between: a chain
/// of a stranger's own making would have all of it verified, in every order, before the end is found to be wrong.
///
/// # Errors
/// [`CertificateError::UnknownIssuer`].
pub(crate) fn alone(intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    if intermediates.is_empty() {
        return Ok(());
    }
    Err(CertificateError::UnknownIssuer.into())
}

/// Judges who asks, by what is believed at that moment.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) trust: Arc<Trust>,
    /// Whether one has to be shown.
    pub(crate) is_mandatory: bool,
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    /// None are told: they may be others by the next connection, and everybody has one certificate to show.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        alone(intermediates)?;
        let clients = &self.trust.held().clients;
        clients.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let clients = &self.trust.held().clients;
        clients.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let clients = &self.trust.held().clients;
        clients.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.held().clients.supported_verify_schemes()
    }
}
