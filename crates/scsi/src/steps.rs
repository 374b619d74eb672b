//! The steps of a command on the medium.
//!
//! A command that needs the medium becomes one [`MediumOperation`] or several, one after the other:
//! long ones are done in steps, so that none holds the medium for long.
//!
//! Invariants:
//! - a command is answered once, with GOOD only if every operation of it succeeded;
//! - what waits between two steps is bounded by the command's own data.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use crate::data::{self, Mismatch};
use crate::limits::{CLEAR_STEP_BYTES, FILL_STEP_BYTES};
use crate::{
    AdditionalSense, ByteRange, Geometry, MediumData, MediumError, MediumOperation, Response,
    Sense, SenseKey, lba_status,
};

/// Where a command stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is answered.
    Done(Response),
    /// This has to be done; the continuation takes what comes of it.
    Medium(MediumOperation, Continuation),
}

/// A command that waits for the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    geometry: Geometry,
    /// Bytes of Data-Out that the command wants, for its answer.
    data_out_length: u64,
    next: Next,
}

/// What is to be done when the operation under way has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Answer GOOD.
    Answer,
    /// Return what was read.
    ReturnData { length: u64 },
    /// Compare what was read with the Data-Out.
    Compare {
        range: ByteRange,
        expected: Vec<Bytes>,
    },
    /// Check what was just written.
    CheckWritten { range: ByteRange },
    /// Read what was just written, and compare.
    ReadWritten {
        range: ByteRange,
        expected: Vec<Bytes>,
    },
    /// Clear the rest.
    Clear { rest: VecDeque<ByteRange> },
    /// Fill the rest.
    Fill { rest: ByteRange, pattern: Bytes },
    /// Describe the extents.
    LbaStatus { offset: u64, allocation_length: u32 },
}

impl Continuation {
    /// Goes on with the command, now that its operation ended as `result` says.
    ///
    /// Panics if the result is not of the operation's kind.
    #[must_use]
    pub fn complete(self, result: Result<MediumData, MediumError>) -> Outcome {
        let steps = Steps {
            geometry: self.geometry,
            data_out_length: self.data_out_length,
        };
        let data = match result {
            Ok(data) => data,
            Err(error) => {
                let response = error.response(self.geometry);
                return Outcome::Done(response.moved(self.data_out_length));
            }
        };
        match (self.next, data) {
            (Next::Answer, MediumData::None) => steps.good(),
            (Next::ReturnData { length }, MediumData::Bytes(bytes)) => {
                assert_eq!(
                    data::length(&bytes),
                    length,
                    "a read returns what was asked"
                );
                Outcome::Done(Response::good_in(bytes))
            }
            (Next::Compare { range, expected }, MediumData::Bytes(bytes)) => {
                assert_eq!(
                    data::length(&bytes),
                    range.length,
                    "a read returns what was asked"
                );
                steps.compared(range, data::compare(&bytes, &expected))
            }
            (Next::CheckWritten { range }, MediumData::None) => {
                steps.with(MediumOperation::Verify { range }, Next::Answer)
            }
            (Next::ReadWritten { range, expected }, MediumData::None) => {
                steps.compare(range, expected)
            }
            (Next::Clear { rest }, MediumData::None) => steps.clear(rest),
            (Next::Fill { rest, pattern }, MediumData::None) => steps.fill(rest, pattern),
            (
                Next::LbaStatus {
                    offset,
                    allocation_length,
                },
                MediumData::Extents(extents),
            ) => Outcome::Done(lba_status::response(
                self.geometry,
                offset,
                &extents,
                allocation_length,
            )),
            (next, data) => panic!("{data:?} is no answer for {next:?}"),
        }
    }
}

/// Makes the steps of one command.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    pub(crate) geometry: Geometry,
    /// Bytes of Data-Out that the command wants.
    pub(crate) data_out_length: u64,
}

impl Steps {
    pub(crate) fn good(self) -> Outcome {
        Outcome::Done(Response::good_out(self.data_out_length))
    }

    pub(crate) fn refuse(self, sense: Sense) -> Outcome {
        Outcome::Done(Response::check_condition(sense).moved(self.data_out_length))
    }

    fn with(self, operation: MediumOperation, next: Next) -> Outcome {
        let continuation = Continuation {
            geometry: self.geometry,
            data_out_length: self.data_out_length,
            next,
        };
        Outcome::Medium(operation, continuation)
    }

    pub(crate) fn read(self, range: ByteRange, force_unit_access: bool) -> Outcome {
        let operation = MediumOperation::Read {
            range,
            force_unit_access,
        };
        let length = range.length;
        self.with(operation, Next::ReturnData { length })
    }

    pub(crate) fn verify(self, range: ByteRange) -> Outcome {
        self.with(MediumOperation::Verify { range }, Next::Answer)
    }

    /// Compares the medium with `expected`, or with `expected` over and over.
    pub(crate) fn compare(self, range: ByteRange, expected: Vec<Bytes>) -> Outcome {
        let operation = MediumOperation::Read {
            range,
            force_unit_access: true,
        };
        self.with(operation, Next::Compare { range, expected })
    }

    fn compared(self, range: ByteRange, result: Result<(), Mismatch>) -> Outcome {
        let Err(mismatch) = result else {
            return self.good();
        };
        let sense = Sense::new(
            SenseKey::Miscompare,
            AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION,
        );
        // SBC-3, Sense data: the address of the block concerned.
        let block = self.geometry.block_at(range.offset + mismatch.offset);
        self.refuse(sense.with_information(block))
    }

    pub(crate) fn write(self, offset: u64, data: Vec<Bytes>, force_unit_access: bool) -> Outcome {
        self.with(
            MediumOperation::Write {
                offset,
                data,
                force_unit_access,
            },
            Next::Answer,
        )
    }

    pub(crate) fn write_and_check(self, offset: u64, data: Vec<Bytes>, compare: bool) -> Outcome {
        let range = ByteRange {
            offset,
            length: data::length(&data),
        };
        let next = if compare {
            let expected = data.clone();
            Next::ReadWritten { range, expected }
        } else {
            Next::CheckWritten { range }
        };
        let operation = MediumOperation::Write {
            offset,
            data,
            force_unit_access: true,
        };
        self.with(operation, next)
    }

    pub(crate) fn synchronize_cache(self, range: ByteRange) -> Outcome {
        self.with(MediumOperation::SynchronizeCache { range }, Next::Answer)
    }

    /// Clears as much as one step takes, then the rest.
    pub(crate) fn clear(self, mut rest: VecDeque<ByteRange>) -> Outcome {
        let mut ranges = Vec::new();
        let mut room = CLEAR_STEP_BYTES;
        while room > 0 {
            let Some(range) = rest.pop_front() else {
                break;
            };
            let (now, later) = split(range, room);
            room -= now.length;
            ranges.push(now);
            if later.length > 0 {
                rest.push_front(later);
            }
        }
        if ranges.is_empty() {
            return self.good();
        }
        let next = match rest.is_empty() {
            true => Next::Answer,
            false => Next::Clear { rest },
        };
        self.with(MediumOperation::Clear { ranges }, next)
    }

    /// Fills as much as one step takes, then the rest.
    pub(crate) fn fill(self, range: ByteRange, pattern: Bytes) -> Outcome {
        let (now, rest) = split(range, FILL_STEP_BYTES);
        let next = match rest.length {
            0 => Next::Answer,
            _ => Next::Fill {
                rest,
                pattern: pattern.clone(),
            },
        };
        let operation = MediumOperation::Fill {
            range: now,
            pattern,
        };
        self.with(operation, next)
    }

    pub(crate) fn lba_status(self, offset: u64, allocation_length: u32) -> Outcome {
        let operation = MediumOperation::BlockStatus {
            offset,
            extent_count_max: lba_status::descriptor_count_max(allocation_length),
        };
        let next = Next::LbaStatus {
            offset,
            allocation_length,
        };
        self.with(operation, next)
    }
}

/// The first `length` bytes of a range, and what is left of it.
fn split(range: ByteRange, length: u64) -> (ByteRange, ByteRange) {
    let length = length.min(range.length);
    let first = ByteRange { length, ..range };
    let rest = ByteRange {
        offset: range.offset + length,
        length: range.length - length,
    };
    (first, rest)
}
