//! Where a copy stands, and how it fails.

use holdfast_model::VolumeId;

use super::Copy;
use crate::{AdditionalSense, Response, Sense, SenseKey};

/// Where a copy stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It is answered.
    Done(CopyReport, Response),
    /// This has to be done; the copy takes what comes of it.
    Step(CopyStep, Copy),
}

/// Bytes that are to be read, and written elsewhere. Where the two ranges overlap, neither crosses a multiple of
/// [`ATOMIC_BYTES_MAX`](crate::limits::ATOMIC_BYTES_MAX): all of it can be read before any of it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStep {
    /// The volume that is read.
    pub source: VolumeId,
    /// Which of its bytes.
    pub from: u64,
    /// The volume that is written.
    pub destination: VolumeId,
    /// Which of its bytes.
    pub to: u64,
    /// How many; not none.
    pub length: u64,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// LIST IDENTIFIER; none if nobody is to ask about the copy.
    pub identifier: Option<u8>,
    /// Segments that are done.
    pub segments: u16,
    /// Bytes that are written.
    pub bytes: u64,
}

/// COPY ABORTED, while a segment was under way (SPC-4 6.4, Errors detected during processing of segment
/// descriptors).
pub(super) const fn aborted(additional: AdditionalSense, segment: u16) -> Sense {
    Sense::new(SenseKey::CopyAborted, additional).of_segment(segment)
}
