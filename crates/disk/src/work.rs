//! A request made ready for the kernel, and its execution on the calling thread.
//!
//! Invariants:
//! - what reaches the kernel lies inside the device and is a multiple of its sector: no file grows
//!   by a stray write, and no read is told apart from the end of the device by an error number;
//! - a write is asked of the kernel once. What it did not take of it is an error, never tried again;
//! - the memory that the kernel reads or writes belongs to the [`Work`].

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;

use holdfast_model::{DiskCompletion, DiskError, DiskOp, DiskToken};
use holdfast_stdx::Bytes;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::buffer::{Buffer, Filled, Shelf, capacity_for};
use crate::device::Device;
use crate::usage::Tally;

/// The kernel moves at most 2 GiB less a page in one call; nothing of ours is near half of that.
const LENGTH_MAX: u64 = 1 << 30;
/// Parts that one call takes (`UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

/// An operation with the memory that it needs.
#[derive(Debug)]
pub(crate) enum Work {
    Read {
        offset: u64,
        length: usize,
        buffer: Buffer,
    },
    Write {
        offset: u64,
        length: usize,
        source: Source,
        durable: bool,
    },
    Flush,
    Discard {
        offset: u64,
        length: u64,
    },
}

/// What is written.
#[derive(Debug)]
pub(crate) enum Source {
    /// The asker's own memory, part by part.
    Parts(Vec<Bytes>),
    /// A copy in aligned memory, from its beginning.
    Copy(Buffer),
}

/// A work on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) token: DiskToken,
    pub(crate) device: Arc<Device>,
    pub(crate) work: Work,
    /// Bytes of ours that are bound until it ends.
    pub(crate) memory: usize,
    /// As what it is counted.
    pub(crate) tally: Tally,
}

/// A work that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) completion: DiskCompletion,
    /// Bytes of ours that are free again.
    pub(crate) memory: usize,
    /// As what it is counted.
    pub(crate) tally: Tally,
}

impl Job {
    pub(crate) fn finish(self, result: Result<(), DiskError>) -> Finished {
        let result = result.map(|()| self.work.into_bytes());
        Finished {
            completion: DiskCompletion {
                token: self.token,
                result,
            },
            memory: self.memory,
            tally: self.tally,
        }
    }
}

/// Whether the operation can be done on the device at all.
///
/// # Errors
/// `EINVAL` for an offset or a length that is not a multiple of the sector, or a length of zero or
/// beyond a gibibyte; [`DiskError::Short`] for what reaches beyond the device's end.
pub(crate) fn check(device: &Device, op: &DiskOp) -> Result<(), DiskError> {
    let Some((offset, length)) = op.extent() else {
        return Ok(());
    };
    let sector = u64::from(device.geometry.sector);
    let in_one_call = matches!(op, DiskOp::Discard { .. }) || length <= LENGTH_MAX;
    let aligned = offset.is_multiple_of(sector) && length.is_multiple_of(sector);
    if length == 0 || !aligned || !in_one_call {
        return Err(os_error(Errno::INVAL));
    }
    let inside = offset
        .checked_add(length)
        .is_some_and(|end| end <= device.geometry.size);
    if inside {
        Ok(())
    } else {
        Err(DiskError::Short)
    }
}

/// Bytes of ours that a checked operation binds while it runs.
pub(crate) fn memory_of(device: &Device, op: &DiskOp) -> usize {
    match op {
        DiskOp::Read { length, .. } => capacity_for(*length as usize),
        DiskOp::Write { parts, .. } if needs_copy(device, parts) => {
            capacity_for(total(parts) as usize)
        }
        DiskOp::Write { .. } | DiskOp::Flush | DiskOp::Discard { .. } => 0,
    }
}

/// Takes the memory for a checked operation, and copies what cannot go to the kernel as it is.
pub(crate) fn prepare(device: &Device, op: DiskOp, shelf: &Shelf) -> Work {
    match op {
        DiskOp::Read { offset, length } => {
            let length = length as usize;
            Work::Read {
                offset,
                length,
                buffer: shelf.take(length),
            }
        }
        DiskOp::Write {
            offset,
            parts,
            durable,
        } => {
            let length = total(&parts) as usize;
            let source = if needs_copy(device, &parts) {
                Source::Copy(gather(&parts, length, shelf))
            } else {
                Source::Parts(parts)
            };
            Work::Write {
                offset,
                length,
                source,
                durable,
            }
        }
        DiskOp::Flush => Work::Flush,
        DiskOp::Discard { offset, length } => Work::Discard { offset, length },
    }
}

fn total(parts: &[Bytes]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// Whether direct I/O would refuse the parts as they lie in memory.
fn needs_copy(device: &Device, parts: &[Bytes]) -> bool {
    let sector = device.geometry.sector as usize;
    let lies_well = |part: &Bytes| {
        (part.as_ptr() as usize).is_multiple_of(device.memory_alignment)
            && part.len().is_multiple_of(sector)
    };
    parts.len() > PARTS_MAX || (device.geometry.direct && !parts.iter().all(lies_well))
}

fn gather(parts: &[Bytes], length: usize, shelf: &Shelf) -> Buffer {
    let mut buffer = shelf.take(length);
    let mut rest = &mut buffer[..length];
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    assert!(rest.is_empty(), "the length is the sum of the parts");
    buffer
}

impl Work {
    /// What the asker gets of a work that went well.
    fn into_bytes(self) -> Bytes {
        match self {
            Work::Read { buffer, length, .. } => Bytes::from_owner(Filled { buffer, length }),
            Work::Write { .. } | Work::Flush | Work::Discard { .. } => Bytes::new(),
        }
    }
}

/// Does the work here and now.
pub(crate) fn execute(device: &Device, work: &mut Work) -> Result<(), DiskError> {
    match work {
        Work::Read {
            offset,
            length,
            buffer,
        } => read(device, *offset, &mut buffer[..*length]),
        Work::Write {
            offset,
            length,
            source,
            durable,
        } => {
            let slices: Vec<IoSlice<'_>> = match source {
                Source::Parts(parts) => parts.iter().map(|part| IoSlice::new(part)).collect(),
                Source::Copy(buffer) => vec![IoSlice::new(&buffer[..*length])],
            };
            let flags = if *durable {
                ReadWriteFlags::DSYNC
            } else {
                ReadWriteFlags::empty()
            };
            let written = retry(|| rustix::io::pwritev2(device, &slices, *offset, flags))?;
            written_fully(written, *length)
        }
        Work::Flush => retry(|| rustix::fs::fdatasync(device)),
        Work::Discard { offset, length } => {
            let discarded = if device.geometry.block_device {
                discard_device(device, *offset, *length)
            } else {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                retry(|| rustix::fs::fallocate(device, mode, *offset, *length))
            };
            ignore_unsupported(discarded)
        }
    }
}

/// A write that the kernel took only in part is an error: the device is full or failing.
pub(crate) fn written_fully(written: usize, length: usize) -> Result<(), DiskError> {
    assert!(
        written <= length,
        "the kernel takes no more than it is given"
    );
    if written == length {
        Ok(())
    } else {
        Err(DiskError::Short)
    }
}

/// A device that cannot discard does nothing.
pub(crate) fn ignore_unsupported(result: Result<(), DiskError>) -> Result<(), DiskError> {
    let unsupported = [Errno::OPNOTSUPP, Errno::NOSYS].map(|errno| Err(os_error(errno)));
    if unsupported.contains(&result) {
        Ok(())
    } else {
        result
    }
}

/// How much of a read there is after `count` more bytes came; an error if no more can come.
pub(crate) fn read_on(
    device: &Device,
    filled: usize,
    count: usize,
    length: usize,
) -> Result<usize, DiskError> {
    let filled = filled + count;
    assert!(filled <= length, "the kernel gives no more than was asked");
    // The device got shorter under us. A part of a sector is followed by nothing.
    let ended = count == 0 || !filled.is_multiple_of(device.geometry.sector as usize);
    if ended && filled < length {
        Err(DiskError::Short)
    } else {
        Ok(filled)
    }
}

fn read(device: &Device, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
    let mut filled = 0;
    while filled < target.len() {
        let rest = &mut target[filled..];
        let count = retry(|| rustix::io::pread(device, &mut *rest, offset + filled as u64))?;
        filled = read_on(device, filled, count, target.len())?;
    }
    Ok(())
}

/// Calls again what a signal cut short before it began.
fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, DiskError> {
    rustix::io::retry_on_intr(call).map_err(os_error)
}

fn os_error(errno: Errno) -> DiskError {
    DiskError::Os(errno.raw_os_error())
}

/// `BLKDISCARD` of linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);

#[allow(unsafe_code, reason = "an ioctl that no library wraps")]
fn discard_device(device: &Device, offset: u64, length: u64) -> Result<(), DiskError> {
    retry(|| {
        // SAFETY: BLKDISCARD reads two u64, start and length, from the pointer that it is given
        // (linux/fs.h, block/ioctl.c), and writes nothing to our memory.
        let discard =
            unsafe { rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new([offset, length]) };
        // SAFETY: the ioctl touches no memory but its argument, which lives through the call; on a
        // descriptor that is no block device the kernel refuses it.
        unsafe { rustix::ioctl::ioctl(device.as_fd(), discard) }
    })
}
