//! One file or block device: opened, locked, measured.
//!
//! It refuses to format, to read or to interpret what is on it.
//!
//! Invariants:
//! - an open device is locked against every other user: a file by `flock`, a block device by
//!   `O_EXCL`, until its last operation has ended;
//! - a created file has its full size, its space if that was asked for, and its name on disk.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, Statx, StatxFlags,
};
use rustix::io::Errno;

use crate::buffer::ALIGNMENT;
use crate::error::{OpenError, OpenErrorReason};
use crate::identity::Identity;
use crate::lock::lock_holder;

/// The least that a logical sector holds.
const SECTOR_MIN: u32 = 512;
/// The most that a logical sector may hold: a block.
const SECTOR_MAX: u32 = ALIGNMENT as u32;

/// A device to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// A regular file or a block device; symbolic links are followed.
    pub path: PathBuf,
    /// For a file: created if it is missing, and given its size if it holds no byte. A file that
    /// holds something keeps its size: it may be somebody else's.
    pub file: Option<FileSpec>,
    /// The least size in bytes that is of use.
    pub size_min: u64,
}

/// How large a file is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Bytes.
    pub size: u64,
    /// Whether its space is taken now. Otherwise the file is sparse: the file system may run out
    /// under it, and writes that allocate cost about twice as much.
    pub preallocate: bool,
}

impl DeviceSpec {
    /// What exists at `path`, of whatever size it is.
    #[must_use]
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            file: None,
            size_min: 0,
        }
    }

    /// The file at `path`, created with `size` bytes and their space taken if it is not there.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>, size: u64) -> Self {
        let file = FileSpec {
            size,
            preallocate: true,
        };
        Self {
            file: Some(file),
            ..Self::existing(path)
        }
    }
}

/// What a device looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes, a multiple of the sector.
    pub size: u64,
    /// Logical sector in bytes, a power of two from 512 to 4096: what offsets and lengths are
    /// multiples of.
    pub sector: u32,
    /// A block device rather than a file.
    pub block_device: bool,
    /// Whether the page cache is bypassed. Where it is not, durability rests on `fdatasync`.
    pub direct: bool,
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) descriptor: OwnedFd,
    pub(crate) geometry: Geometry,
    /// Nothing, if the system does not tell.
    pub(crate) identity: Option<Identity>,
    /// What the address of memory must be a multiple of.
    pub(crate) memory_alignment: usize,
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Closing would do, but io_uring may let go of the open file a moment later than this, and
        // whoever opens the device next should not find it in use.
        if !self.geometry.block_device {
            let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
        }
    }
}

impl Device {
    /// Opens, creates and locks as `spec` says; through the page cache if `direct` is
    /// false or refused.
    pub(crate) fn open(spec: &DeviceSpec, direct: bool) -> Result<Self, OpenError> {
        open(spec, direct).map_err(|reason| OpenError::new(&spec.path, reason))
    }
}

/// How direct I/O may be done on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alignment {
    memory: u32,
    offset: u32,
}

fn open(spec: &DeviceSpec, direct: bool) -> Result<Device, OpenErrorReason> {
    let kind = match rustix::fs::stat(&spec.path) {
        Ok(status) => Some(FileType::from_raw_mode(status.st_mode)),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(refused("look at the device", errno)),
    };
    match (kind, spec.file) {
        (Some(FileType::RegularFile), _) => open_file(spec, OFlags::empty(), direct),
        (Some(FileType::BlockDevice), _) => open_block_device(spec, direct),
        (Some(_), _) => Err(OpenErrorReason::NotStorage),
        (None, Some(_)) => open_file(spec, OFlags::CREATE | OFlags::EXCL, direct),
        (None, None) => Err(OpenErrorReason::Missing),
    }
}

fn open_file(spec: &DeviceSpec, extra: OFlags, direct: bool) -> Result<Device, OpenErrorReason> {
    let (descriptor, direct) = open_descriptor(&spec.path, extra, direct)?;
    match rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let holder = lock_holder(descriptor.as_fd());
            return Err(OpenErrorReason::InUse { holder });
        }
        Err(errno) => return Err(OpenErrorReason::os("lock the file", errno)),
    }
    if let Some(file) = spec.file
        && size_of(&descriptor)? == 0
    {
        let sized = must_be_of_use(file.size, spec.size_min)
            .and_then(|()| give_size(&descriptor, file))
            .and_then(|()| sync_name(&spec.path));
        if let Err(reason) = sized {
            if extra.contains(OFlags::CREATE) {
                // Ours, locked, and empty: nothing is lost with it.
                let _ = rustix::fs::unlink(&spec.path);
            }
            return Err(reason);
        }
    }
    let alignment = direct.then(|| file_alignment(&descriptor)).flatten();
    finish(spec, descriptor, false, alignment)
}

fn open_block_device(spec: &DeviceSpec, direct: bool) -> Result<Device, OpenErrorReason> {
    // Without O_CREAT, O_EXCL claims the device: refused while it is mounted or claimed.
    let (descriptor, direct) = open_descriptor(&spec.path, OFlags::EXCL, direct)?;
    let sector = rustix::fs::ioctl_blksszget(&descriptor)
        .map_err(|errno| OpenErrorReason::os("ask for the sector size", errno))?;
    if !(SECTOR_MIN..=SECTOR_MAX).contains(&sector) || !sector.is_power_of_two() {
        return Err(OpenErrorReason::Sector { sector });
    }
    let memory = direct_io_limits(&descriptor).map_or(sector, |limits| limits.memory);
    let alignment = direct.then_some(Alignment {
        memory,
        offset: sector,
    });
    let mut device = finish(spec, descriptor, true, alignment)?;
    device.geometry.sector = sector;
    Ok(device)
}

/// Opens for reading and writing; tells whether the page cache is bypassed.
fn open_descriptor(
    path: &Path,
    extra: OFlags,
    direct: bool,
) -> Result<(OwnedFd, bool), OpenErrorReason> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | extra;
    let mode = Mode::RUSR | Mode::WUSR;
    if direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
            Ok(descriptor) => return Ok((descriptor, true)),
            // How a file system says that it cannot.
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(refused("open the device", errno)),
        }
    }
    match rustix::fs::open(path, flags, mode) {
        Ok(descriptor) => Ok((descriptor, false)),
        Err(errno) => Err(refused("open the device", errno)),
    }
}

fn refused(action: &'static str, errno: Errno) -> OpenErrorReason {
    match errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => OpenErrorReason::Permission,
        Errno::NOENT | Errno::NXIO => OpenErrorReason::Missing,
        Errno::BUSY => OpenErrorReason::InUse { holder: None },
        Errno::ISDIR => OpenErrorReason::NotStorage,
        _ => OpenErrorReason::os(action, errno),
    }
}

fn size_of(descriptor: &OwnedFd) -> Result<u64, OpenErrorReason> {
    rustix::fs::seek(descriptor, SeekFrom::End(0))
        .map_err(|errno| OpenErrorReason::os("ask for the size", errno))
}

fn must_be_of_use(size: u64, minimum: u64) -> Result<(), OpenErrorReason> {
    if size < minimum {
        return Err(OpenErrorReason::TooSmall { size, minimum });
    }
    Ok(())
}

fn give_size(descriptor: &OwnedFd, file: FileSpec) -> Result<(), OpenErrorReason> {
    let allocated = if file.preallocate {
        rustix::fs::fallocate(descriptor, FallocateFlags::empty(), 0, file.size)
    } else {
        Err(Errno::OPNOTSUPP)
    };
    let grown = match allocated {
        Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(descriptor, file.size),
        other => other,
    };
    grown.map_err(|errno| match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::NOMEM => {
            OpenErrorReason::NoSpace { size: file.size }
        }
        _ => OpenErrorReason::os("size the file", errno),
    })?;
    rustix::fs::fsync(descriptor).map_err(|errno| OpenErrorReason::os("flush the file", errno))
}

/// Makes the file's name durable: a new file is lost in a power cut until its directory is synced.
fn sync_name(path: &Path) -> Result<(), OpenErrorReason> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            OpenErrorReason::os("flush the directory", errno)
        })
}

/// What the kernel tells of direct I/O on this descriptor, if it tells (since Linux 6.1).
fn direct_io_limits(descriptor: &OwnedFd) -> Option<Alignment> {
    let status: Statx =
        rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN);
    told.then_some(Alignment {
        memory: status.stx_dio_mem_align,
        offset: status.stx_dio_offset_align,
    })
}

/// How to do direct I/O on a file that was opened for it; `None` if that does not work after all.
fn file_alignment(descriptor: &OwnedFd) -> Option<Alignment> {
    usable(direct_io_limits(descriptor).unwrap_or(Alignment {
        memory: SECTOR_MAX,
        offset: SECTOR_MAX,
    }))
}

/// Zero means that this file cannot do direct I/O (encryption, data journalling).
fn usable(limits: Alignment) -> Option<Alignment> {
    let fits = |value: u32| value.is_power_of_two() && value <= SECTOR_MAX;
    (fits(limits.memory) && fits(limits.offset)).then(|| Alignment {
        memory: limits.memory,
        offset: limits.offset.max(SECTOR_MIN),
    })
}

fn finish(
    spec: &DeviceSpec,
    descriptor: OwnedFd,
    block_device: bool,
    alignment: Option<Alignment>,
) -> Result<Device, OpenErrorReason> {
    if alignment.is_none() {
        // A descriptor opened for direct I/O that cannot do it would fail every operation.
        let flags = rustix::fs::fcntl_getfl(&descriptor)
            .map_err(|errno| OpenErrorReason::os("ask for the flags", errno))?;
        rustix::fs::fcntl_setfl(&descriptor, flags - OFlags::DIRECT)
            .map_err(|errno| OpenErrorReason::os("set the flags", errno))?;
    }
    let sector = alignment.map_or(SECTOR_MIN, |alignment| alignment.offset);
    let size = size_of(&descriptor)? / u64::from(sector) * u64::from(sector);
    must_be_of_use(size, spec.size_min.max(u64::from(sector)))?;
    let geometry = Geometry {
        size,
        sector,
        block_device,
        direct: alignment.is_some(),
    };
    Ok(Device {
        identity: Identity::of(&descriptor),
        descriptor,
        geometry,
        memory_alignment: alignment.map_or(1, |alignment| alignment.memory as usize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_direct_io_are_taken_only_if_they_can_be_met() {
        let limits = |memory, offset| usable(Alignment { memory, offset });
        assert_eq!(limits(0, 0), None);
        assert_eq!(limits(4, 8192), None);
        assert_eq!(limits(3, 512), None);
        let small = limits(4, 1).expect("any offset will do");
        assert_eq!((small.memory, small.offset), (4, SECTOR_MIN));
        assert!(limits(4096, 4096).is_some());
    }

    #[test]
    fn errors_are_told_apart() {
        assert_eq!(refused("", Errno::ACCESS), OpenErrorReason::Permission);
        let in_use = OpenErrorReason::InUse { holder: None };
        assert_eq!(refused("", Errno::BUSY), in_use);
        assert!(matches!(
            refused("open", Errno::IO),
            OpenErrorReason::Os { action: "open", .. }
        ));
    }
}
