//! An authority takes the place of another one while all machines run: each believes both, then each shows what the next one has
//! signed, then each believes that one only.
//!
//! The steps are changes of files in a directory of credentials. Whoever runs there takes them up by
//! [`Credentials::refresh`] and [`Credentials::renew`](crate::Credentials::renew).
//!
//! It refuses to know the other machines: whether a step may be taken is for whoever has asked them, by a [`Probe`].
//!
//! Invariants:
//! - each step may be repeated, and goes on where a crash has left it;
//! - what is shown at any moment is signed by an authority that is in the file at that moment;
//! - keys for secrets are in files of their own, and are not touched.

use std::path::Path;
use std::time::SystemTime;

use holdfast_model::ClusterId;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::authority::{self, AUTHORITIES_MAX, Authority, Subject, certificates_of, to_pem};
use crate::credentials::{belong, is_signed_by};
use crate::files::{self, CredentialsError};
use crate::handshake::{ConnectError, Connector};
use crate::issued::{Issued, certificate, unreadable};
use crate::{AUTHORITY_FILE, AUTHORITY_KEY_FILE, Credentials, NODE_FILE};

/// The next authority's certificate, in a directory of credentials.
pub const NEXT_FILE: &str = "authority.next.pem";
/// Its key.
pub const NEXT_KEY_FILE: &str = "authority.next.key";
/// The key of the authority before, until it is believed no more.
const FORMER_KEY_FILE: &str = "authority.former.key";

/// What to do where another authority than the next one is believed beside the present one.
const UNDER_WAY: &str = "two authorities are believed already, and a third one would keep nodes from starting\n\n\
     hint: finish the replacement that is under way (`holdfast security replace status` says how far it is), or, where this machine \
     has not switched, take it back: leave only the first certificate in this file. Then begin again";

/// How far a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One authority, and no other.
    One,
    /// The next one is believed, and the present one signs.
    Both,
    /// The next one signs, and the one before is believed.
    Switched,
}

/// How far a directory is.
///
/// # Errors
/// [`CredentialsError`] if it cannot be read.
pub fn stage(directory: &Path) -> Result<Stage, CredentialsError> {
    let (authorities, _) = certificates_of(&directory.join(AUTHORITY_FILE))?;
    let has_next = directory.join(NEXT_FILE).exists();
    Ok(match (authorities.len(), has_next) {
        (1, _) => Stage::One,
        (_, true) => Stage::Both,
        (_, false) => Stage::Switched,
    })
}

/// Makes the next authority, unless its files are there already, and believes it beside the present one.
///
/// # Errors
/// [`CredentialsError`], above all if another one is believed beside the present one already. Then nothing was changed.
pub fn prepare(directory: &Path, now: SystemTime) -> Result<Issued, CredentialsError> {
    let path = directory.join(AUTHORITY_FILE);
    let (authorities, cluster) = certificates_of(&path)?;
    let next_path = directory.join(NEXT_FILE);
    if !next_path.exists() {
        if authorities.len() == AUTHORITIES_MAX {
            let why = UNDER_WAY;
            return Err(CredentialsError::NotNow { path, why });
        }
        let present = Issued::read(&authorities[0]).ok_or_else(|| unreadable(&path))?;
        make(directory, cluster, now.max(authority::after(&present)))?;
    }
    let next = next_of(directory, cluster)?;
    if !authorities.contains(&next) {
        // It may have been copied here while another one is believed.
        if authorities.len() == AUTHORITIES_MAX {
            let why = UNDER_WAY;
            return Err(CredentialsError::NotNow { path, why });
        }
        let text = files::read(&path)?;
        let added = files::read(&next_path)?;
        files::replace(&path, &format!("{}\n{added}", text.trim_end()), 0o644)?;
    }
    Issued::read(&next).ok_or_else(|| unreadable(&next_path))
}

fn make(directory: &Path, cluster: ClusterId, now: SystemTime) -> Result<(), CredentialsError> {
    let key = authority::key_at(&directory.join(NEXT_KEY_FILE))?;
    let pem = authority::certify(cluster, &key, now);
    files::write_new(&directory.join(NEXT_FILE), &pem, 0o644)
}

/// The next authority's certificate, which is of this cluster; with its key, where that is there.
fn next_of(
    directory: &Path,
    cluster: ClusterId,
) -> Result<CertificateDer<'static>, CredentialsError> {
    let path = directory.join(NEXT_FILE);
    let next = certificate(&path)?;
    let found = authority::cluster_of(&next, &path)?;
    if found != cluster {
        return Err(CredentialsError::OtherCluster {
            path,
            found,
            wanted: cluster,
        });
    }
    Ok(next)
}

/// Has the next authority sign from now on, where its key is here; the one before is believed still. The machine's own certificate
/// is made anew by whoever runs with this directory.
///
/// # Errors
/// [`CredentialsError`], above all if it was not prepared.
pub fn switch(directory: &Path) -> Result<(), CredentialsError> {
    let path = directory.join(AUTHORITY_FILE);
    let (authorities, cluster) = certificates_of(&path)?;
    let next_path = directory.join(NEXT_FILE);
    if !next_path.exists() {
        let why = "no next authority was prepared here";
        return Err(CredentialsError::NotNow { path, why });
    }
    let next = next_of(directory, cluster)?;
    if !authorities.contains(&next) {
        let why = "the next authority is not believed here yet";
        return Err(CredentialsError::NotNow { path, why });
    }
    let [key, next_key, former_key] =
        [AUTHORITY_KEY_FILE, NEXT_KEY_FILE, FORMER_KEY_FILE].map(|it| directory.join(it));
    if key.exists() && belongs(&next, &key)? {
        // A switch that was cut short has come so far; what was copied here once more since is of no use.
        files::remove(&next_key)?;
    } else if next_key.exists() {
        let text = files::read_key(&next_key)?;
        if !KeyPair::from_pem(&text).is_ok_and(|pair| belong(&next, &pair)) {
            return Err(CredentialsError::OtherKey(next_key));
        }
        files::rename(&key, &former_key)?;
        files::rename(&next_key, &key)?;
    } else if key.exists() {
        // Whoever has the key of an authority here has that of the next one, too, or none.
        return Err(CredentialsError::Missing(next_key));
    }
    let others = authorities.iter().filter(|it| **it != next);
    let text: String = [&next]
        .into_iter()
        .chain(others)
        .map(|it| to_pem(it))
        .collect();
    files::replace(&path, &text, 0o644)?;
    files::remove(&next_path)
}

/// Believes none but the authority that signs now.
///
/// # Errors
/// [`CredentialsError`], above all if what this machine shows was signed by another one.
pub fn finish(directory: &Path) -> Result<(), CredentialsError> {
    let path = directory.join(AUTHORITY_FILE);
    let (authorities, _) = certificates_of(&path)?;
    if directory.join(NEXT_FILE).exists() {
        let why = "the next authority does not sign here yet";
        return Err(CredentialsError::NotNow { path, why });
    }
    if let [first, other] = &authorities[..]
        && let (Some(first), Some(other)) = (Issued::read(first), Issued::read(other))
        && first.not_before < other.not_before
    {
        let why = "the one that stands first is the older of two: it would be the next authority that is dropped. Copy \
                   authority.next.pem and authority.next.key from a machine that has them, and switch";
        return Err(CredentialsError::NotNow { path, why });
    }
    let own = directory.join(NODE_FILE);
    if !is_signed_by(&certificate(&own)?, &authorities[0]) {
        let why = "it was signed by the authority before: a node that runs here makes another one within half a minute";
        return Err(CredentialsError::NotNow { path: own, why });
    }
    if authorities.len() > 1 {
        files::replace(&path, &to_pem(&authorities[0]), 0o644)?;
    }
    files::remove(&directory.join(FORMER_KEY_FILE))
}

fn belongs(certificate: &CertificateDer<'_>, key: &Path) -> Result<bool, CredentialsError> {
    let pair = KeyPair::from_pem(&files::read_key(key)?);
    Ok(pair.is_ok_and(|pair| belong(certificate, &pair)))
}

/// Asks other machines how far they are.
#[derive(Debug)]
pub struct Probe {
    connector: Connector,
    wanted: CertificateDer<'static>,
}

/// How far another machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It takes what is shown to it, and what it shows is of the authority that is to sign.
    Shows,
    /// It takes what is shown to it.
    Believes,
    /// It refuses what is shown to it.
    Refuses,
}

impl Probe {
    /// With a certificate that the next authority signs for this: who takes it believes that authority already.
    ///
    /// # Errors
    /// [`CredentialsError`] if the next authority's key is not here.
    pub fn of_next(
        directory: &Path,
        subject: &Subject,
        now: SystemTime,
    ) -> Result<Self, CredentialsError> {
        let path = directory.join(NEXT_FILE);
        let key = directory.join(AUTHORITY_KEY_FILE);
        // Where a switch was cut short, it may have its place already.
        let has_moved = key.exists() && belongs(&certificate(&path)?, &key)?;
        let key_path = if has_moved {
            key
        } else {
            directory.join(NEXT_KEY_FILE)
        };
        let next = Authority::of_files(&path, &key_path)?;
        let (authorities, _) = certificates_of(&directory.join(AUTHORITY_FILE))?;
        Ok(Self {
            connector: next.connector(subject, &authorities, now)?,
            wanted: certificate(&path)?,
        })
    }

    /// With what this machine shows.
    ///
    /// # Errors
    /// [`CredentialsError`] if that is no use.
    pub fn of_present(directory: &Path) -> Result<Self, CredentialsError> {
        let own = Credentials::read(directory)?;
        Ok(Self {
            connector: Connector::of_machine(&own),
            wanted: own.trust().authorities().swap_remove(0),
        })
    }

    /// Asks for a path over HTTP, and looks whether anything is answered: who is not believed hears nothing. How long that may take is
    /// for the caller to say.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no connection.
    pub async fn ask(
        &self,
        host: &str,
        stream: TcpStream,
        path: &str,
    ) -> Result<Found, ConnectError> {
        let mut stream = self.connector.connect(host, stream).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut first = [0];
        let heard = async {
            stream.write_all(request.as_bytes()).await?;
            stream.flush().await?;
            stream.read(&mut first).await
        };
        // In TLS 1.3 a refusal comes after the handshake, in the place of an answer.
        if !matches!(heard.await, Ok(1)) {
            return Ok(Found::Refuses);
        }
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.and_then(<[_]>::first);
        let is_wanted = shown.is_some_and(|it| is_signed_by(it, &self.wanted));
        Ok(if is_wanted {
            Found::Shows
        } else {
            Found::Believes
        })
    }
}
