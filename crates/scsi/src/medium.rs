//! What a unit asks of the medium beneath it, and what becomes of its errors: they turn into sense
//! data here and nowhere else.
//!
//! Invariants:
//! - every range that is asked for is not empty and lies in the unit.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use crate::{AdditionalSense, ByteRange, Geometry, Response, Sense, SenseKey, Status};

/// One thing to be done on the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediumOperation {
    /// Return these bytes.
    Read {
        /// Which.
        range: ByteRange,
        /// From the medium itself, not from what is on its way there. (What a unit acknowledges is
        /// on stable storage in any case.)
        force_unit_access: bool,
    },
    /// Make this the content, on stable storage.
    Write {
        /// The first byte's place.
        offset: u64,
        /// The content, in order; not empty.
        data: Vec<Bytes>,
        /// FUA was asked for.
        force_unit_access: bool,
    },
    /// Make `data` the content, on stable storage, in one step: whoever reads, and whatever fails,
    /// finds all of it or none. It crosses no multiple of
    /// [`ATOMIC_BYTES_MAX`](crate::limits::ATOMIC_BYTES_MAX).
    WriteAtomic {
        /// The first byte's place.
        offset: u64,
        /// The content, in order; not empty.
        data: Vec<Bytes>,
    },
    /// Make `data` the content, on stable storage, if the content is `expected`, and return
    /// [`MediumError::Miscompare`] otherwise: in one step, before or after whatever else is asked
    /// of these bytes through any port. They lie in one slice.
    CompareAndWrite {
        /// The first byte's place.
        offset: u64,
        /// What is to be there; not empty.
        expected: Bytes,
        /// As many bytes.
        data: Bytes,
    },
    /// Set the bits that are set in `data`, on stable storage. No bit that is set meanwhile by
    /// another such operation is lost.
    Or {
        /// The first byte's place.
        offset: u64,
        /// The bits, in order; not empty.
        data: Vec<Bytes>,
    },
    /// Check that these bytes can be read.
    Verify {
        /// Which.
        range: ByteRange,
    },
    /// Make these bytes zeros and give back what space can be given back, in any order.
    Clear {
        /// Which.
        ranges: Vec<ByteRange>,
    },
    /// Make the content this pattern over and over.
    Fill {
        /// Where: a whole number of patterns.
        range: ByteRange,
        /// One logical block, not all zeros.
        pattern: Bytes,
    },
    /// Have everything written to these bytes before on stable storage.
    SynchronizeCache {
        /// Which.
        range: ByteRange,
    },
    /// Say which bytes take space, from `offset` on, until the unit ends or that many extents.
    BlockStatus {
        /// Where to begin.
        offset: u64,
        /// At most so many extents, at least one.
        extent_count_max: u32,
    },
}

/// What a [`MediumOperation`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediumData {
    /// Nothing, as all but the following.
    None,
    /// All the bytes of a [`MediumOperation::Read`], in order.
    Bytes(Vec<Bytes>),
    /// Of a [`MediumOperation::BlockStatus`]: consecutive extents from its offset, at least one.
    Extents(Vec<Extent>),
}

/// Consecutive bytes that all take space, or all do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many, a positive multiple of the logical block length.
    pub length: u64,
    /// They take space (are *mapped*).
    pub mapped: bool,
}

/// Why a [`MediumOperation`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumError {
    /// The unit cannot be served now, but will be by itself.
    NotReady,
    /// The data at that byte is lost: no good copy is left.
    Lost {
        /// The first byte's place.
        offset: u64,
    },
    /// A [`MediumOperation::CompareAndWrite`] found something else, and has written nothing.
    Miscompare {
        /// Bytes before the first that differs, counted from the operation's.
        position: u64,
    },
    /// The data cannot be written.
    Write,
    /// No space is left for what is not yet allocated.
    NoSpace,
    /// Too much is to be done; nothing of this was.
    Busy,
    /// It was given up, and may have been done or not.
    Aborted,
    /// Something that should not be.
    Internal,
}

impl MediumError {
    /// How the command that met it ends.
    pub(crate) fn response(self, geometry: Geometry) -> Response {
        let (key, additional) = match self {
            Self::Busy => return Response::bare(Status::Busy),
            Self::NotReady => (
                SenseKey::NotReady,
                AdditionalSense::LOGICAL_UNIT_NOT_READY_BECOMING_READY,
            ),
            Self::Lost { .. } => (
                SenseKey::MediumError,
                AdditionalSense::UNRECOVERED_READ_ERROR,
            ),
            Self::Miscompare { .. } => (
                SenseKey::Miscompare,
                AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION,
            ),
            Self::Write => (SenseKey::MediumError, AdditionalSense::WRITE_ERROR),
            // SBC-3, Thin provisioned logical units: the condition that hosts know for a full pool.
            Self::NoSpace => (
                SenseKey::DataProtect,
                AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
            ),
            Self::Aborted => (SenseKey::AbortedCommand, AdditionalSense::NONE),
            Self::Internal => (
                SenseKey::HardwareError,
                AdditionalSense::INTERNAL_TARGET_FAILURE,
            ),
        };
        let mut sense = Sense::new(key, additional);
        match self {
            // SBC-3, Sense data: the address of the block with the unrecovered error.
            Self::Lost { offset } => sense = sense.with_information(geometry.block_at(offset)),
            // SBC-3, COMPARE AND WRITE: where in the Data-Out the first byte is that differs.
            Self::Miscompare { position } => sense = sense.with_information(position),
            _ => {}
        }
        Response::check_condition(sense)
    }
}
