//! CDBs about copies between units: EXTENDED COPY (LID1), and RECEIVE COPY RESULTS, as SPC-4 calls RECEIVE COPY STATUS,
//! OPERATING PARAMETERS and FAILURE DETAILS (LID1) together.
//!
//! RECEIVE DATA is not known: no copy holds data for whoever asks.

use super::Command;
use super::fields::Fields;
use crate::copy::ResultsWanted;
use crate::limits::COPY_LIST_BYTES_MAX;
use crate::operation_codes::CopyOperation;
use crate::{AdditionalSense, Sense};

pub(super) fn parse(operation: CopyOperation, fields: &Fields) -> Result<Command, Sense> {
    let results = |wanted| Command::ReceiveCopyResults {
        wanted,
        identifier: fields.byte(2),
        allocation_length: fields.u32(10),
    };
    match operation {
        CopyOperation::ExtendedCopy => extended_copy(fields.u32(10)),
        CopyOperation::CopyStatus => Ok(results(ResultsWanted::Status)),
        CopyOperation::OperatingParameters => Ok(results(ResultsWanted::Parameters)),
        CopyOperation::FailedSegmentDetails => Ok(results(ResultsWanted::Failure)),
    }
}

const fn extended_copy(parameter_list_length: u32) -> Result<Command, Sense> {
    if parameter_list_length > COPY_LIST_BYTES_MAX {
        return Err(Sense::illegal_request(
            AdditionalSense::PARAMETER_LIST_LENGTH_ERROR,
        ));
    }
    Ok(Command::ExtendedCopy {
        parameter_list_length,
    })
}
