//! A node's directory, and who has it: a lock on the file that holds the process's number.
//!
//! Invariants:
//! - two processes never have the same directory, whatever became of the former holder;
//! - the file is never removed: a lock on a removed file would be none.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use holdfast_api::documents::ProcessEnd;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::predecessor::Holder;

/// The file in a node's directory that its process locks, and writes its number into.
pub const PID_FILE: &str = "node.pid";

/// Who may use a file of a node's, as far as the process's mask lets them.
const FOR_ALL: u32 = 0o666;

/// A node's directory, held by this process.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: File,
    before: Option<ProcessEnd>,
}

/// The directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process has it.
    #[error("{} is in use by {}", path.display(), describe(*holder))]
    Held {
        /// The directory.
        path: PathBuf,
        /// The process, if it says so.
        holder: Option<u32>,
    },
    /// The operating system refuses.
    #[error("{action} {}: {source}", path.display())]
    Refused {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ClaimError {
    pub(crate) fn holder(&self) -> Option<Holder> {
        match self {
            Self::Held { holder, .. } => Some(Holder::from(*holder)),
            Self::Refused { .. } => None,
        }
    }
}

fn describe(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}

impl Directory {
    /// Makes the directory if it is missing, and takes it for this process.
    ///
    /// # Errors
    /// [`ClaimError`] if another process has it, or the operating system refuses.
    pub fn claim(path: &Path) -> Result<Self, ClaimError> {
        let refused = |action, path: &Path| {
            let path = path.to_owned();
            move |source| ClaimError::Refused {
                action,
                path,
                source,
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(refused("create", path))?;
        let file = path.join(PID_FILE);
        let is_new = !file.exists();
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .map_err(refused("open", &file))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(ClaimError::Held {
                    path: path.to_owned(),
                    holder: read_number(&mut lock),
                });
            }
            Err(errno) => return Err(refused("lock", &file)(errno.into())),
        }
        let length = lock.metadata().map_err(refused("look at", &file))?.len();
        let before = match length {
            0 if is_new => None,
            0 => Some(ProcessEnd::Stopped),
            // Its number is still there.
            _ => Some(ProcessEnd::Cut),
        };
        write_number(&mut lock).map_err(refused("write", &file))?;
        Ok(Self {
            path: path.to_owned(),
            lock,
            before,
        })
    }

    /// How the process ended that had it before; nothing if none had.
    #[must_use]
    pub const fn before(&self) -> Option<ProcessEnd> {
        self.before
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Directory {
    /// The process has stopped as it was told to. Where it ends otherwise its number stays behind, which is no holder's, for the lock
    /// says whether it means anything: it tells the next one.
    pub fn leave(&self) {
        drop(self.lock.set_len(0));
    }
}

/// The process that has the directory at `path` now; `None` if nobody has, or it does not say who
/// it is.
#[must_use]
pub fn holder(path: &Path) -> Option<u32> {
    let mut file = File::open(path.join(PID_FILE)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => read_number(&mut file),
        _ => None,
    }
}

/// Makes a file anew, so that there is always a whole one, the former or this, whatever happens.
///
/// # Errors
/// It cannot be written. Then the former one is there.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    holdfast_durable::replace(path, text.as_bytes(), FOR_ALL)
}

/// Removes a file for good, if there is one.
///
/// # Errors
/// It is there, and cannot be removed.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    holdfast_durable::remove(path)
}

fn write_number(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

/// The number in the file. The length of what is read is bounded: the file may hold anything.
fn read_number(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_second_one_is_told_who_has_it() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("n1");
        assert_eq!(holder(&path), None);
        let directory = Directory::claim(&path).unwrap();
        assert_eq!(directory.path(), path);
        assert_eq!(holder(&path), Some(std::process::id()));
        let error = Directory::claim(&path).unwrap_err();
        assert!(matches!(error, ClaimError::Held { holder: Some(pid), .. }
            if pid == std::process::id()));
        assert!(
            error
                .to_string()
                .contains(&format!("process {}", std::process::id()))
        );
        drop(directory);
        assert_eq!(holder(&path), None);
        Directory::claim(&path).unwrap();
    }

    #[test]
    fn the_next_process_knows_how_the_one_before_ended() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("n1");
        let first = Directory::claim(&path).unwrap();
        assert_eq!(first.before(), None);
        first.leave();
        drop(first);
        let second = Directory::claim(&path).unwrap();
        assert_eq!(second.before(), Some(ProcessEnd::Stopped));
        drop(second);
        let third = Directory::claim(&path).unwrap();
        assert_eq!(third.before(), Some(ProcessEnd::Cut));
    }

    #[test]
    fn what_a_killed_process_left_behind_is_no_holder() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join(PID_FILE), "4711\n").unwrap();
        assert_eq!(holder(parent.path()), None);
        Directory::claim(parent.path()).unwrap();
        fs::write(parent.path().join(PID_FILE), "nonsense".repeat(1000)).unwrap();
        assert_eq!(holder(parent.path()), None);
    }

    #[test]
    fn what_cannot_be_a_directory_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Directory::claim(&path).unwrap_err();
        assert!(error.to_string().contains(&path.display().to_string()));
    }
}
