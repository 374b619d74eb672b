//! What a unit remembers of a nexus' copies, and the answers to RECEIVE COPY RESULTS (SPC-4: RECEIVE COPY STATUS, RECEIVE
//! COPY OPERATING PARAMETERS and RECEIVE COPY FAILURE DETAILS, each for LID1).
//!
//! Invariants:
//! - there is one copy of a list identifier, the last;
//! - so many are remembered; one that is under way is never forgotten for another.

use alloc::vec::Vec;

use super::{CopyReport, DESCRIPTOR_TYPES, page};
use crate::data_in;
use crate::limits::{
    COPIES_MAX, COPY_CSCDS_MAX, COPY_DESCRIPTORS_BYTES_MAX, COPY_RESULTS_MAX,
    COPY_SEGMENT_BYTES_MAX, COPY_SEGMENTS_MAX,
};
use crate::{Response, Sense, Status};

/// SERVICE ACTION of RECEIVE COPY RESULTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsWanted {
    /// COPY STATUS: how far a copy is.
    Status,
    /// OPERATING PARAMETERS: what copies there may be.
    Parameters,
    /// FAILED SEGMENT DETAILS: why a copy failed.
    Failure,
}

/// What is remembered of the copies of one nexus, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyResults {
    copies: Vec<Remembered>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Remembered {
    report: CopyReport,
    end: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    status: Status,
    sense: Option<Sense>,
    /// COPY STATUS has told of it: that is done once (SPC-4, RECEIVE COPY STATUS (LID1)).
    told: bool,
}

impl CopyResults {
    pub(crate) const fn new() -> Self {
        Self { copies: Vec::new() }
    }

    /// Whether a copy of that list identifier is under way.
    pub(crate) fn is_under_way(&self, identifier: u8) -> bool {
        self.find(identifier).is_some_and(|copy| copy.end.is_none())
    }

    /// How far a copy is; the first time, that it has begun.
    pub(crate) fn note(&mut self, report: CopyReport) {
        let Some(identifier) = report.identifier else {
            return;
        };
        if let Some(copy) = self.find_mut(identifier).filter(|copy| copy.end.is_none()) {
            copy.report = report;
            return;
        }
        self.forget(identifier);
        if self.copies.len() >= COPY_RESULTS_MAX {
            let Some(oldest) = self.copies.iter().position(|copy| copy.end.is_some()) else {
                return;
            };
            self.copies.remove(oldest);
        }
        self.copies.push(Remembered { report, end: None });
    }

    /// A copy has ended so far, and so. It is not known any more if the unit was reset meanwhile.
    pub(crate) fn end(&mut self, report: CopyReport, status: Status, sense: Option<Sense>) {
        let copy = report.identifier.and_then(|it| self.find_mut(it));
        if let Some(copy) = copy.filter(|copy| copy.end.is_none()) {
            copy.report = report;
            copy.end = Some(End {
                status,
                sense,
                told: false,
            });
        }
    }

    fn find(&self, identifier: u8) -> Option<&Remembered> {
        let mut copies = self.copies.iter();
        copies.find(|copy| copy.report.identifier == Some(identifier))
    }

    fn find_mut(&mut self, identifier: u8) -> Option<&mut Remembered> {
        let mut copies = self.copies.iter_mut();
        copies.find(|copy| copy.report.identifier == Some(identifier))
    }

    fn forget(&mut self, identifier: u8) {
        self.copies
            .retain(|copy| copy.report.identifier != Some(identifier));
    }

    fn status(&mut self, identifier: u8) -> Result<Vec<u8>, Sense> {
        let Some(copy) = self.find_mut(identifier) else {
            return Err(UNKNOWN_IDENTIFIER);
        };
        let manager_status = match &mut copy.end {
            None => IN_PROGRESS,
            Some(end) if end.told => return Err(UNKNOWN_IDENTIFIER),
            Some(end) => {
                end.told = true;
                match end.status {
                    Status::Good => COMPLETED,
                    _ => FAILED,
                }
            }
        };
        // AVAILABLE DATA counts what follows it.
        let mut data = alloc::vec![0, 0, 0, 8, manager_status];
        data.extend(copy.report.segments.to_be_bytes());
        let (units, count) = in_units(copy.report.bytes);
        data.push(units);
        data.extend(count.to_be_bytes());
        // Nothing else is known of a copy that was done.
        let is_over = copy
            .end
            .as_ref()
            .is_some_and(|end| end.status == Status::Good);
        if is_over {
            self.forget(identifier);
        }
        Ok(data)
    }

    /// Discards the details if they are told whole, or if none are wanted.
    fn failure(&mut self, identifier: u8, allocation_length: u32) -> Result<Vec<u8>, Sense> {
        if self.is_under_way(identifier) {
            return Err(UNKNOWN_IDENTIFIER);
        }
        let end = self.find(identifier).and_then(|copy| copy.end.as_ref());
        let Some(end) = end.filter(|end| end.status != Status::Good) else {
            // No details are available.
            return Ok(alloc::vec![0; 4]);
        };
        let sense = end.sense.map(|sense| sense.encode_fixed());
        let sense = sense.as_ref().map_or(&[][..], |sense| sense);
        let mut data = alloc::vec![0; FAILURE_HEADER_BYTES];
        data[56] = end.status.code();
        data[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
        data.extend(sense);
        let available = (data.len() - 4) as u32;
        data[..4].copy_from_slice(&available.to_be_bytes());
        if allocation_length == 0 || allocation_length as usize >= data.len() {
            self.forget(identifier);
        }
        Ok(data)
    }
}

/// How RECEIVE COPY RESULTS is refused for a list identifier of which nothing is known, or not that.
const UNKNOWN_IDENTIFIER: Sense = Sense::invalid_cdb_field(2, None);

/// COPY MANAGER STATUS, without HDD: there never were data to be held.
const IN_PROGRESS: u8 = 0x00;
const COMPLETED: u8 = 0x01;
const FAILED: u8 = 0x02;

/// Bytes before the sense data of FAILED SEGMENT DETAILS.
const FAILURE_HEADER_BYTES: usize = 60;

/// TRANSFER COUNT UNITS, a power of 1,024, and TRANSFER COUNT in them.
fn in_units(bytes: u64) -> (u8, u32) {
    let (mut units, mut count) = (0, bytes);
    while u32::try_from(count).is_err() {
        (units, count) = (units + 1, count >> 10);
    }
    (units, count as u32)
}

/// Answers RECEIVE COPY RESULTS.
pub(crate) fn respond(
    results: &mut CopyResults,
    wanted: ResultsWanted,
    identifier: u8,
    allocation_length: u32,
) -> Result<Response, Sense> {
    let data = match wanted {
        ResultsWanted::Status => results.status(identifier)?,
        ResultsWanted::Parameters => parameters(),
        ResultsWanted::Failure => results.failure(identifier, allocation_length)?,
    };
    Ok(data_in::respond(&data, allocation_length))
}

fn parameters() -> Vec<u8> {
    let mut data = alloc::vec![0; 4];
    data.extend([0x01, 0, 0, 0]); // SNLID: a list may have no identifier.
    data.extend((COPY_CSCDS_MAX as u16).to_be_bytes());
    data.extend((COPY_SEGMENTS_MAX as u16).to_be_bytes());
    data.extend((COPY_DESCRIPTORS_BYTES_MAX as u32).to_be_bytes());
    data.extend((COPY_SEGMENT_BYTES_MAX as u32).to_be_bytes());
    // MAXIMUM INLINE DATA LENGTH, HELD DATA LIMIT, MAXIMUM STREAM DEVICE TRANSFER SIZE: none.
    data.extend([0; 12]);
    data.extend([0; 2]);
    data.extend((COPIES_MAX as u16).to_be_bytes()); // TOTAL CONCURRENT COPIES.
    data.push(COPIES_MAX as u8); // MAXIMUM CONCURRENT COPIES.
    data.push(page::segment_granularity());
    data.extend([0; 2]); // Of inline and held data.
    data.extend([0; 3]);
    data.push(DESCRIPTOR_TYPES.len() as u8);
    data.extend(DESCRIPTOR_TYPES);
    let available = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&available.to_be_bytes());
    data
}
