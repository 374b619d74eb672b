//! How members of etcd speak to each other and to nodes: over TLS with the machines' own credentials, unless a file says
//! otherwise.
//!
//! etcd reads the certificate and its key anew for each handshake, so that a renewed one needs nothing; it reads the authority once.
//!
//! It refuses to find out by itself whether others have TLS: a file says so on each machine. How its own member listens no file
//! says: that is as the others reach it ([`super::reached`]).
//!
//! Invariants:
//! - with [`MemberTls::On`] nothing is said in the clear, and who shows no certificate of the authority is not let in;
//! - what is read anew and is no use changes nothing: what was read before is used on.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_metadata::etcd::EtcdTls;
use holdfast_tls::{
    AUTHORITY_FILE, Acceptor, Connector, Credentials, NODE_FILE, NODE_KEY_FILE, authorities_in,
};

use super::EtcdStartError;

/// How a machine's member of etcd speaks, and is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberTls {
    /// In the clear.
    Off,
    /// Over TLS to those who have it already, with the credentials in this directory, and in the clear to those who have not.
    /// Of a member that runs: it listens in the clear.
    Coming(PathBuf),
    /// Over TLS, with the credentials in this directory, and in no other way.
    On(PathBuf),
}

impl MemberTls {
    /// Whether it listens with TLS.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        matches!(self, Self::On(_))
    }

    /// The two ways in which a member may listen on a machine that speaks so: without TLS, and with it where there is any.
    pub(super) fn forms(&self) -> (Self, Option<Self>) {
        match self.directory() {
            None => (Self::Off, None),
            Some(directory) => (
                Self::Coming(directory.clone()),
                Some(Self::On(directory.clone())),
            ),
        }
    }

    /// The scheme of the member's URLs.
    pub(super) const fn scheme(&self) -> &'static str {
        if self.is_on() { "https" } else { "http" }
    }

    const fn directory(&self) -> Option<&PathBuf> {
        match self {
            Self::Off => None,
            Self::Coming(directory) | Self::On(directory) => Some(directory),
        }
    }

    /// What etcd is told of it. One that listens in the clear shows its certificate to members that do not, all the same.
    ///
    /// # Errors
    /// The directory's path, if it is not UTF-8.
    pub(super) fn options(&self) -> Result<Vec<(&'static str, String)>, PathBuf> {
        let Some(directory) = self.directory() else {
            return Ok(Vec::new());
        };
        let path = |name: &str| {
            let path = directory.join(name);
            path.to_str().map(str::to_owned).ok_or(path)
        };
        let (ca, own, key) = (
            path(AUTHORITY_FILE)?,
            path(NODE_FILE)?,
            path(NODE_KEY_FILE)?,
        );
        let mut options = vec![
            ("peer-trusted-ca-file", ca.clone()),
            ("peer-cert-file", own.clone()),
            ("peer-key-file", key.clone()),
        ];
        if self.is_on() {
            options.extend([
                ("peer-client-cert-auth", "true".to_owned()),
                ("trusted-ca-file", ca),
                ("cert-file", own),
                ("key-file", key),
                ("client-cert-auth", "true".to_owned()),
            ]);
        }
        Ok(options)
    }

    /// What `etcdctl` is told beside endpoints that have TLS, with a space before each.
    pub(super) fn for_etcdctl(&self) -> String {
        let Some(directory) = self.directory() else {
            return String::new();
        };
        let path = |name: &str| directory.join(name).display().to_string();
        format!(
            " --cacert {} --cert {} --key {}",
            path(AUTHORITY_FILE),
            path(NODE_FILE),
            path(NODE_KEY_FILE)
        )
    }

    /// What a client needs, read anew for each connection; none where there is no TLS.
    ///
    /// # Errors
    /// [`EtcdStartError::Credentials`] if they cannot be used now.
    pub fn client(&self) -> Result<Option<EtcdTls>, EtcdStartError> {
        let Some(directory) = self.directory() else {
            return Ok(None);
        };
        // First in a way that says what is wrong.
        Credentials::read(directory).map_err(EtcdStartError::Credentials)?;
        let read = read(directory);
        let tls = read.ok_or_else(|| EtcdStartError::Unfit(directory.clone()))?;
        let again = directory.clone();
        let tls = tls.renewed_by(move || self::read(&again));
        Ok(Some(match self {
            Self::Coming(_) => tls.or_plain(),
            Self::Off | Self::On(_) => tls,
        }))
    }

    /// The fingerprints of the authorities that etcd believes if it is started now, sorted; nothing where it has no TLS. It reads them
    /// once, when it starts.
    pub(super) fn believed(&self) -> Option<String> {
        let path = self.directory()?.join(AUTHORITY_FILE);
        let (found, _) = authorities_in(&path).ok()?;
        let mut lines: Vec<String> = found.into_iter().map(|it| it.fingerprint + "\n").collect();
        lines.sort_unstable();
        Some(lines.concat())
    }

    /// Whether what is in the directory goes together now.
    pub(super) fn is_usable(&self) -> bool {
        self.directory()
            .is_none_or(|it| Credentials::read(it).is_ok())
    }

    /// What is needed to ask other members over TLS, and to answer those that ask; nothing where that is done in the clear.
    pub(super) fn both_sides(
        &self,
    ) -> Result<Option<(EtcdTls, Connector, Acceptor)>, EtcdStartError> {
        let (_, Some(secure)) = self.forms() else {
            return Ok(None);
        };
        let (Some(client), Some(directory)) = (secure.client()?, self.directory()) else {
            return Ok(None);
        };
        let own = Credentials::read(directory).map_err(EtcdStartError::Credentials)?;
        let connector = Connector::of_machine(&own);
        Ok(Some((client, connector, Acceptor::new(&own))))
    }
}

fn read(directory: &Path) -> Option<EtcdTls> {
    let file = |name: &str| fs::read(directory.join(name)).ok();
    let (ca, own, key) = (
        file(AUTHORITY_FILE)?,
        file(NODE_FILE)?,
        file(NODE_KEY_FILE)?,
    );
    EtcdTls::new(&ca, Some((&own, &key))).ok()
}
