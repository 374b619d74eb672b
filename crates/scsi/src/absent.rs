//! What a target answers for a unit that it does not have (SPC-4, Incorrect logical unit numbers
//! for INQUIRY, REPORT LUNS and REQUEST SENSE).

use crate::cdb::{Cdb, Command};
use crate::geometry::{BlockLength, Geometry};
use crate::logical_unit::sense_data;
use crate::{AdditionalSense, Lun, Response, Sense, inquiry, report_luns};

/// Answers a command to a unit that is not there: INQUIRY, REPORT LUNS and REQUEST SENSE work, so
/// that the initiator finds out; all else ends with LOGICAL UNIT NOT SUPPORTED.
///
/// `luns` are the units of the target that the initiator may see.
#[must_use]
pub fn respond_absent(cdb: &[u8], luns: &[Lun]) -> Response {
    let absent = Sense::illegal_request(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED);
    // None of the three commands looks at the size.
    let geometry = Geometry::new(4096, BlockLength::Native4096);
    let cdb = Cdb::parse(cdb, geometry);
    let response = match cdb.command() {
        Ok(Command::Inquiry {
            page,
            allocation_length,
        }) => inquiry::respond_absent(page, allocation_length),
        Ok(Command::ReportLuns {
            select,
            allocation_length,
        }) => report_luns::respond(luns, select, allocation_length),
        Ok(Command::RequestSense {
            descriptor_format,
            allocation_length,
        }) => Ok(sense_data(absent, descriptor_format, allocation_length)),
        // A malformed one of the three is refused for what is wrong with it.
        Err(sense) if matches!(cdb.operation_code(), 0x03 | 0x12 | 0xA0) => Err(sense),
        _ => Err(absent),
    };
    response.unwrap_or_else(Response::check_condition)
}
