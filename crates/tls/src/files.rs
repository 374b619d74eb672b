//! The files of credentials: who may read them, and how they are written.
//!
//! Invariants:
//! - a key is never in a file that others could read, not for a moment, and not in memory any more when nobody has it in hand;
//! - what is written is there whole, or not at all.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// Bytes of a file of credentials at most: one certificate, or one key.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Bytes that are set aside for a key that is read.
const KEY_ROOM: usize = 64 << 10;

/// Credentials that cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// There is no such file.
    #[error("{} is not there", .0.display())]
    Missing(PathBuf),
    /// Something is there already, and is not overwritten.
    #[error("{} is there already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// The operating system refuses.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others can read a key.
    #[error(
        "{} can be read by others (its mode is {mode:03o}): a key is for its owner only\n\n\
         hint: chmod 600 {}; if somebody has read it, found a new authority", path.display(), path.display()
    )]
    Public {
        /// The key's file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file does not hold what it is to hold.
    #[error("{} is no {what}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What it is to hold.
        what: &'static str,
    },
    /// A key does not belong to its certificate.
    #[error("{} is not the key of the certificate beside it", .0.display())]
    OtherKey(PathBuf),
    /// A certificate is not of this authority.
    #[error("{} is not of the authority beside it", .0.display())]
    OtherAuthority(PathBuf),
    /// The authority is that of another cluster.
    #[error("{} is the authority of cluster {found}, not of {wanted}", path.display())]
    OtherCluster {
        /// The authority's certificate.
        path: PathBuf,
        /// Its cluster.
        found: holdfast_model::ClusterId,
        /// The one that is wanted.
        wanted: holdfast_model::ClusterId,
    },
    /// More authorities than are believed at a time.
    #[error(
        "{} has {count} certificates of authorities, and no more than two are believed at a time\n\n\
         hint: leave the first, which is that of the authority that signs, and, while that is replaced, the one that takes its place \
         or had it (that in authority.next.pem, or the one that has signed node.pem); take the others out", path.display()
    )]
    TooMany {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// A step that has its time before or after.
    #[error("{}: {why}", path.display())]
    NotNow {
        /// What it is about.
        path: PathBuf,
        /// Why not now.
        why: &'static str,
    },
    /// A certificate is not good now.
    #[error("{} has expired, or is not valid yet: look at this machine's clock, or have it made anew", .0.display())]
    NotValid(PathBuf),
    /// A certificate is that of another node.
    #[error(
        "{} is the certificate of {found}, not of {wanted}\n\n\
         hint: credentials of a node are for that node: remove node.pem and node.key there, and the node makes its own with \
         the authority's key, or copy those that were issued for it", path.display()
    )]
    OtherNode {
        /// The certificate.
        path: PathBuf,
        /// Whose it is.
        found: holdfast_model::NodeId,
        /// Whose it is to be.
        wanted: holdfast_model::NodeId,
    },
    /// A name or an address that no certificate can have.
    #[error("{0:?} is no name or address that a certificate can have")]
    Name(String),
}

impl CredentialsError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}

/// Makes a directory that is its owner's only, unless it is there.
pub(crate) fn make_directory(path: &Path) -> Result<(), CredentialsError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.map_err(CredentialsError::io("make", path))
}

/// What a file holds.
pub(crate) fn read(path: &Path) -> Result<String, CredentialsError> {
    let file = open(path)?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(CredentialsError::io("read", path))?;
    Ok(text)
}

/// What a key's file holds, if others cannot read it: 64 KiB of it at most.
///
/// # Errors
/// [`CredentialsError`], above all if it is not there or others can read it.
pub fn read_key(path: &Path) -> Result<Zeroizing<String>, CredentialsError> {
    let file = open(path)?;
    let metadata = file
        .metadata()
        .map_err(CredentialsError::io("look at", path))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CredentialsError::Public {
            path: path.to_owned(),
            mode,
        });
    }
    // So large that it does not grow: what it grew from would be left in memory.
    let mut text = Zeroizing::new(String::with_capacity(KEY_ROOM));
    let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(CredentialsError::io("read", path))?;
    Ok(text)
}

fn open(path: &Path) -> Result<File, CredentialsError> {
    File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => CredentialsError::Missing(path.to_owned()),
        _ => CredentialsError::io("open", path)(source),
    })
}

/// Writes a key into a file that must not be there yet, for its owner only.
///
/// # Errors
/// [`CredentialsError`], above all if it is there.
pub fn write_key(path: &Path, text: &str) -> Result<(), CredentialsError> {
    write_new(path, text, 0o600)
}

/// Writes a file that must not be there yet: it is there as a whole, or not at all, however the machine fails.
pub(crate) fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CredentialsError> {
    let written = holdfast_durable::create(path, text.as_bytes(), mode);
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CredentialsError::Exists(path.to_owned()),
        _ => CredentialsError::io("write", path)(source),
    })
}

/// Puts another content in a file's place: the former one is there, or this, however the machine fails.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> Result<(), CredentialsError> {
    let replaced = holdfast_durable::replace(path, text.as_bytes(), mode);
    replaced.map_err(CredentialsError::io("replace", path))
}

/// Moves a file, if it is there, in the place of the one that has the name.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), CredentialsError> {
    match holdfast_durable::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved.map_err(CredentialsError::io("move", from)),
    }
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), CredentialsError> {
    holdfast_durable::remove(path).map_err(CredentialsError::io("remove", path))
}
