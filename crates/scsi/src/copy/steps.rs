//! The steps of a copy, segment after segment.
//!
//! Whoever carries a step out may do it in several parts, in any order, each of which reads all that it writes before it writes
//! any of it: those that multiples of [`ATOMIC_BYTES_MAX`] cut, in either range.
//!
//! Invariants:
//! - where a segment's ranges overlap, nothing is read that the segment has written: steps go from the end that allows it, and
//!   one whose own ranges overlap is one part;
//! - what is told as written was answered as written.

use alloc::vec::Vec;

use holdfast_model::VolumeId;

use super::outcome::aborted;
use super::{CopyOutcome, CopyReport, CopyStep, Reachable};
use crate::geometry::{ByteRange, Geometry};
use crate::limits::{ATOMIC_BYTES_MAX, COPY_STEP_BYTES};
use crate::reservation::Need;
use crate::{AdditionalSense, MediumError, Response, Sense, Status};

/// A copy that has begun, and waits for the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    identifier: Option<u8>,
    /// Bytes of Data-Out that the command wanted, for its answer.
    data_out_length: u64,
    segments: Vec<Segment>,
    /// The segment under way.
    current: usize,
    /// Bytes of it that are done.
    done: u64,
    /// Bytes that were written for all of them.
    written: u64,
    /// What the step under way copies.
    step: Step,
}

/// Bytes that are to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) source: Place,
    pub(super) destination: Place,
    pub(super) length: u64,
    /// It was asked for in bytes, not in blocks.
    pub(super) is_of_bytes: bool,
}

/// One end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    volume: VolumeId,
    geometry: Geometry,
    offset: u64,
}

/// Bytes of the segment, from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    from: u64,
    length: u64,
}

impl Place {
    pub(super) const fn new(unit: Reachable<'_>, range: ByteRange) -> Self {
        Self {
            volume: unit.volume,
            geometry: unit.geometry,
            offset: range.offset,
        }
    }
}

impl Segment {
    /// Its end has to be copied first, for its front would be written over it.
    fn goes_backwards(&self) -> bool {
        let (source, destination) = (&self.source, &self.destination);
        source.volume == destination.volume
            && source.offset < destination.offset
            && destination.offset - source.offset < self.length
    }

    /// What is next when so much is done. Steps end where steps of the destination do; and where what is done in one part does,
    /// if the ranges of one could overlap.
    fn step(&self, done: u64) -> Step {
        let left = self.length - done;
        let (source, start) = (self.source.offset, self.destination.offset);
        let may_overlap = self.source.volume == self.destination.volume
            && source.abs_diff(start) < COPY_STEP_BYTES;
        let borders = match may_overlap {
            true => [(start, ATOMIC_BYTES_MAX), (source, ATOMIC_BYTES_MAX)],
            false => [(start, COPY_STEP_BYTES); 2],
        };
        if self.goes_backwards() {
            let fits = borders.map(|(start, every)| (start + left - 1) % every + 1);
            let length = fits[0].min(fits[1]).min(left);
            let from = left - length;
            return Step { from, length };
        }
        let fits = borders.map(|(start, every)| every - (start + done) % every);
        let length = fits[0].min(fits[1]).min(left);
        Step { from: done, length }
    }

    /// What is not done, in the units in which SPC-4 6.4 counts it. Of a segment that goes backwards nothing is said to be
    /// done: who would go on behind that would miss its front.
    fn residue(&self, done: u64) -> u64 {
        let done = if self.goes_backwards() { 0 } else { done };
        match self.is_of_bytes {
            true => self.length - done,
            false => (self.length - done) / self.destination.geometry.block_length().bytes(),
        }
    }
}

impl Copy {
    pub(super) const fn new(
        identifier: Option<u8>,
        segments: Vec<Segment>,
        data_out_length: u64,
    ) -> Self {
        Self {
            identifier,
            data_out_length,
            segments,
            current: 0,
            done: 0,
            written: 0,
            step: Step { from: 0, length: 0 },
        }
    }

    /// How far it is.
    #[must_use]
    pub const fn report(&self) -> CopyReport {
        CopyReport {
            identifier: self.identifier,
            segments: self.current as u16,
            bytes: self.written,
        }
    }

    /// What has to be permitted of a volume: nothing if it is none of the copy's.
    #[must_use]
    pub fn need_of(&self, volume: VolumeId) -> Need {
        let is_one = |place: fn(&Segment) -> &Place| {
            let mut segments = self.segments.iter();
            segments.any(|segment| place(segment).volume == volume)
        };
        if is_one(|segment| &segment.destination) {
            Need::Write
        } else if is_one(|segment| &segment.source) {
            Need::Read
        } else {
            Need::Nothing
        }
    }

    /// The volumes that the segment under way reads, and writes.
    #[must_use]
    pub fn volumes(&self) -> [VolumeId; 2] {
        let Segment {
            source,
            destination,
            ..
        } = self.segment();
        [source.volume, destination.volume]
    }

    /// Goes on with the copy, now that its step ended as `result` says.
    #[must_use]
    pub fn complete(mut self, result: Result<(), MediumError>) -> CopyOutcome {
        match result {
            Ok(()) => {
                self.done += self.step.length;
                self.written += self.step.length;
                self.step()
            }
            Err(error) => self.failed(error),
        }
    }

    /// Ends it: the segment under way may not be gone on with.
    #[must_use]
    pub fn refused(self) -> CopyOutcome {
        self.abort(AdditionalSense::THIRD_PARTY_DEVICE_FAILURE)
    }

    /// Ends it: a unit of the segment under way is not there any more, for who asked.
    #[must_use]
    pub fn unreachable(self) -> CopyOutcome {
        self.abort(AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE)
    }

    /// Ends it before anything was done: there are too many copies.
    #[must_use]
    pub fn busy(self) -> CopyOutcome {
        assert_eq!(self.written, 0, "it has not begun");
        self.failed(MediumError::Busy)
    }

    /// Copies what is next.
    pub(super) fn step(mut self) -> CopyOutcome {
        while let Some(segment) = self.segments.get(self.current) {
            if self.done < segment.length {
                self.step = segment.step(self.done);
                let Step { from, length } = self.step;
                let step = CopyStep {
                    source: segment.source.volume,
                    from: segment.source.offset + from,
                    destination: segment.destination.volume,
                    to: segment.destination.offset + from,
                    length,
                };
                return CopyOutcome::Step(step, self);
            }
            self.current += 1;
            self.done = 0;
        }
        let response = Response::good_out(self.data_out_length);
        CopyOutcome::Done(self.report(), response)
    }

    fn segment(&self) -> &Segment {
        let segment = self.segments.get(self.current);
        segment.expect("a copy that waits has a segment under way")
    }

    /// A copy that has written nothing and only came at the wrong moment ends as a command of its units would, so that it
    /// is repeated; else the host has to know that it was not done, or in part (SPC-4 6.4).
    fn failed(self, error: MediumError) -> CopyOutcome {
        let passes = matches!(error, MediumError::Busy | MediumError::NotReady);
        if passes && self.written == 0 {
            let response = error.response(self.segment().destination.geometry);
            let response = response.moved(self.data_out_length);
            return CopyOutcome::Done(self.report(), response);
        }
        self.abort(AdditionalSense::THIRD_PARTY_DEVICE_FAILURE)
    }

    fn abort(self, additional: AdditionalSense) -> CopyOutcome {
        let residue = self.segment().residue(self.done);
        let sense: Sense = aborted(additional, self.current as u16).with_information(residue);
        let response = Response::check_condition(sense).moved(self.data_out_length);
        assert_ne!(response.status, Status::Good, "it was not done");
        CopyOutcome::Done(self.report(), response)
    }
}
