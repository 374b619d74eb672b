//! The node's credentials: read before it does anything else, and renewed in time.
//!
//! Invariants:
//! - a node without credentials does not start, unless its configuration says that it is to do without TLS;
//! - what somebody changes in the directory is taken without a restart when it goes together, and told of when it does not;
//! - a certificate that cannot be renewed is told of every day, and shown for as long as it is good;
//! - a key for secrets that others on the machine can read is refused; without one, what is sealed stays shut, and it is said.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use holdfast_model::ClusterId;
use holdfast_seal::{KEY_FILE, Seal};
use holdfast_tls::{
    AUTHORITY_FILE, Acceptor, Change, Connector, Credentials, CredentialsError, Issued, PeerTls,
    Renewal, Subject,
};
use tokio::time::sleep;

use crate::config::NodeConfig;
use crate::error::NodeError;

/// How often it is looked whether the certificate is to be renewed, and whether somebody has put other credentials in its place:
/// who does that waits for it.
const LOOK_PERIOD: Duration = Duration::from_secs(10);
/// How often it is told that a certificate cannot be renewed.
const TELL_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

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

/// Renews a certificate whenever that is due, and takes what somebody has put into its directory. Never ends.
pub(crate) async fn keep(credentials: &Credentials, subject: &Subject) {
    let (mut unfit, mut failed) = (Complaint::default(), Complaint::default());
    loop {
        sleep(LOOK_PERIOD).await;
        let now = Instant::now();
        match credentials.refresh(SystemTime::now()) {
            Ok(Change::None) => unfit.over(),
            Ok(Change::Taken(issued, authorities)) => {
                unfit.over();
                tracing::info!(
                    "takes other credentials, which were put in the place of its own: a certificate good for {}, SHA-256 {}; it \
                     believes the authorities {}",
                    left(&issued),
                    issued.fingerprint,
                    authorities.join(" and ")
                );
            }
            Err(error) => {
                if unfit.is_to_be_told(now, &error) {
                    tracing::error!(
                        "credentials were changed, and are not taken; those of before are used on: {error}"
                    );
                }
                // What is to be renewed is not known.
                continue;
            }
        }
        let renewal = credentials.renew(subject, SystemTime::now());
        let renewal = renewal.unwrap_or_else(|error| Renewal::Failed(error.to_string()));
        match &renewal {
            Renewal::Failed(error) if !failed.is_to_be_told(now, error) => {}
            Renewal::NotDue | Renewal::Renewed(_) => {
                failed.over();
                tell(&renewal, credentials);
            }
            Renewal::Failed(_) => tell(&renewal, credentials),
        }
    }
}

/// What is wrong, look after look: told when two looks have found it, for one may come between two files that are copied, and then
/// once a day.
#[derive(Default)]
struct Complaint {
    text: String,
    told: Option<Instant>,
}

impl Complaint {
    fn over(&mut self) {
        *self = Self::default();
    }

    fn is_to_be_told(&mut self, now: Instant, error: &impl Display) -> bool {
        let text = error.to_string();
        if text != self.text {
            *self = Self { text, told: None };
            return false;
        }
        let is_due = self.told.is_none_or(|told| now - told >= TELL_PERIOD);
        if is_due {
            self.told = Some(now);
        }
        is_due
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
