//! TLS over a connection: who answers, who asks, and by what they know each other.
//!
//! Invariants:
//! - who answers shows its certificate; who asks may show one, and one that is shown is good, or the connection ends;
//! - a certificate of an authority that is trusted, but of another cluster, is not good.

use std::io;
use std::path::Path;
use std::sync::Arc;

use holdfast_model::{ClusterId, NodeId};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::credentials::Credentials;
use crate::files::CredentialsError;
use crate::issued::Issued;
use crate::trust::{Clients, Servers};

/// The first byte of whatever speaks TLS: a record of a handshake.
const HANDSHAKE: u8 = 22;

/// The side that answers.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    cluster: ClusterId,
}

/// Why a connection was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// What comes is no TLS; nothing of it was taken.
    #[error("it does not speak TLS")]
    Plain(TcpStream),
    /// It is a node of another cluster.
    #[error("it is {0}")]
    OtherCluster(crate::NodeIdentity),
    /// The handshake failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Acceptor {
    /// Answers with these credentials, and knows nodes of their cluster.
    #[must_use]
    pub fn new(credentials: &Credentials) -> Self {
        let verifier = Clients {
            trust: credentials.trust(),
            is_mandatory: false,
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(credentials.shown());
        // Whoever comes again proves again who it is: what has expired meanwhile is not let in.
        config.send_tls13_tickets = 0;
        Self {
            acceptor: Arc::new(config).into(),
            cluster: credentials.cluster(),
        }
    }

    /// Shakes hands; which node it is, if it has shown so. How long that may take is for the caller to say.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(server::TlsStream<TcpStream>, Option<NodeId>), AcceptError> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            return Err(AcceptError::Plain(stream));
        }
        let stream = self.acceptor.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.and_then(<[_]>::first).and_then(Issued::read);
        match shown.and_then(|it| it.identity) {
            Some(identity) if identity.cluster != self.cluster => {
                Err(AcceptError::OtherCluster(identity))
            }
            identity => {
                // A witness is no node, and asks nothing of one.
                let node = identity.map(|it| it.node);
                Ok((stream, node.filter(|it| *it != crate::WITNESS)))
            }
        }
    }
}

/// The side that asks.
#[derive(Clone)]
pub struct Connector(TlsConnector);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It is not of the authority that is trusted.
    #[error("its certificate is not of the authority that is trusted here")]
    Untrusted,
    /// Its time is over, or has not come.
    #[error("its certificate has expired or is not valid yet: look at the clocks of both machines")]
    Expired,
    /// It is for other names.
    #[error("its certificate is not for `{0}`")]
    OtherName(String),
    /// It is no certificate for a server, or none at all.
    #[error("its certificate is not one for a server: {0}")]
    Unfit(rustls::Error),
    /// What answers is no TLS.
    #[error("what answers does not speak TLS")]
    Plain,
    /// The handshake failed.
    #[error(transparent)]
    Io(io::Error),
}

impl Connector {
    /// Trusts the authority in a file of PEM, or both where one is being replaced, and shows nothing.
    ///
    /// # Errors
    /// [`CredentialsError`] if there is no certificate in the file.
    pub fn of_authority(path: &Path) -> Result<Self, CredentialsError> {
        let mut roots = RootCertStore::empty();
        for authority in crate::issued::certificates(path)? {
            let added = roots.add(authority);
            added.map_err(|_| crate::issued::unreadable(path))?;
        }
        let builder = builder().with_root_certificates(roots);
        Ok(Self::from(builder.with_no_client_auth()))
    }

    /// Trusts these authorities, and shows this.
    pub(crate) fn showing(
        own: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        believed: &[CertificateDer<'static>],
    ) -> Self {
        let builder = builder().with_root_certificates(crate::trust::roots(believed));
        let config = builder.with_client_auth_cert(own, key);
        Self::from(config.expect("they were made for each other"))
    }

    /// Trusts the authority of these credentials, and shows them.
    #[must_use]
    pub fn of_machine(credentials: &Credentials) -> Self {
        let judge = Servers(credentials.trust());
        let builder = builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(judge));
        Self::from(builder.with_client_cert_resolver(credentials.shown()))
    }

    /// Shakes hands with a host, by the name or address at which it was reached. How long that may take is for the caller to say.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<client::TlsStream<TcpStream>, ConnectError> {
        let host = host.trim_matches(['[', ']']);
        let Ok(name) = ServerName::try_from(host.to_owned()) else {
            return Err(ConnectError::OtherName(host.to_owned()));
        };
        let connected = self.0.connect(name, stream).await;
        connected.map_err(|error| judge(error, host))
    }
}

impl Connector {
    /// Shakes hands with a host, says nothing more, and tells what it shows. How long that may take is for the caller to say.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn look(&self, host: &str, stream: TcpStream) -> Result<Issued, ConnectError> {
        let mut stream = self.connect(host, stream).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.and_then(<[_]>::first).and_then(Issued::read);
        // It has been told then that this is all; whether it hears that does not matter.
        drop(stream.shutdown().await);
        shown.ok_or(ConnectError::Unfit(rustls::Error::NoCertificatesPresented))
    }
}

impl From<ClientConfig> for Connector {
    /// Trusts and shows what the configuration says, without resumption.
    fn from(mut config: ClientConfig) -> Self {
        config.resumption = rustls::client::Resumption::disabled();
        Self(Arc::new(config).into())
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Connector")
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Acceptor")
    }
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn judge(error: io::Error, host: &str) -> ConnectError {
    let cause = error.get_ref().and_then(|it| it.downcast_ref());
    let Some(cause) = cause else {
        return ConnectError::Io(error);
    };
    match cause {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                ConnectError::Untrusted
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => ConnectError::Expired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                ConnectError::OtherName(host.to_owned())
            }
            _ => ConnectError::Unfit(cause.clone()),
        },
        rustls::Error::InvalidMessage(_) => ConnectError::Plain,
        _ => ConnectError::Io(error),
    }
}
