//! What a machine asks of a disk, and what it is told.
//!
//! The assumptions about the medium are those of `docs/data-format.md`: a sector is written whole
//! or not at all, an unsynced write may be lost or not, any block may rot.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

/// One of the node's devices, by its place in the node's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u16);

/// Names a request in its completion; drawn by whoever asks, never reused while in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskToken(pub u64);

/// An operation on one disk. Offsets and lengths are multiples of 4 KiB unless the device's sector
/// is 512 bytes, and then of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Reads `length` bytes from `offset`.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes, more than zero.
        length: u32,
    },
    /// Writes the parts, one after the other, from `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// What to write; the sum of the lengths is more than zero.
        parts: Vec<Bytes>,
        /// Completes only when this write is on stable storage. Says nothing of other writes.
        durable: bool,
    },
    /// Completes when every write that had completed before this was asked is on stable storage.
    Flush,
    /// Tells the device that the bytes are no longer needed. What they read as is undefined; a
    /// device that cannot do it does nothing.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes, more than zero.
        length: u64,
    },
}

impl DiskOp {
    /// The bytes that it is about: where they begin, and how many there are. None for a flush, which is about all.
    #[must_use]
    pub fn extent(&self) -> Option<(u64, u64)> {
        match self {
            Self::Read { offset, length } => Some((*offset, u64::from(*length))),
            Self::Write { offset, parts, .. } => {
                let length = parts.iter().map(|part| part.len() as u64).sum();
                Some((*offset, length))
            }
            Self::Discard { offset, length } => Some((*offset, *length)),
            Self::Flush => None,
        }
    }
}

/// A request: operations in flight at the same time have no order among themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Comes back in the completion.
    pub token: DiskToken,
    /// Which disk.
    pub disk: DiskId,
    /// What to do.
    pub op: DiskOp,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The operating system reported this error number.
    #[error("the device reports error {0}")]
    Os(i32),
    /// Fewer bytes than asked were there to read or to write.
    #[error("the device ended before the operation did")]
    Short,
}

/// The end of a request. `Ok` holds what was read; it is empty for the other operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCompletion {
    /// The request's token.
    pub token: DiskToken,
    /// What happened. A failed write or flush leaves the medium in an unknown state, and is never
    /// tried again: the device is out.
    pub result: Result<Bytes, DiskError>,
}
