//! Why a device cannot be used. Each variant is something else for a person to do.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A device that was not opened, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct OpenError {
    /// The device as it was named.
    pub path: PathBuf,
    /// What stands in the way.
    pub reason: OpenErrorReason,
}

/// What stands in the way of using a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenErrorReason {
    /// There is nothing of that name, and it was not to be created.
    #[error("does not exist")]
    Missing,
    /// The user who runs this may not read and write it.
    #[error("permission denied")]
    Permission,
    /// A directory, a character device, a socket…
    #[error("is neither a file nor a block device")]
    NotStorage,
    /// Another process holds it, or this one does already.
    #[error("is in use{}", by(*holder))]
    InUse {
        /// The process that holds the lock, where the system tells.
        holder: Option<u32>,
    },
    /// It holds fewer bytes than are needed.
    #[error("has {size} bytes, at least {minimum} are needed")]
    TooSmall {
        /// Its size in bytes.
        size: u64,
        /// The size that it must have.
        minimum: u64,
    },
    /// The file system has no room for a file of the size asked for.
    #[error("there is no room for {size} bytes")]
    NoSpace {
        /// The size asked for.
        size: u64,
    },
    /// Its sectors are larger than 4 KiB or not a power of two.
    #[error("has sectors of {sector} bytes; 512 to 4096 are supported")]
    Sector {
        /// Its logical sector in bytes.
        sector: u32,
    },
    /// Anything else that the operating system reports.
    #[error("{action}: {}", Errno::from_raw_os_error(*errno))]
    Os {
        /// What was tried: verb and object.
        action: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl OpenError {
    pub(crate) fn new(path: &Path, reason: OpenErrorReason) -> Self {
        Self {
            path: path.into(),
            reason,
        }
    }
}

impl OpenErrorReason {
    pub(crate) fn os(action: &'static str, errno: Errno) -> Self {
        Self::Os {
            action,
            errno: errno.raw_os_error(),
        }
    }
}

/// The end of "is in use": by whom, if that is known.
fn by(holder: Option<u32>) -> impl fmt::Display {
    struct By(Option<u32>);
    impl fmt::Display for By {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                Some(process) => write!(formatter, " by process {process}"),
                None => Ok(()),
            }
        }
    }
    By(holder)
}

/// Why the disks cannot be driven: the engine that was asked for by name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A device cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// io_uring was asked for and the system refuses it, or lacks an operation.
    #[error("start io_uring: {}", Errno::from_raw_os_error(*errno))]
    Ring {
        /// The error number.
        errno: i32,
    },
    /// No event descriptor or no threads.
    #[error("start the disk driver: {}", Errno::from_raw_os_error(*errno))]
    Resources {
        /// The error number.
        errno: i32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_device_and_the_reason() {
        let message = |reason| OpenError::new(Path::new("d0"), reason).to_string();
        assert_eq!(message(OpenErrorReason::Missing), "d0: does not exist");
        let holder = Some(17);
        assert_eq!(
            message(OpenErrorReason::InUse { holder }),
            "d0: is in use by process 17"
        );
        assert_eq!(
            message(OpenErrorReason::InUse { holder: None }),
            "d0: is in use"
        );
        let reason = OpenErrorReason::os("open the device", Errno::IO);
        assert!(message(reason).starts_with("d0: open the device: "));
    }
}
