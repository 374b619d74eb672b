//! What both kinds of receivers need in tests: a message, an authority, and a server that does as it is told.

use std::fmt::Debug;
use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_notify::{Change, Message, Severity, Told};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use time::OffsetDateTime;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Less than a delivery may take, where it is to be seen that it ends.
pub(crate) const PATIENCE: Duration = Duration::from_millis(700);

pub(crate) fn told(code: &str, subject: &str, change: Change) -> Told {
    Told {
        id: format!("{code}/{subject}"),
        code: code.to_owned(),
        severity: Severity::Critical,
        change,
        subject: subject.to_owned(),
        title: format!("Lost: {subject}"),
        detail: "Nothing was heard of it for 12 s.\n.\nIts rôle: \"primary\" of 7 slices."
            .to_owned(),
        meaning: "What it held is on other nodes.".to_owned(),
        action: "Start it: systemctl start holdfast-node".to_owned(),
        since_ms: 1_795_000_000_000,
        cleared_ms: (change == Change::Cleared).then_some(1_795_000_060_000),
    }
}

pub(crate) fn message(alarms: Vec<Told>) -> Message {
    Message {
        cluster: "0123abcd".to_owned(),
        cluster_name: "prod".to_owned(),
        sent_at_ms: 1_795_000_012_345,
        alarms,
        forgotten: 0,
    }
}

pub(crate) fn one() -> Message {
    message(vec![told("node-lost", "node n2", Change::Raised)])
}

/// More than is told at once, with texts of a megabyte.
pub(crate) fn huge() -> Message {
    let mut alarms = Vec::new();
    for number in 0..200 {
        let mut alarm = told("node-lost", &format!("node n{number}"), Change::Raised);
        if number < 4 {
            alarm.detail = "ü".repeat(1 << 20);
            alarm.title = "x".repeat(1 << 20);
        }
        alarms.push(alarm);
    }
    message(alarms)
}

/// An authority of a test's own.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        Self { pem, issuer }
    }

    /// What shows a certificate for a name, that is valid until so many days from now.
    pub(crate) fn acceptor(&self, name: &str, days: i64) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let now = OffsetDateTime::now_utc();
        parameters.not_before = now - time::Duration::days(400);
        parameters.not_after = now + time::Duration::days(days);
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config).into()
    }
}

/// What bytes go through.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin + Debug {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + Debug> Wire for T {}

/// Takes one connection on a port of loopback, and does something with it.
pub(crate) async fn serve<T, F>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (u16, JoinHandle<T>)
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await
    });
    (port, task)
}
