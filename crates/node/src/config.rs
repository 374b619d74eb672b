//! The configuration of a node: what `holdfast node --config FILE` reads.
//!
//! Invariants:
//! - unknown keys are errors: a misspelt key never means "the default";
//! - every path is absolute: a node starts the same from any directory.

mod budgets;
mod cluster;
pub mod etcd;
mod metadata;
mod oidc;
mod security;
pub mod witness;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use holdfast_disk::DriverChoice;
use holdfast_metadata::etcd::{EndpointError, EtcdEndpoint};
use holdfast_model::{ClusterId, NodeId, Tier};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::budgets::{CACHE_BYTES_MAX_MAX, HISTORY_BYTES_MAX_MIN, LOG_BYTES_MAX_MIN};
use self::etcd::{EtcdSection, InvalidEtcd};

pub use self::cluster::cluster_id;
pub use self::metadata::{InvalidMetadataTls, ShownToEtcd};
pub use self::oidc::{InvalidOidc, OidcConfig};
pub use self::security::SecurityConfig;

pub use self::budgets::{CACHE_BYTES_MAX, CacheConfig, HistoryConfig, LogConfig, LogFormat};

/// Bytes of a configuration file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Letters in a name at most; it stands in log lines and tables.
const NAME_LENGTH_MAX: usize = 63;
/// Nodes of a cluster.
pub const NODE_MAX: u16 = 64;
/// Devices of a node: five groups of eight.
const DEVICES_MAX: usize = 40;
/// A node's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The cluster that the node belongs to.
    #[serde(deserialize_with = "cluster::read")]
    pub cluster: ClusterId,
    /// Its number, from 1.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// With which other nodes it fails: a name that these say, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Its directory: lock, log.
    pub directory: PathBuf,
    /// Where initiators connect.
    pub portal: Endpoint,
    /// Where other nodes connect.
    pub peers: Endpoint,
    /// Where its API answers.
    pub api: Endpoint,
    /// Where the cluster's metadata is, if the section `[etcd]` does not say it.
    #[serde(default, skip_serializing_if = "MetadataConfig::is_empty")]
    pub metadata: MetadataConfig,
    /// The etcd of the cluster's own machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdSection>,
    /// Its TLS.
    #[serde(default, skip_serializing_if = "SecurityConfig::is_default")]
    pub security: SecurityConfig,
    /// Where people may log in besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcConfig>,
    /// What drives its devices.
    #[serde(default, skip_serializing_if = "DiskDriver::is_auto")]
    pub disk_driver: DiskDriver,
    /// Its devices; the journal is on the first.
    pub devices: Vec<DeviceConfig>,
    /// Its memory of what was read.
    #[serde(default, skip_serializing_if = "CacheConfig::is_default")]
    pub cache: CacheConfig,
    /// Its performance history.
    #[serde(default, skip_serializing_if = "HistoryConfig::is_default")]
    pub history: HistoryConfig,
    /// Its log.
    #[serde(default)]
    pub log: LogConfig,
}

/// An address of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// What others are told, `host:port`, if that is not the address itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
}

impl Endpoint {
    /// What others are told.
    #[must_use]
    pub fn advertised(&self) -> String {
        self.advertise
            .clone()
            .unwrap_or_else(|| self.listen.to_string())
    }
}

/// Where the cluster's metadata is: at servers of ours, or in an etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataConfig {
    /// Servers of ours, `host:port`, tried in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The client endpoints of etcd's members, `host:port`, tried in turn; with TLS, `https://host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<String>,
    /// What admits the node at a server of ours; empty for nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// The certificates that those of etcd's members are signed by, as PEM: needed with `https://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to etcd, as PEM, where it wants one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether this node, which has TLS, speaks in the clear to what is named here, on other machines too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain: bool,
}

impl MetadataConfig {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the metadata is, decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataSource {
    /// At servers of ours.
    Servers {
        /// Tried in turn.
        addresses: Vec<String>,
        /// What admits the node.
        token: String,
    },
    /// In an etcd, at these endpoints.
    Etcd(Vec<EtcdEndpoint>),
}

/// What drives a node's devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskDriver {
    /// io_uring, and threads where the system refuses it.
    #[default]
    Auto,
    /// io_uring; where the system refuses it, the node does not start.
    Ring,
    /// Threads.
    Threads,
}

impl DiskDriver {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }

    /// The same for the disks.
    #[must_use]
    pub const fn choice(self) -> DriverChoice {
        match self {
            Self::Auto => DriverChoice::RingOrThreads,
            Self::Ring => DriverChoice::Ring,
            Self::Threads => DriverChoice::Threads,
        }
    }
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// A block device, or a file.
    pub path: PathBuf,
    /// For a file that is to be made if it is missing: its bytes. One that is there keeps those that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Whether the space of such a file is taken when it is made.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preallocate: bool,
    /// Its class, when it becomes one of the node's: afterwards its superblock has it.
    #[serde(default = "flash")]
    pub tier: Tier,
}

fn flash() -> Tier {
    Tier::Flash
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no configuration.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why not.
        source: Box<toml::de::Error>,
    },
    /// A key has a value that makes no sense.
    #[error("{}: {invalid}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        invalid: Invalid,
    },
}

/// A value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A node's number is out of range.
    #[error("node: {} is not a number from 1 to {NODE_MAX}", .0.0)]
    Node(NodeId),
    /// A name is empty, too long, or has letters that it may not have.
    #[error("name: {0:?} is not 1 to {NAME_LENGTH_MAX} of a-z, A-Z, 0-9, '-', '_' and '.'")]
    Name(String),
    /// So is that of a failure domain.
    #[error(
        "failure_domain: {0:?} is not 1 to {NAME_LENGTH_MAX} of a-z, A-Z, 0-9, '-', '_' and '.'; leave it out where the \
         node fails with no other one"
    )]
    FailureDomain(String),
    /// A path is relative.
    #[error("{key}: {} is not an absolute path", path.display())]
    Relative {
        /// The key.
        key: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// No way to the metadata.
    #[error(
        "metadata.addresses: names no address; or name etcd's endpoints in metadata.etcd, or its members in \
         a section [etcd]"
    )]
    NoMetadata,
    /// More than one.
    #[error("{0} and {1} both say where the metadata is; leave one of them out")]
    TwoMetadata(&'static str, &'static str),
    /// etcd takes no token.
    #[error("metadata.token: is for metadata.addresses; etcd takes none yet")]
    EtcdToken,
    /// No endpoint of etcd's.
    #[error("metadata.etcd: {0}")]
    EtcdEndpoint(#[from] EndpointError),
    /// What is said of TLS to etcd makes no sense.
    #[error(transparent)]
    MetadataTls(#[from] InvalidMetadataTls),
    /// What is said of a provider of identities makes no sense.
    #[error(transparent)]
    Oidc(#[from] InvalidOidc),
    /// The section of etcd makes no sense.
    #[error(transparent)]
    Etcd(#[from] InvalidEtcd),
    /// What TLS to the machines' own etcd needs cannot be used.
    #[error("security: {error}")]
    Credentials {
        /// What is wrong with it.
        error: String,
    },
    /// No device, or too many.
    #[error("devices: there are {0}, a node has 1 to {DEVICES_MAX}")]
    DeviceCount(usize),
    /// A device is named twice.
    #[error("devices: {} is named twice", .0.display())]
    DeviceTwice(PathBuf),
    /// The space of a file is to be taken that is not to be made.
    #[error(
        "devices: {} has preallocate, which is for a file that is made, and no file_bytes: say there how large the \
         file is to be, or leave preallocate out", .0.display()
    )]
    Preallocate(PathBuf),
    /// Two endpoints have the same address.
    #[error("{0}.listen and {1}.listen are the same address")]
    SameAddress(&'static str, &'static str),
    /// An endpoint listens on all addresses, and others are told none.
    #[error(
        "{0}.advertise: is needed, because {0}.listen does not name one address that others reach"
    )]
    NotAdvertised(&'static str),
    /// Nobody can reach that.
    #[error("{0}.advertise: `{1}` is not HOST:PORT, for example 192.0.2.7:3260")]
    Advertise(&'static str, String),
    /// Nothing can be reached there.
    #[error("metadata.addresses: `{0}` is not HOST:PORT, for example 192.0.2.7:7459")]
    MetadataAddress(String),
    /// The log is too small.
    #[error("log.bytes_max: {0} is less than {LOG_BYTES_MAX_MIN}")]
    LogBytes(u64),
    /// No machine has so much memory.
    #[error("cache.bytes_max: {0} is more than {CACHE_BYTES_MAX_MAX}")]
    CacheBytes(u64),
    /// The history is too small.
    #[error("history.bytes_max: {0} is less than {HISTORY_BYTES_MAX_MIN}")]
    HistoryBytes(u64),
}

impl NodeConfig {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`], with the place in the file where that is known.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        read_toml(path, Self::check)
    }

    /// The configuration as a file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is valid TOML")
    }

    /// Whether every value makes sense. Whether what the file says to do may be done is asked by whoever does it: `check_plain`.
    ///
    /// # Errors
    /// [`Invalid`] for the first that does not.
    pub fn check(&self) -> Result<(), Invalid> {
        if !(1..=NODE_MAX).contains(&self.node.0) {
            return Err(Invalid::Node(self.node));
        }
        if !is_name(&self.name) {
            return Err(Invalid::Name(self.name.clone()));
        }
        if let Some(domain) = self.failure_domain.as_ref().filter(|it| !is_name(it)) {
            return Err(Invalid::FailureDomain(domain.clone()));
        }
        absolute("directory", &self.directory)?;
        if let Some(directory) = &self.security.directory {
            absolute("security.directory", directory)?;
        }
        for (key, path) in self.metadata.tls_files() {
            absolute(key, path)?;
        }
        self.check_oidc()?;
        self.metadata_source()?;
        if let Some(section) = &self.etcd {
            section.check_others(&self.name, self.own_addresses())?;
        }
        self.check_endpoints()?;
        self.check_devices()?;
        self.cache.check()?;
        self.history.check()?;
        self.log.check()
    }

    /// Where the metadata is.
    ///
    /// # Errors
    /// [`Invalid`] if that is not said, said twice, or wrong.
    pub fn metadata_source(&self) -> Result<MetadataSource, Invalid> {
        let MetadataConfig {
            addresses,
            etcd,
            token,
            ..
        } = &self.metadata;
        let said = [
            ("metadata.addresses", !addresses.is_empty()),
            ("metadata.etcd", !etcd.is_empty()),
            ("etcd.members", self.etcd.is_some()),
        ];
        let mut said = said.into_iter().filter(|(_, is_said)| *is_said);
        self.metadata.check_tls()?;
        let Some((one, _)) = said.next() else {
            return Err(Invalid::NoMetadata);
        };
        if let Some((other, _)) = said.next() {
            return Err(Invalid::TwoMetadata(one, other));
        }
        if let Some(address) = addresses.iter().find(|it| !is_address(it)) {
            return Err(Invalid::MetadataAddress(address.clone()));
        }
        if addresses.is_empty() && !token.is_empty() {
            return Err(Invalid::EtcdToken);
        }
        if !addresses.is_empty() {
            return Ok(MetadataSource::Servers {
                addresses: addresses.clone(),
                token: token.clone(),
            });
        }
        if let Some(section) = &self.etcd {
            section.check()?;
            return Ok(MetadataSource::Etcd(
                section.endpoints(&self.name, self.etcd_tls().is_on()),
            ));
        }
        let endpoints = etcd.iter().map(|endpoint| endpoint.parse());
        Ok(MetadataSource::Etcd(endpoints.collect::<Result<_, _>>()?))
    }

    /// The addresses that are this machine's, by what the file says, with their keys: those of names are not known.
    fn own_addresses(&self) -> impl Iterator<Item = (String, IpAddr)> {
        self.endpoints().into_iter().flat_map(|(key, endpoint)| {
            let told = endpoint.advertise.as_ref();
            let told = told.and_then(|it| it.parse::<SocketAddr>().ok());
            let listen = (format!("{key}.listen"), endpoint.listen.ip());
            let told = told.map(|it| (format!("{key}.advertise"), it.ip()));
            [Some(listen), told].into_iter().flatten()
        })
    }

    /// The endpoints with their keys.
    fn endpoints(&self) -> [(&'static str, &Endpoint); 3] {
        [
            ("portal", &self.portal),
            ("peers", &self.peers),
            ("api", &self.api),
        ]
    }

    fn check_endpoints(&self) -> Result<(), Invalid> {
        let endpoints = self.endpoints();
        for (place, (key, endpoint)) in endpoints.iter().enumerate() {
            let anywhere = endpoint.listen.ip().is_unspecified() || endpoint.listen.port() == 0;
            if anywhere && endpoint.advertise.is_none() {
                return Err(Invalid::NotAdvertised(key));
            }
            if let Some(address) = endpoint.advertise.as_ref().filter(|it| !is_address(it)) {
                return Err(Invalid::Advertise(key, address.clone()));
            }
            for (other_key, other) in &endpoints[..place] {
                if endpoint.listen == other.listen && endpoint.listen.port() != 0 {
                    return Err(Invalid::SameAddress(other_key, key));
                }
            }
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<(), Invalid> {
        if !(1..=DEVICES_MAX).contains(&self.devices.len()) {
            return Err(Invalid::DeviceCount(self.devices.len()));
        }
        let mut seen = BTreeSet::new();
        for device in &self.devices {
            absolute("devices.path", &device.path)?;
            if !seen.insert(&device.path) {
                return Err(Invalid::DeviceTwice(device.path.clone()));
            }
            if device.preallocate && device.file_bytes.is_none() {
                return Err(Invalid::Preallocate(device.path.clone()));
            }
        }
        Ok(())
    }
}

/// Whether it can stand in log lines, tables and file names.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.chars().all(is_letter)
}

fn is_address(text: &str) -> bool {
    holdfast_model::host_and_port(text).is_some()
}

fn absolute(key: &'static str, path: &Path) -> Result<(), Invalid> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(Invalid::Relative {
        key,
        path: path.to_owned(),
    })
}

/// Reads a file of TOML, whose values have to make sense.
fn read_toml<T: DeserializeOwned>(
    path: &Path,
    check: impl FnOnce(&T) -> Result<(), Invalid>,
) -> Result<T, ConfigError> {
    let text = read_text(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let config = toml::from_str(&text).map_err(|source| ConfigError::Parse {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    check(&config).map_err(|invalid| ConfigError::Invalid {
        path: path.to_owned(),
        invalid,
    })?;
    Ok(config)
}

fn read_text(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read_to_string(path)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
