//! The authority of a cluster: who signs what its machines show each other.
//!
//! Invariants:
//! - an authority signs for its own cluster only;
//! - what it signs is good for speaking and for answering, and signs nothing itself.

use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_model::{ClusterId, NodeId};
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::files::{self, CredentialsError};
use crate::handshake::Connector;
use crate::identity::NodeIdentity;
use crate::issued::{Issued, certificate, unreadable};
use crate::replacing::{NEXT_FILE, NEXT_KEY_FILE};
use crate::{AUTHORITY_FILE, AUTHORITY_KEY_FILE};

/// How long an authority is good for, in days: longer than machines live.
pub const AUTHORITY_DAYS: u64 = 3653;
/// How long a machine's certificate is good for, in days. A node has a new one when a third of that is left.
pub const NODE_DAYS: u64 = 365;
/// By how much clocks of machines may differ.
const CLOCKS_APART: Duration = Duration::from_secs(60 * 60);
/// What an authority is called, with its cluster behind it.
const NAME: &str = "Holdfast cluster ";
/// Authorities that are believed at a time, at most: two, while one takes the other's place.
pub(crate) const AUTHORITIES_MAX: usize = 2;
/// How lines of PEM end, in all files of credentials.
pub(crate) const PEM_LINES: EncodeConfig = EncodeConfig::new().set_line_ending(LineEnding::LF);
/// How every machine reaches itself.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// For whom a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The node's number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Host names and addresses, without ports, at which others reach it.
    pub hosts: Vec<String>,
}

impl Subject {
    /// What a certificate for it stands for, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let own = [self.name.as_str()].into_iter().chain(LOCAL);
        let mut names: Vec<String> = own.map(str::to_owned).collect();
        names.extend(self.hosts.iter().map(|host| plain(host)));
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A host, as certificates have it: an address without brackets, in one way of writing it.
fn plain(host: &str) -> String {
    let bare = host.trim_matches(['[', ']']);
    let address = bare.parse::<IpAddr>();
    address.map_or_else(|_| bare.to_owned(), |address| address.to_string())
}

/// An authority, with its key.
pub struct Authority {
    pub(crate) cluster: ClusterId,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key_pem: Zeroizing<String>,
    /// Where what is to take its place is, if it was read from there.
    directory: Option<PathBuf>,
}

impl Authority {
    /// Makes the authority of a cluster, in a directory which is made for it.
    ///
    /// # Errors
    /// [`CredentialsError`], if the directory has one already above all.
    pub fn found(
        directory: &Path,
        cluster: ClusterId,
        now: SystemTime,
    ) -> Result<Self, CredentialsError> {
        let path = directory.join(AUTHORITY_FILE);
        if path.exists() {
            return Err(CredentialsError::Exists(path));
        }
        files::make_directory(directory)?;
        // The key first: without the certificate, it is no authority yet.
        let key = key_at(&directory.join(AUTHORITY_KEY_FILE))?;
        files::write_new(&path, &certify(cluster, &key, now), 0o644)?;
        Self::open(directory)
    }

    /// Reads an authority.
    ///
    /// # Errors
    /// [`CredentialsError`] if its certificate or its key is not there, or not usable.
    pub fn open(directory: &Path) -> Result<Self, CredentialsError> {
        let (path, key_path) = (
            directory.join(AUTHORITY_FILE),
            directory.join(AUTHORITY_KEY_FILE),
        );
        let mut opened = Self::of_files(&path, &key_path)?;
        opened.directory = Some(directory.to_owned());
        Ok(opened)
    }

    /// The one that stands first in a file, with its key.
    pub(crate) fn of_files(path: &Path, key_path: &Path) -> Result<Self, CredentialsError> {
        let (_, cluster) = certificates_of(path)?;
        let pem = files::read(path)?;
        let key_pem = files::read_key(key_path)?;
        let no_key = || CredentialsError::Unreadable {
            path: key_path.to_owned(),
            what: "key",
        };
        let key = KeyPair::from_pem(&key_pem).map_err(|_| no_key())?;
        let own = certificate(path)?;
        if !crate::credentials::belong(&own, &key) {
            return Err(CredentialsError::OtherKey(key_path.to_owned()));
        }
        let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|_| unreadable(path))?;
        Ok(Self {
            cluster,
            issuer,
            pem,
            key_pem,
            directory: None,
        })
    }

    /// Whose authority it is.
    #[must_use]
    pub const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Signs a certificate for a key of a machine, good from now on, and gives it as PEM.
    ///
    /// # Errors
    /// [`CredentialsError::Name`] if the subject has a name that none can have.
    pub(crate) fn sign(
        &self,
        subject: &Subject,
        key: &KeyPair,
        now: SystemTime,
    ) -> Result<String, CredentialsError> {
        self.sign_for(subject, key, period(now, NODE_DAYS))
    }

    /// The same, in the place of one that was good in `former`: whenever that was good, this one is as well. The clock here may be wrong,
    /// ahead or behind, and then `now` is no time at which others would take what begins or ends by it.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn sign_again(
        &self,
        subject: &Subject,
        key: &KeyPair,
        former: Range<SystemTime>,
        now: SystemTime,
    ) -> Result<String, CredentialsError> {
        let present = period(now, NODE_DAYS);
        let both = present.start.min(former.start)..present.end.max(former.end);
        self.sign_for(subject, key, both)
    }

    fn sign_for(
        &self,
        subject: &Subject,
        key: &KeyPair,
        period: Range<SystemTime>,
    ) -> Result<String, CredentialsError> {
        let mut params = valid(period);
        let node = NodeIdentity {
            cluster: self.cluster,
            node: subject.node,
        };
        let name = &subject.name;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let uri = node.to_string().try_into();
        params.subject_alt_names = vec![SanType::URI(uri.expect("it is ASCII"))];
        for name in subject.names() {
            let entry = match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) if is_host(&name) => {
                    let wrong = |_| CredentialsError::Name(name.clone());
                    SanType::DnsName(name.as_str().try_into().map_err(wrong)?)
                }
                Err(_) => return Err(CredentialsError::Name(name)),
            };
            params.subject_alt_names.push(entry);
        }
        let signed = params.signed_by(key, &self.issuer);
        Ok(signed.expect("what is asked for can be signed").pem())
    }

    /// Shows a certificate that it signs for this, with a key that is kept nowhere, and believes these.
    pub(crate) fn connector(
        &self,
        subject: &Subject,
        believed: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<Connector, CredentialsError> {
        let key = new_key();
        let own = self.sign(subject, &key, now)?;
        let own = CertificateDer::from_pem_slice(own.as_bytes()).expect("it was made so");
        let key = PrivateKeyDer::from(rustls::pki_types::PrivatePkcs8KeyDer::from(
            key.serialize_der(),
        ));
        Ok(Connector::showing(vec![own], key, believed))
    }

    /// The one that is to take its place, and its key, as PEM, if there is one.
    fn next(&self) -> Result<Option<(String, Zeroizing<String>)>, CredentialsError> {
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        let path = directory.join(NEXT_FILE);
        // One that stands first has taken it already, and was cut short behind that.
        if !path.exists() || certificate(&path)? == certificate(&directory.join(AUTHORITY_FILE))? {
            return Ok(None);
        }
        let key = files::read_key(&directory.join(NEXT_KEY_FILE))?;
        Ok(Some((files::read(&path)?, key)))
    }

    /// Makes the credentials of another machine, in a directory which is made for them. Where this authority is being replaced, the
    /// machine is as far as the one that issues. A try that was cut short is taken up.
    ///
    /// # Errors
    /// [`CredentialsError`], if the directory has some already above all, or keys of another origin.
    pub fn issue(
        &self,
        subject: &Subject,
        directory: &Path,
        now: SystemTime,
    ) -> Result<(), CredentialsError> {
        self.issue_with(subject, directory, &[], now)
    }

    /// The same, with further keys, for files of these names.
    ///
    /// # Errors
    /// The same.
    pub fn issue_with(
        &self,
        subject: &Subject,
        directory: &Path,
        keys: &[(&str, Zeroizing<String>)],
        now: SystemTime,
    ) -> Result<(), CredentialsError> {
        // The last one that is written: without it, there are no credentials.
        let path = directory.join(AUTHORITY_FILE);
        if path.exists() {
            return Err(CredentialsError::Exists(path));
        }
        let next = self.next()?;
        // Before anything is written, the names are looked at.
        self.sign(subject, &new_key(), now)?;
        files::make_directory(directory)?;
        for (name, text) in keys {
            put_key(&directory.join(name), text)?;
        }
        put_key(&directory.join(AUTHORITY_KEY_FILE), &self.key_pem)?;
        if let Some((pem, key_pem)) = next {
            put_key(&directory.join(NEXT_KEY_FILE), &key_pem)?;
            files::replace(&directory.join(NEXT_FILE), &pem, 0o644)?;
        }
        let key = key_at(&directory.join(crate::NODE_KEY_FILE))?;
        let own = self.sign(subject, &key, now)?;
        files::replace(&directory.join(crate::NODE_FILE), &own, 0o644)?;
        files::write_new(&path, &self.pem, 0o644)
    }
}

/// Writes a key, unless it is there.
///
/// # Errors
/// [`CredentialsError::Exists`] if another one is.
fn put_key(path: &Path, text: &str) -> Result<(), CredentialsError> {
    match files::read_key(path) {
        Ok(found) if found.as_str() == text => Ok(()),
        Ok(_) => Err(CredentialsError::Exists(path.to_owned())),
        Err(CredentialsError::Missing(_)) => files::write_key(path, text),
        Err(error) => Err(error),
    }
}

/// The key in a file, which is made if there is none: a try that was cut short may have left it.
///
/// # Errors
/// [`CredentialsError`] if it cannot be made, or what is there is no key for its owner only.
pub(crate) fn key_at(path: &Path) -> Result<KeyPair, CredentialsError> {
    match files::read_key(path) {
        Ok(text) => KeyPair::from_pem(&text).map_err(|_| CredentialsError::Unreadable {
            path: path.to_owned(),
            what: "key",
        }),
        Err(CredentialsError::Missing(_)) => {
            let key = new_key();
            files::write_key(path, &Zeroizing::new(key.serialize_pem()))?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

/// The certificate of the authority of a cluster with this key, as PEM.
pub(crate) fn certify(cluster: ClusterId, key: &KeyPair, now: SystemTime) -> String {
    let mut params = valid(period(now, AUTHORITY_DAYS));
    let name = format!("{NAME}{:032x}", cluster.0);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(key);
    certificate.expect("what is asked for can be signed").pem()
}

/// A certificate as PEM.
pub(crate) fn to_pem(certificate: &CertificateDer<'_>) -> String {
    pem::encode_config(&Pem::new("CERTIFICATE", &**certificate), PEM_LINES)
}

/// What the certificates of a cluster's authorities say, that of the one that signs first, and the cluster.
///
/// # Errors
/// [`CredentialsError`] if the file has none, or something else.
pub fn authorities_in(path: &Path) -> Result<(Vec<Issued>, ClusterId), CredentialsError> {
    let (found, cluster) = certificates_of(path)?;
    let issued = found.iter().map(Issued::read).collect::<Option<_>>();
    Ok((issued.ok_or_else(|| unreadable(path))?, cluster))
}

/// The certificates of authorities in a file, that of the one that signs first, and their cluster.
pub(crate) fn certificates_of(
    path: &Path,
) -> Result<(Vec<CertificateDer<'static>>, ClusterId), CredentialsError> {
    let found = crate::issued::certificates(path)?;
    if found.len() > AUTHORITIES_MAX {
        return Err(CredentialsError::TooMany {
            path: path.to_owned(),
            count: found.len(),
        });
    }
    let mut cluster = None;
    for one in &found {
        let of_one = cluster_of(one, path)?;
        if let Some(wanted) = cluster.filter(|it| *it != of_one) {
            return Err(CredentialsError::OtherCluster {
                path: path.to_owned(),
                found: of_one,
                wanted,
            });
        }
        cluster = Some(of_one);
    }
    Ok((found, cluster.expect("there is one at least")))
}

/// The cluster of an authority.
pub(crate) fn cluster_of(
    found: &CertificateDer<'static>,
    path: &Path,
) -> Result<ClusterId, CredentialsError> {
    let no_authority = || CredentialsError::Unreadable {
        path: path.to_owned(),
        what: "certificate of a cluster's authority",
    };
    let issued = Issued::read(found).ok_or_else(no_authority)?;
    let cluster = issued.common_name.strip_prefix(NAME);
    let cluster = cluster.and_then(|it| u128::from_str_radix(it, 16).ok());
    let anchored = RootCertStore::empty().add(found.clone());
    anchored.map_err(|_| no_authority())?;
    Ok(ClusterId(cluster.ok_or_else(no_authority)?))
}

/// A name that DNS could have.
fn is_host(name: &str) -> bool {
    rustls::pki_types::DnsName::try_from(name).is_ok()
}

/// A new key, on P-256.
pub(crate) fn new_key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("the system has randomness")
}

/// When one can be made that begins after this one, whatever the clocks of both said: which of two is the older is told by that.
pub(crate) fn after(present: &Issued) -> SystemTime {
    present.not_before + CLOCKS_APART + Duration::from_secs(1)
}

/// From now on, for so many days.
fn period(now: SystemTime, days: u64) -> Range<SystemTime> {
    now - CLOCKS_APART..now + Duration::from_secs(days * 24 * 60 * 60)
}

/// A certificate that is good then.
fn valid(period: Range<SystemTime>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = calendar(period.start);
    params.not_after = calendar(period.end);
    params.serial_number = Some(SerialNumber::from(serial().to_vec()));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

/// A number that no other certificate has: 15 random bytes behind one that keeps it positive.
fn serial() -> [u8; 16] {
    let mut bytes = [0x40; 16];
    let filled = getrandom::fill(&mut bytes[1..]);
    filled.expect("the system has randomness");
    bytes
}

fn calendar(time: SystemTime) -> OffsetDateTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
