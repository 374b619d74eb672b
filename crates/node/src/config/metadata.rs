//! TLS to a metadata that the machines do not run themselves: the keys `metadata.ca`, `metadata.certificate`, `metadata.key` and
//! `metadata.plain`.
//!
//! It refuses what would be half of it: endpoints of both kinds, TLS without an authority to believe, files that nothing
//! would use. The files are read when the node starts, and what is in them is judged then; and again before each connection.
//!
//! Invariants:
//! - where the file says `https://`, nothing is said to etcd in the clear;
//! - a node that has TLS has no session in the clear with another machine, unless its file says `plain = true`: it does not start,
//!   while whoever only reads the file (to look at devices, to make credentials) is not kept from it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use holdfast_metadata::etcd::{EtcdConfig, EtcdEndpoint, EtcdTls, EtcdTlsError};
use holdfast_model::{host_and_port, is_this_machine};
use holdfast_tls::Issued;

use super::{Invalid, MetadataConfig, MetadataSource, NodeConfig};
use crate::etcd::MemberTls;

/// Between two times at which the certificate is read to tell when it expires.
const READ_PAUSE: Duration = Duration::from_secs(30);
/// Bytes of a file with certificates, or a key, at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is said of TLS to etcd, and makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadataTls {
    /// Some endpoints have TLS and others have not.
    #[error(
        "metadata.etcd: some endpoints are https:// and others are not: what one of them is told in the clear, all are; \
         say https:// for all, or for none"
    )]
    Mixed,
    /// It is not known whom to believe.
    #[error(
        "metadata.ca: is needed with https:// endpoints: the file with the certificate of the authority that has signed those \
         of etcd's members (etcd's --trusted-ca-file)"
    )]
    NoAuthority,
    /// Nothing would use it.
    #[error(
        "{0}: is for https:// endpoints in metadata.etcd, and there are none; say https:// there, or leave it out"
    )]
    Unused(&'static str),
    /// A member of etcd on another machine would be spoken to in the clear.
    #[error(
        "metadata.etcd: {0} has no TLS, and is not on this machine: whoever is on the way could read and change what the \
         cluster has agreed on. Say https:// of all endpoints, and name in metadata.ca whom to believe (\"TLS to etcd\" in \
         docs/security.md); or say metadata.plain = true, to do it all the same"
    )]
    PlainEtcd(String),
    /// So would a server of ours.
    #[error(
        "metadata.addresses: {0} has no TLS, and is not on this machine: whoever is on the way could read and change what \
         the cluster has agreed on, and learn the token. Keep the metadata in an etcd, where there is TLS (\"TLS to etcd\" in \
         docs/security.md); or say metadata.plain = true, to do it all the same"
    )]
    PlainServer(String),
    /// Nothing would be.
    #[error(
        "metadata.plain: is for what metadata.etcd, or metadata.addresses, names without TLS, and there is nothing; leave it \
         out (of members of etcd that the machines run themselves, etcd.plain says the same)"
    )]
    NothingPlain,
    /// A certificate without its key, or a key without its certificate.
    #[error("{missing}: is needed together with {said}")]
    Half {
        /// What is said.
        said: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// A file cannot be read.
    #[error("{key}: read {}: {error}", path.display())]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        error: String,
    },
    /// A file is not what it is to be.
    #[error("{key}: {} {error}", path.display())]
    Content {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: EtcdTlsError,
    },
}

impl MetadataConfig {
    /// The files that are named, with their keys.
    pub(super) fn tls_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("metadata.ca", &self.ca),
            ("metadata.certificate", &self.certificate),
            ("metadata.key", &self.key),
        ];
        let named = files.into_iter();
        named.filter_map(|(key, path)| Some((key, path.as_deref()?)))
    }

    fn has_tls(&self) -> bool {
        self.etcd.iter().any(|it| is_secure(it))
    }

    /// The servers, or members of etcd, that are spoken to in the clear.
    fn without_tls(&self) -> impl Iterator<Item = &String> {
        let members = self.etcd.iter().filter(|it| !is_secure(it));
        self.addresses.iter().chain(members)
    }

    /// The first of them that is on another machine.
    fn first_elsewhere(&self) -> Option<&String> {
        self.without_tls().find(|it| is_elsewhere(it))
    }

    /// Whether what is said of TLS to etcd goes together; no file is looked at.
    pub(super) fn check_tls(&self) -> Result<(), InvalidMetadataTls> {
        if !self.has_tls() {
            let unused = self.tls_files().next();
            return unused.map_or(Ok(()), |(key, _)| Err(InvalidMetadataTls::Unused(key)));
        }
        if !self.etcd.iter().all(|it| is_secure(it)) {
            return Err(InvalidMetadataTls::Mixed);
        }
        if self.ca.is_none() {
            return Err(InvalidMetadataTls::NoAuthority);
        }
        let half = |said, missing| Err(InvalidMetadataTls::Half { said, missing });
        match (&self.certificate, &self.key) {
            (Some(_), None) => half("metadata.certificate", "metadata.key"),
            (None, Some(_)) => half("metadata.key", "metadata.certificate"),
            _ => Ok(()),
        }
    }

    /// The same, read anew for each connection: certificates are renewed. Files that are of no use then change nothing.
    fn renewed_tls(&self) -> Result<Option<EtcdTls>, InvalidMetadataTls> {
        let again = self.clone();
        let renewed = move |tls: EtcdTls| tls.renewed_by(move || again.tls().ok().flatten());
        Ok(self.tls()?.map(renewed))
    }

    /// What TLS to etcd needs, from its files; none where there is to be none.
    fn tls(&self) -> Result<Option<EtcdTls>, InvalidMetadataTls> {
        let Some(ca) = self.ca.as_deref().filter(|_| self.has_tls()) else {
            return Ok(None);
        };
        let authority = read("metadata.ca", ca)?;
        let shown = self.certificate.as_deref().zip(self.key.as_deref());
        let shown = shown.map(|(certificate, key)| {
            let certificate = read("metadata.certificate", certificate)?;
            Ok((certificate, read("metadata.key", key)?))
        });
        let shown = shown.transpose()?;
        let pair = shown.as_ref().map(|(it, key)| (&it[..], &key[..]));
        EtcdTls::new(&authority, pair).map(Some).map_err(|error| {
            let key = match error {
                EtcdTlsError::Authority => "metadata.ca",
                EtcdTlsError::Certificate => "metadata.certificate",
                EtcdTlsError::Key | EtcdTlsError::OtherKey => "metadata.key",
            };
            let mut files = self.tls_files();
            let path = files.find(|(named, _)| *named == key);
            let path = path.map_or_else(PathBuf::new, |(_, path)| path.to_owned());
            InvalidMetadataTls::Content { key, path, error }
        })
    }
}

impl NodeConfig {
    /// The etcd that keeps the metadata, if one does. The files that TLS with it needs are read.
    ///
    /// # Errors
    /// [`Invalid`] if the configuration does not say where the metadata is, or one of these files is no use, or it is not permitted to
    /// speak to it in the clear.
    pub fn etcd_config(&self) -> Result<Option<EtcdConfig>, Invalid> {
        let source = self.metadata_source()?;
        self.check_plain()?;
        let MetadataSource::Etcd(endpoints) = source else {
            return Ok(None);
        };
        Ok(Some(EtcdConfig {
            endpoints,
            cluster: self.cluster,
            tls: match &self.etcd {
                Some(_) => {
                    let client = self.etcd_tls().client();
                    client.map_err(|error| Invalid::Credentials {
                        error: error.to_string(),
                    })?
                }
                None => self.metadata.renewed_tls()?,
            },
        }))
    }

    /// How the etcd of the cluster's own machines speaks.
    #[must_use]
    pub fn etcd_tls(&self) -> MemberTls {
        match &self.etcd {
            Some(section) if !self.security.off => section.tls(self.credentials()),
            _ => MemberTls::Off,
        }
    }

    /// Whether nothing that leaves the machine is said in the clear, unless the file permits it. Whoever speaks to the metadata asks; a
    /// command that does not takes a file of an earlier version as it is.
    ///
    /// # Errors
    /// [`InvalidMetadataTls`] that says what would be, or that nothing would be.
    pub(crate) fn check_plain(&self) -> Result<(), InvalidMetadataTls> {
        let metadata = &self.metadata;
        if metadata.plain && metadata.without_tls().next().is_none() {
            return Err(InvalidMetadataTls::NothingPlain);
        }
        if metadata.plain || self.security.off {
            return Ok(());
        }
        match metadata.first_elsewhere().cloned() {
            None => Ok(()),
            Some(member) if metadata.addresses.is_empty() => {
                Err(InvalidMetadataTls::PlainEtcd(member))
            }
            Some(server) => Err(InvalidMetadataTls::PlainServer(server)),
        }
    }

    /// Whether the node, which has TLS otherwise, speaks in the clear to where the metadata is, on another machine.
    #[must_use]
    pub fn has_plain_metadata(&self) -> bool {
        !self.security.off && self.metadata.first_elsewhere().is_some()
    }
}

/// Whether an endpoint of etcd's is spoken to over TLS.
fn is_secure(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

/// Whether what is said there leaves the machine. What is no address at all is refused by whoever reads it.
fn is_elsewhere(address: &str) -> bool {
    let Ok(endpoint) = address.parse::<EtcdEndpoint>() else {
        return false;
    };
    let host = host_and_port(endpoint.address()).map(|(host, _)| host.trim_matches(['[', ']']));
    !host.is_some_and(is_this_machine)
}

/// The certificate that a node shows to an etcd that somebody else runs.
#[derive(Debug)]
pub struct ShownToEtcd {
    config: MetadataConfig,
    /// When the files were last read, and when what is used is good.
    last: Mutex<Option<(Instant, Option<Range<SystemTime>>)>>,
}

impl ShownToEtcd {
    /// What is configured there, of a node that does not run etcd itself.
    pub(crate) fn new(config: &NodeConfig) -> Self {
        let is_own = config.etcd.is_some();
        Self {
            config: if is_own {
                MetadataConfig::default()
            } else {
                config.metadata.clone()
            },
            last: Mutex::default(),
        }
    }

    /// From when and until when it is good; nothing where none is shown. The files are read twice a minute at most; while they are of no use, what
    /// was read before is used on.
    #[must_use]
    pub fn good(&self) -> Option<Range<SystemTime>> {
        self.good_at(Instant::now())
    }

    pub(super) fn good_at(&self, now: Instant) -> Option<Range<SystemTime>> {
        let path = self.config.certificate.as_deref()?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match last.take() {
            Some((read, good)) if now.duration_since(read) < READ_PAUSE => {
                *last = Some((read, good.clone()));
                return good;
            }
            before => before.and_then(|(_, good)| good),
        };
        let is_usable = matches!(self.config.tls(), Ok(Some(_)));
        let found = Issued::of_file(path).ok().filter(|_| is_usable);
        let good = found.map(|it| it.not_before..it.not_after).or(before);
        *last = Some((now, good.clone()));
        good
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, InvalidMetadataTls> {
    let mut content = Vec::new();
    let file = File::open(path);
    let done = file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut content));
    done.map_err(|error: io::Error| InvalidMetadataTls::File {
        key,
        path: path.to_owned(),
        error: error.to_string(),
    })?;
    Ok(content)
}
