//! The section `[oidc]`: a provider of identities, at which people may log in.
//!
//! It refuses what would let nobody in, and a secret that others on the machine can read.
//!
//! Invariant: without the section nobody is let in but the cluster's own users.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use holdfast_identity::Role;
use holdfast_model::record::Secret;
use holdfast_oidc::{Settings, SettingsError};
use holdfast_tls::{CredentialsError, read_key};
use serde::{Deserialize, Serialize};

use super::{Invalid, NodeConfig};

/// Bytes of a file with certificates at most.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A provider of identities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// What the button of the login page calls it.
    #[serde(default = "name")]
    pub name: String,
    /// Its issuer, as its discovery document says it.
    pub issuer: String,
    /// What it calls this cluster.
    pub client_id: String,
    /// The file with the secret by which it knows that the cluster asks; none for a public client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_file: Option<PathBuf>,
    /// The file with the authorities that its certificate is of, as PEM; the system's if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Where browsers reach the console; where the API is, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// What it is asked for.
    #[serde(default = "scopes")]
    pub scopes: Vec<String>,
    /// The claim with the name by which people know somebody.
    #[serde(default = "username_claim")]
    pub username_claim: String,
    /// The claim that says what somebody is.
    #[serde(default = "roles_claim")]
    pub roles_claim: String,
    /// Which of its values make whom somebody is.
    pub roles: BTreeMap<Role, Vec<String>>,
}

fn name() -> String {
    "single sign-on".to_owned()
}

fn scopes() -> Vec<String> {
    ["openid", "profile", "email"].map(str::to_owned).to_vec()
}

fn username_claim() -> String {
    "preferred_username".to_owned()
}

fn roles_claim() -> String {
    "groups".to_owned()
}

/// What is said of the provider, and makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOidc {
    /// One of its values.
    #[error("oidc.{0}")]
    Settings(#[from] SettingsError),
    /// There are no logins.
    #[error(
        "oidc: without TLS nobody logs in, and `off = true` in the section [security] says that there is none; leave one of \
         them out"
    )]
    Off,
    /// Others can read the secret.
    #[error(
        "oidc.client_secret_file: {} can be read by others (its mode is {mode:03o}); `chmod 600` it, and if somebody has read \
         it, have the provider make another secret", path.display()
    )]
    Public {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file cannot be read.
    #[error("{key}: {error}")]
    File {
        /// The key.
        key: &'static str,
        /// Which and why not.
        error: String,
    },
}

impl OidcConfig {
    fn settings(
        &self,
        api: &str,
        client_secret: Option<Secret>,
        authority: Option<String>,
    ) -> Settings {
        let external_url = self.external_url.clone();
        Settings {
            name: self.name.clone(),
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret,
            authority,
            scopes: self.scopes.clone(),
            username_claim: self.username_claim.clone(),
            roles_claim: self.roles_claim.clone(),
            roles: self.roles.clone(),
            external_url: external_url.unwrap_or_else(|| format!("https://{api}")),
        }
    }
}

impl NodeConfig {
    /// Whether what is said of a provider makes sense, as far as the file itself tells.
    pub(super) fn check_oidc(&self) -> Result<(), Invalid> {
        let Some(oidc) = &self.oidc else {
            return Ok(());
        };
        if self.security.off {
            return Err(InvalidOidc::Off.into());
        }
        let files = [
            ("oidc.client_secret_file", &oidc.client_secret_file),
            ("oidc.ca", &oidc.ca),
        ];
        for (key, path) in files {
            if let Some(path) = path {
                super::absolute(key, path)?;
            }
        }
        let settings = oidc.settings(&self.api.advertised(), None, None);
        settings.check().map_err(InvalidOidc::from)?;
        Ok(())
    }

    /// The provider of identities, if there is one, with what is in the files that are named.
    ///
    /// # Errors
    /// [`Invalid`] if one of them cannot be read, or does not hold what it should.
    pub fn oidc_settings(&self) -> Result<Option<Settings>, Invalid> {
        let Some(oidc) = &self.oidc else {
            return Ok(None);
        };
        let secret = oidc.client_secret_file.as_deref().map(secret_in);
        let authority = oidc.ca.as_deref().map(text_in);
        let (secret, authority) = (secret.transpose()?, authority.transpose()?);
        let settings = oidc.settings(&self.api.advertised(), secret, authority);
        settings.check().map_err(InvalidOidc::from)?;
        Ok(Some(settings))
    }
}

fn secret_in(path: &Path) -> Result<Secret, InvalidOidc> {
    match read_key(path) {
        Ok(text) => Ok(Secret(text.trim_end_matches(['\n', '\r']).to_owned())),
        Err(CredentialsError::Public { path, mode }) => Err(InvalidOidc::Public { path, mode }),
        Err(error) => Err(InvalidOidc::File {
            key: "oidc.client_secret_file",
            error: error.to_string(),
        }),
    }
}

fn text_in(path: &Path) -> Result<String, InvalidOidc> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| InvalidOidc::File {
        key: "oidc.ca",
        error: format!("read {}: {error}", path.display()),
    })
}
