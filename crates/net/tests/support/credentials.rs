//! Credentials in directories, as nodes have them, and a stream of TLS that rustls carries whole: whatever `holdfast_tls` seals
//! and opens by itself has to go with that.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use holdfast_model::{ClusterId, NodeId};
use holdfast_tls::{Authority, Credentials, NODE_DAYS, PeerTls, Subject};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::CLUSTER;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An authority, and what it issues.
pub(crate) struct Made {
    directory: TempDir,
    authority: Authority,
}

/// The authority of most tests.
pub(crate) fn ours() -> &'static Made {
    static OURS: OnceLock<Made> = OnceLock::new();
    OURS.get_or_init(|| Made::new(CLUSTER))
}

pub(crate) fn subject(node: u16) -> Subject {
    Subject {
        node: NodeId(node),
        name: format!("n{node}"),
        hosts: Vec::new(),
    }
}

impl Made {
    pub(crate) fn new(cluster: ClusterId) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let began = SystemTime::now() - 2 * u32::try_from(NODE_DAYS).unwrap() * DAY;
        let authority = Authority::found(&directory.path().join("ca"), cluster, began).unwrap();
        Self {
            directory,
            authority,
        }
    }

    /// A directory with the credentials of a node, made at a time; each call makes others.
    pub(crate) fn issue(&self, node: u16, at: SystemTime) -> PathBuf {
        let path = tempfile::tempdir_in(self.directory.path()).unwrap().keep();
        let path = path.join("tls");
        self.authority.issue(&subject(node), &path, at).unwrap();
        path
    }

    pub(crate) fn tls(&self, node: u16) -> PeerTls {
        self.tls_of(node, SystemTime::now())
    }

    pub(crate) fn tls_of(&self, node: u16, at: SystemTime) -> PeerTls {
        PeerTls::new(&Credentials::read(&self.issue(node, at)).unwrap())
    }

    /// A connection to node 2, as `node`.
    pub(crate) async fn connect(&self, node: u16, socket: TcpStream) -> TlsStream<TcpStream> {
        let connector = connector(&self.issue(node, SystemTime::now()), b"holdfast/peer");
        let name = ServerName::try_from("n2").unwrap();
        connector.connect(name, socket).await.unwrap()
    }
}

/// Shows what is in a directory.
pub(crate) fn connector(directory: &Path, protocol: &[u8]) -> TlsConnector {
    let read = |name| fs::read(directory.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&read("authority.pem")).unwrap();
    roots.add(authority).unwrap();
    let own = CertificateDer::from_pem_slice(&read("node.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("node.key")).unwrap();
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)
        .unwrap();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}
