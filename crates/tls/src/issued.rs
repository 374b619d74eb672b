//! What a certificate says, and its fingerprint.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::CredentialsError;
use crate::identity::NodeIdentity;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Whose it is, if it is a node's.
    pub identity: Option<NodeIdentity>,
    /// What it is called: for an authority, the authority of which cluster it is.
    pub common_name: String,
    /// Host names and addresses that it stands for, sorted.
    pub names: Vec<String>,
    /// From when on it is valid.
    pub not_before: SystemTime,
    /// Until when.
    pub not_after: SystemTime,
    /// SHA-256 of it, as hexadecimal digits.
    pub fingerprint: String,
}

impl Issued {
    /// Reads a certificate; `None` if it is none.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let mut identity = None;
        let mut names = Vec::new();
        let listed = parsed.subject_alternative_name().ok()?;
        let listed = listed.map(|it| it.value.general_names.as_slice());
        for name in listed.unwrap_or_default() {
            match name {
                GeneralName::URI(uri) => identity = identity.or(uri.parse().ok()),
                GeneralName::DNSName(name) => names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => names.extend(address(bytes)),
                _ => {}
            }
        }
        names.sort_unstable();
        let common_name = parsed.subject().iter_common_name().next();
        let common_name = common_name.and_then(|it| it.as_str().ok());
        Some(Self {
            identity,
            common_name: common_name.unwrap_or_default().to_owned(),
            names,
            not_before: at(parsed.validity().not_before.timestamp()),
            not_after: at(parsed.validity().not_after.timestamp()),
            fingerprint: fingerprint(certificate),
        })
    }

    /// What a file with a certificate says.
    ///
    /// # Errors
    /// [`CredentialsError`] if there is none.
    pub fn of_file(path: &Path) -> Result<Self, CredentialsError> {
        let read = Self::read(&certificate(path)?);
        read.ok_or_else(|| unreadable(path))
    }
}

/// The certificate in a file.
pub(crate) fn certificate(path: &Path) -> Result<CertificateDer<'static>, CredentialsError> {
    let text = crate::files::read(path)?;
    CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| unreadable(path))
}

/// The certificates in a file: one at least.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let text = crate::files::read(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(unreadable(path)),
    }
}

pub(crate) fn unreadable(path: &Path) -> CredentialsError {
    CredentialsError::Unreadable {
        path: path.to_owned(),
        what: "certificate",
    }
}

/// SHA-256 of a certificate, as hexadecimal digits.
#[must_use]
pub fn fingerprint(certificate: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(certificate) {
        write!(text, "{byte:02x}").expect("a string takes it");
    }
    text
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(std::net::Ipv6Addr::from(sixteen).to_string())
}

fn at(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
