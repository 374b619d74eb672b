//! The steps of a command on the medium.
//!
//! A command that needs the medium becomes one [`MediumOperation`] or several, one after the other:
//! long ones are done in steps, so that none holds the medium for long.
//!
//! Invariants:
//! - a command is answered once, with GOOD only if every operation of it succeeded;
//! - what waits between two steps is bounded by the command's own data.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;

use crate::alua::WantedStates;
use crate::data::{self, Mismatch};
use crate::limits::{COMPARE_STEP_BYTES, FILL_STEP_BYTES};
use crate::{
    AccessRequest, AdditionalSense, ByteRange, CopyList, Geometry, MediumData, MediumError,
    MediumOperation, Response, Sense, SenseKey, Status, lba_status,
};

/// Where a command stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is answered.
    Done(Response),
    /// This has to be done; the continuation takes what comes of it.
    Medium(MediumOperation, Continuation),
    /// It is about who may do what: it has to be decided on the newest record of that.
    Access(AccessRequest),
    /// It is a copy between units: whoever serves them begins it.
    Copy(CopyList),
    /// Target port groups are wanted in other states; whoever decides that answers.
    PortGroups(WantedStates),
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
    /// Return the `length` bytes that were read; the command by itself moves `transfer_length`.
    ReturnData { length: u64, transfer_length: u64 },
    /// Compare what was read with `expected`, then the rest.
    Compare {
        range: ByteRange,
        expected: Vec<Bytes>,
        rest: Comparison,
    },
    /// Check what was just written.
    CheckWritten { range: ByteRange },
    /// Read what was just written, and compare.
    ReadWritten { comparison: Comparison },
    /// Fill the rest.
    Fill { rest: ByteRange, pattern: Bytes },
    /// Describe the extents.
    LbaStatus { offset: u64, allocation_length: u32 },
}

/// What is still to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) range: ByteRange,
    /// As long as the range; or one block, for each of the range's.
    pub(crate) expected: Vec<Bytes>,
    pub(crate) repeats: bool,
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
            (
                Next::ReturnData {
                    length,
                    transfer_length,
                },
                MediumData::Bytes(bytes),
            ) => {
                assert_eq!(
                    data::length(&bytes),
                    length,
                    "a read returns what was asked"
                );
                Outcome::Done(Response::good_in(bytes).moved(transfer_length))
            }
            (
                Next::Compare {
                    range,
                    expected,
                    rest,
                },
                MediumData::Bytes(bytes),
            ) => {
                assert_eq!(
                    data::length(&bytes),
                    range.length,
                    "a read returns what was asked"
                );
                match data::compare(&bytes, &expected) {
                    Ok(()) => steps.compare(rest),
                    Err(mismatch) => steps.miscompare(range, mismatch),
                }
            }
            (Next::CheckWritten { range }, MediumData::None) => {
                steps.with(MediumOperation::Verify { range }, Next::Answer)
            }
            (Next::ReadWritten { comparison }, MediumData::None) => steps.compare(comparison),
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

    pub(crate) fn conflict(self) -> Outcome {
        let response = Response::bare(Status::ReservationConflict);
        Outcome::Done(response.moved(self.data_out_length))
    }

    fn with(self, operation: MediumOperation, next: Next) -> Outcome {
        let continuation = Continuation {
            geometry: self.geometry,
            data_out_length: self.data_out_length,
            next,
        };
        Outcome::Medium(operation, continuation)
    }

    /// Reads `range`, of which the initiator takes no more than `wanted` bytes.
    pub(crate) fn read(self, range: ByteRange, wanted: u64, force_unit_access: bool) -> Outcome {
        let block_bytes = self.geometry.block_length().bytes();
        let length = range.length.min(wanted).next_multiple_of(block_bytes);
        if length == 0 {
            return Outcome::Done(Response::good().moved(range.length));
        }
        let operation = MediumOperation::Read {
            range: ByteRange { length, ..range },
            force_unit_access,
        };
        let next = Next::ReturnData {
            length,
            transfer_length: range.length,
        };
        self.with(operation, next)
    }

    pub(crate) fn verify(self, range: ByteRange) -> Outcome {
        self.with(MediumOperation::Verify { range }, Next::Answer)
    }

    /// Compares as much as one step takes, then the rest.
    pub(crate) fn compare(self, mut comparison: Comparison) -> Outcome {
        let (range, rest) = split(comparison.range, COMPARE_STEP_BYTES);
        if range.length == 0 {
            return self.good();
        }
        comparison.range = rest;
        let expected = match comparison.repeats {
            true => comparison.expected.clone(),
            false => data::split_front(&mut comparison.expected, range.length),
        };
        let operation = MediumOperation::Read {
            range,
            force_unit_access: true,
        };
        let next = Next::Compare {
            range,
            expected,
            rest: comparison,
        };
        self.with(operation, next)
    }

    fn miscompare(self, range: ByteRange, mismatch: Mismatch) -> Outcome {
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
            let comparison = Comparison {
                range,
                expected: data.clone(),
                repeats: false,
            };
            Next::ReadWritten { comparison }
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

    pub(crate) fn write_atomic(self, offset: u64, data: Vec<Bytes>) -> Outcome {
        self.with(MediumOperation::WriteAtomic { offset, data }, Next::Answer)
    }

    /// The first half of the data is what is expected, the other what is written (SBC-3, COMPARE AND
    /// WRITE).
    pub(crate) fn compare_and_write(self, offset: u64, mut data: Vec<Bytes>) -> Outcome {
        let half = data::length(&data) / 2;
        let expected = data::join(data::split_front(&mut data, half));
        let data = data::join(data);
        assert_eq!(expected.len(), data.len(), "both are of the same blocks");
        let operation = MediumOperation::CompareAndWrite {
            offset,
            expected,
            data,
        };
        self.with(operation, Next::Answer)
    }

    pub(crate) fn or(self, offset: u64, data: Vec<Bytes>) -> Outcome {
        self.with(MediumOperation::Or { offset, data }, Next::Answer)
    }

    pub(crate) fn synchronize_cache(self, range: ByteRange) -> Outcome {
        self.with(MediumOperation::SynchronizeCache { range }, Next::Answer)
    }

    /// Clears all at once: it moves no data, and the stated limits keep it short.
    pub(crate) fn clear(self, ranges: Vec<ByteRange>) -> Outcome {
        if ranges.is_empty() {
            return self.good();
        }
        self.with(MediumOperation::Clear { ranges }, Next::Answer)
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
