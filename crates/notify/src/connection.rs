//! A connection to a receiver, with TLS by the system's authorities and one more.
//!
//! Invariants:
//! - what is waited for ends with the deadline, whatever the other side does;
//! - there is no way to TLS without the other side's certificate being checked.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::receiver::authorities;
use crate::{Stage, TlsFailure, Undelivered};

/// How long one address of several may take.
const ADDRESS_TIME_MAX: Duration = Duration::from_secs(3);

/// What bytes go through.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A host and a port, by when all has to be done there, and whom it is trusted to be.
pub(crate) struct Peer<'a> {
    host: &'a str,
    port: u16,
    authority: Option<&'a str>,
    deadline: Instant,
}

impl<'a> Peer<'a> {
    /// Brackets around an IPv6 address do not matter.
    pub(crate) fn new(
        host: &'a str,
        port: u16,
        authority: Option<&'a str>,
        patience: Duration,
    ) -> Self {
        Self {
            host: host.trim_matches(['[', ']']),
            port,
            authority,
            deadline: Instant::now() + patience,
        }
    }

    /// Waits no longer than the deadline.
    pub(crate) async fn wait<T>(
        &self,
        stage: Stage,
        what: impl Future<Output = T>,
    ) -> Result<T, Undelivered> {
        let at = || self.to_string();
        let done = timeout_at(self.deadline, what).await;
        done.map_err(|_| Undelivered::TooSlow { at: at(), stage })
    }

    pub(crate) async fn connect(&self) -> Result<TcpStream, Undelivered> {
        let connected = self.wait(Stage::Connect, self.try_addresses()).await?;
        connected.map_err(|error| Undelivered::Unreachable {
            at: self.to_string(),
            error,
        })
    }

    /// One address after the other: one that says nothing does not use up the time of the others.
    async fn try_addresses(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in lookup_host((self.host, self.port)).await? {
            match timeout(ADDRESS_TIME_MAX, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }

    /// Shakes hands.
    pub(crate) async fn secure<S: Wire>(&self, stream: S) -> Result<TlsStream<S>, Undelivered> {
        let fail = |failure| Undelivered::Tls {
            at: self.to_string(),
            failure,
        };
        let name = ServerName::try_from(self.host.to_owned());
        let name = name.map_err(|_| fail(TlsFailure::OtherName))?;
        let mut roots = self.wait(Stage::Handshake, system_roots()).await?;
        if let Some(pem) = self.authority {
            roots.extend(authorities(pem)?.roots);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let shaken = self.wait(Stage::Handshake, shaken).await?;
        shaken.map_err(|error| fail(judge(error)))
    }

    pub(crate) fn broken(&self, error: io::Error) -> Undelivered {
        Undelivered::Broken {
            at: self.to_string(),
            error,
        }
    }
}

impl fmt::Display for Peer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

/// Whom the system trusts. They are read each time: messages are rare, and a new authority counts at once. Without any,
/// no certificate is trusted, and the handshake says so.
async fn system_roots() -> RootCertStore {
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| RootCertStore::empty())
}

fn judge(error: io::Error) -> TlsFailure {
    let cause = error.get_ref().and_then(|it| it.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidCertificate(certificate)) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsFailure::Untrusted
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsFailure::Expired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFailure::OtherName
            }
            _ => TlsFailure::Handshake(error),
        },
        Some(rustls::Error::InvalidMessage(_)) => TlsFailure::Plain,
        _ => TlsFailure::Handshake(error),
    }
}
