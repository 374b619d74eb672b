//! A connection to a host outside of the cluster, with TLS by those who are trusted.
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

use crate::authorities;
use crate::{Failure, Stage, TlsFailure};

/// How long one address of several may take.
const ADDRESS_TIME_MAX: Duration = Duration::from_secs(3);

/// Who says who somebody is. Authorities are PEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// The system's authorities.
    System,
    /// Those, and these.
    Also(&'a str),
    /// These, and no others.
    Only(&'a str),
}

/// What bytes go through.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A host and a port, by when all has to be done there, and whom it is trusted to be.
pub struct Peer<'a> {
    host: &'a str,
    port: u16,
    trust: Trust<'a>,
    deadline: Instant,
}

impl<'a> Peer<'a> {
    /// A host and a port, where all has to be done within `patience`. Brackets around an IPv6 address do not matter.
    #[must_use]
    pub fn new(host: &'a str, port: u16, trust: Trust<'a>, patience: Duration) -> Self {
        Self {
            host: host.trim_matches(['[', ']']),
            port,
            trust,
            deadline: Instant::now() + patience,
        }
    }

    /// Waits no longer than the deadline.
    ///
    /// # Errors
    /// [`Failure::TooSlow`] then.
    pub async fn wait<T>(&self, stage: Stage, what: impl Future<Output = T>) -> Result<T, Failure> {
        let at = || self.to_string();
        let done = timeout_at(self.deadline, what).await;
        done.map_err(|_| Failure::TooSlow { at: at(), stage })
    }

    /// Connects.
    ///
    /// # Errors
    /// [`Failure::Unreachable`], [`Failure::TooSlow`].
    pub async fn connect(&self) -> Result<TcpStream, Failure> {
        let connected = self.wait(Stage::Connect, self.try_addresses()).await?;
        connected.map_err(|error| Failure::Unreachable {
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
    ///
    /// # Errors
    /// [`Failure::Tls`], [`Failure::TooSlow`], [`Failure::Authority`].
    pub async fn secure<S: Wire>(&self, stream: S) -> Result<TlsStream<S>, Failure> {
        let fail = |failure| Failure::Tls {
            at: self.to_string(),
            failure,
        };
        let name = ServerName::try_from(self.host.to_owned());
        let name = name.map_err(|_| fail(TlsFailure::OtherName))?;
        let mut roots = match self.trust {
            Trust::Only(_) => RootCertStore::empty(),
            _ => self.wait(Stage::Handshake, system_roots()).await?,
        };
        if let Trust::Also(pem) | Trust::Only(pem) = self.trust {
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

    /// A connection that was there, and ended so.
    #[must_use]
    pub fn broken(&self, error: io::Error) -> Failure {
        Failure::Broken {
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

/// Whom the system trusts. They are read each time: requests are rare, and a new authority counts at once. Without any,
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
