//! The configuration of a witness: a machine that has a member of etcd and no data, so that two nodes
//! and it are three. What `holdfast witness --config FILE` reads.

use std::path::{Path, PathBuf};

use holdfast_model::ClusterId;
use serde::{Deserialize, Serialize};

use super::etcd::EtcdSection;
use super::{ConfigError, Invalid, LogConfig, absolute, is_name, read_toml};

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
        self.etcd.check()?;
        self.etcd.required(&self.name)?;
        self.log.check()
    }
}
