//! The node's credentials: read before it does anything else, and renewed in time.
//!
//! Invariants:
//! - a node without credentials does not start, unless its configuration says that it is to do without TLS;
//! - a certificate that cannot be renewed is told of every day, and shown for as long as it is good;
//! - a key for secrets that others on the machine can read is refused; without one, what is sealed stays shut, and it is said.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdfast_model::ClusterId;
use holdfast_seal::{KEY_FILE, Seal};
use holdfast_tls::{
    AUTHORITY_FILE, Acceptor, Connector, Credentials, CredentialsError, Issued, PeerTls, Renewal,
    Subject,
};
use tokio::time::sleep;

use crate::config::NodeConfig;
use crate::error::NodeError;

/// How often it is looked whether the certificate is to be renewed.
const RENEWAL_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

/// A node's side of TLS.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    credentials: Credentials,
    subject: Subject,
    seal: Seal,
}

impl Security {
    /// The node's credentials, by its configuration; none where that says that there is to be no TLS.
    pub(crate) fn begin(config: &NodeConfig) -> Result<Option<Self>, NodeError> {
        if config.security.off {
            tracing::warn!(
                "security.off: there is no TLS, and what is said to this node and by it can be read and changed on its way; \
                 secrets in the metadata are not sealed"
            );
            return Ok(None);
        }
        let directory = config.credentials();
        let subject = config.subject();
        let credentials = credentials(&directory, config.cluster, &subject)?;
        let seal = Seal::of_directory(&directory).map_err(NodeError::Credentials)?;
        if seal.key_id().is_none() {
            tracing::error!(
                "{} is not there, and cannot be made without the authority's key: no sealed secret can be opened, and hosts \
                 that prove themselves by one cannot log in; copy it from another machine, and start again",
                directory.join(KEY_FILE).display()
            );
        }
        Ok(Some(Self {
            credentials,
            subject,
            seal,
        }))
    }

    /// What seals secrets in the metadata, and opens them: with no key where there is to be no TLS.
    pub(crate) fn seal_of(security: Option<&Self>) -> Seal {
        security.map_or_else(Seal::without_key, |it| it.seal.clone())
    }

    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    pub(crate) fn acceptor(&self) -> Acceptor {
        Acceptor::new(&self.credentials)
    }

    pub(crate) fn between_peers(&self) -> PeerTls {
        PeerTls::new(&self.credentials)
    }

    pub(crate) fn connector(&self) -> Connector {
        Connector::of_machine(&self.credentials)
    }

    /// Renews the certificate whenever that is due.
    pub(crate) async fn keep(self) {
        keep(&self.credentials, &self.subject).await;
    }
}

/// A machine's credentials, made or renewed where that is due.
pub(crate) fn credentials(
    directory: &Path,
    cluster: ClusterId,
    subject: &Subject,
) -> Result<Credentials, NodeError> {
    let read = Credentials::of_node(directory, cluster, subject, SystemTime::now());
    let (credentials, renewal) = read.map_err(|error| refused(error, directory.to_owned()))?;
    tell(&renewal, &credentials);
    Ok(credentials)
}

/// Renews a certificate whenever that is due. Never ends.
pub(crate) async fn keep(credentials: &Credentials, subject: &Subject) {
    loop {
        sleep(RENEWAL_PERIOD).await;
        match credentials.renew(subject, SystemTime::now()) {
            Ok(renewal) => tell(&renewal, credentials),
            Err(error) => tell(&Renewal::Failed(error.to_string()), credentials),
        }
    }
}

fn refused(error: CredentialsError, directory: PathBuf) -> NodeError {
    match error {
        CredentialsError::Missing(path) if path.ends_with(AUTHORITY_FILE) => {
            NodeError::NoCredentials { directory }
        }
        error => NodeError::Credentials(error),
    }
}

fn tell(renewal: &Renewal, credentials: &Credentials) {
    match renewal {
        Renewal::NotDue => {}
        Renewal::Renewed(issued) => {
            let Issued {
                names, fingerprint, ..
            } = issued;
            let names = names.join(", ");
            tracing::info!(
                "a new certificate for this node, good for {}: for {names}; SHA-256 {fingerprint}",
                left(issued)
            );
        }
        Renewal::Failed(error) => tracing::error!(
            "renew this node's certificate, good for another {}: {error}",
            left(&credentials.issued())
        ),
    }
}

/// How long a certificate is good for, in words.
fn left(issued: &Issued) -> String {
    let left = issued.not_after.duration_since(SystemTime::now());
    format!("{} days", left.unwrap_or_default().as_secs() / 86_400)
}
