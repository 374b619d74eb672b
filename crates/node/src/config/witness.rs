//! The configuration of a witness: a machine that has a member of etcd and no data, so that two nodes
//! and it are three. What `holdfast witness --config FILE` reads.

use std::path::{Path, PathBuf};

use holdfast_model::ClusterId;
use holdfast_tls::{AUTHORITY_FILE, Subject, WITNESS};
use serde::{Deserialize, Serialize};

use super::etcd::EtcdSection;
use super::{ConfigError, Invalid, LogConfig, SecurityConfig, absolute, is_name, read_toml};
use crate::etcd::MemberTls;

/// A witness's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessConfig {
    /// The cluster whose metadata it helps to keep.
    #[serde(deserialize_with = "super::cluster::read")]
    pub cluster: ClusterId,
    /// Its name, which is also its member's, unless `etcd.member` is another.
    pub name: String,
    /// Its directory: lock, log, etcd's data.
    pub directory: PathBuf,
    /// The etcd of the cluster's own machines.
    pub etcd: EtcdSection,
    /// Its TLS.
    #[serde(default, skip_serializing_if = "SecurityConfig::is_default")]
    pub security: SecurityConfig,
    /// Its log.
    #[serde(default)]
    pub log: LogConfig,
}

impl WitnessConfig {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`], with the place in the file where that is known.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        read_toml(path, Self::check)
    }

    /// Whether every value makes sense.
    ///
    /// # Errors
    /// [`Invalid`] for the first that does not.
    pub fn check(&self) -> Result<(), Invalid> {
        if !is_name(&self.name) {
            return Err(Invalid::Name(self.name.clone()));
        }
        absolute("directory", &self.directory)?;
        if let Some(directory) = &self.security.directory {
            absolute("security.directory", directory)?;
        }
        self.etcd.check()?;
        self.etcd.required(&self.name)?;
        self.log.check()
    }

    /// Where its credentials are.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.security.directory_in(&self.directory)
    }

    /// What its certificate is to say: its name, and its member's address.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let own = self.etcd.own(&self.name);
        Subject {
            node: WITNESS,
            name: self.name.clone(),
            hosts: own.map(|(_, it)| it.to_string()).into_iter().collect(),
        }
    }

    /// How its member speaks. One that does so in the clear needs no credentials, and reaches none with TLS then.
    #[must_use]
    pub fn etcd_tls(&self) -> MemberTls {
        let credentials = self.credentials();
        let has_any = credentials.join(AUTHORITY_FILE).exists();
        if self.security.off || (self.etcd.plain && !has_any) {
            return MemberTls::Off;
        }
        self.etcd.tls(credentials)
    }
}
