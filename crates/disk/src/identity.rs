//! Which file or block device something is, whatever its path names later.
//!
//! It refuses to open anything.
//!
//! Invariant: two identities are the same if what they were taken of is the same file, or nodes of the same block
//! device, as long as one of them is open.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

/// Which file or block device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The file system, and the number of the file there.
    File { device: u64, inode: u64 },
    /// The number of the device: its node may be made anew.
    Block { device: u64 },
}

impl Identity {
    /// Of what is at a path now; symbolic links are followed. Nothing, if no file and no block device is there.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn at(path: &Path) -> std::io::Result<Option<Self>> {
        Ok(Self::measured_at(path)?.map(|(identity, _)| identity))
    }

    /// The same, with the bytes that it has if it is a file: of a block device, that is told only by what has it open.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn measured_at(path: &Path) -> std::io::Result<Option<(Self, Option<u64>)>> {
        match rustix::fs::stat(path) {
            Ok(status) => Ok(Self::of_status(&status).map(|identity| {
                let is_file = matches!(identity.0, Kind::File { .. });
                let bytes = u64::try_from(status.st_size).ok();
                (identity, bytes.filter(|_| is_file))
            })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NXIO) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Of what is open.
    pub(crate) fn of(descriptor: impl AsFd) -> Option<Self> {
        let status = rustix::fs::fstat(descriptor).ok()?;
        Self::of_status(&status)
    }

    fn of_status(status: &Stat) -> Option<Self> {
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Kind::File {
                device: status.st_dev,
                inode: status.st_ino,
            },
            FileType::BlockDevice => Kind::Block {
                device: status.st_rdev,
            },
            _ => return None,
        };
        Some(Self(kind))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_the_files_as_long_as_it_names_that_very_file() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link, aside] = ["device", "link", "aside"].map(|name| folder.path().join(name));
        fs::write(&path, "one").unwrap();
        symlink(&path, &link).unwrap();
        let file = fs::File::options().write(true).open(&link).unwrap();
        let identity = Identity::of(&file);
        assert!(identity.is_some());
        let at = |path: &Path| Identity::at(path).unwrap();
        assert_eq!([at(&path), at(&link)], [identity; 2]);
        let measured = |path: &Path| Identity::measured_at(path).unwrap();
        assert_eq!(measured(&link), identity.map(|it| (it, Some(3))));
        file.set_len(2).unwrap();
        assert_eq!(measured(&path), identity.map(|it| (it, Some(2))));
        fs::rename(&path, &aside).unwrap();
        assert_eq!([at(&path), at(&link), at(&aside)], [None, None, identity]);
        fs::write(&path, "one").unwrap();
        assert!(at(&path).is_some() && at(&path) != identity);
        fs::remove_file(&aside).unwrap();
        assert_eq!(Identity::of(&file), identity);
        // No storage at all.
        assert_eq!([at(folder.path()), at(Path::new("/dev/null"))], [None; 2]);
        assert_eq!(at(&path.join("below")), None);
    }
}
