//! Where a copy stands, and how it fails.

use holdfast_model::VolumeId;

use super::Copy;
use crate::{AdditionalSense, MediumOperation, Response, Sense, SenseKey};

/// Where a copy stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It is answered.
    Done(CopyReport, Response),
    /// This has to be done on that volume; the copy takes what comes of it.
    Medium(VolumeId, MediumOperation, Copy),
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
