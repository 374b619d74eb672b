//! The section `[security]`: where a machine's credentials are, or that there is to be no TLS.
//!
//! Invariant: there is TLS unless the file says `off = true`.

use std::path::{Path, PathBuf};

use holdfast_model::host_and_port;
use holdfast_tls::Subject;
use serde::{Deserialize, Serialize};

use super::NodeConfig;

/// The directory of a node that its credentials are in, if nothing else is said.
const DIRECTORY: &str = "tls";

/// TLS of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityConfig {
    /// Where its credentials are; `tls` in the node's directory if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Whether it does without TLS.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub off: bool,
}

impl SecurityConfig {
    /// Where the credentials of a machine are that has its other things in `home`.
    pub(super) fn directory_in(&self, home: &Path) -> PathBuf {
        let named = self.directory.clone();
        named.unwrap_or_else(|| home.join(DIRECTORY))
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl NodeConfig {
    /// Where the node's credentials are.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.security.directory_in(&self.directory)
    }

    /// What the node's certificate is to say: its name, and every host at which others are told to reach it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let told = self.endpoints().map(|(_, endpoint)| endpoint.advertised());
        let told = told.iter().filter_map(|it| host_and_port(it));
        let mut hosts: Vec<String> = told.map(|(host, _)| host.to_owned()).collect();
        let listens = self.endpoints().map(|(_, endpoint)| endpoint.listen.ip());
        let listens = listens.iter().filter(|ip| !ip.is_unspecified());
        hosts.extend(listens.map(ToString::to_string));
        // Other members of etcd, and their clients, know this one by its address.
        let member = self.etcd.as_ref().and_then(|it| it.own(&self.name));
        hosts.extend(member.map(|(_, address)| address.to_string()));
        Subject {
            node: self.node,
            name: self.name.clone(),
            hosts,
        }
    }

    /// The scheme of the URL at which its API answers.
    #[must_use]
    pub const fn api_scheme(&self) -> &'static str {
        if self.security.off { "http" } else { "https" }
    }
}
