//! The answer to REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4): what the iSCSI target knows.
//!
//! Target resets, which it knows too, are obsolete in SPC-4, and have no bit.

use alloc::vec::Vec;

use crate::Response;
use crate::data_in;

/// ATS, ATSS, CTSS, LURS.
const FUNCTIONS: u8 = 0xD8;
/// Bytes of additional data that REPD asks for.
const EXTENDED_LENGTH: u8 = 12;
/// TMFTMOV: the timeouts below hold.
const TIMEOUTS_VALID: u8 = 0x01;
/// TASK MANAGEMENT FUNCTIONS LONG TIMEOUT and SHORT TIMEOUT, in tenths of a second: a node
/// answers an abort or a reset within ten seconds.
const TIMEOUT_TENTHS: u32 = 150;

pub(crate) fn respond(extended: bool, allocation_length: u32) -> Response {
    let mut data: Vec<u8> = alloc::vec![FUNCTIONS, 0, 0, 0];
    if extended {
        data[3] = EXTENDED_LENGTH;
        data.extend([TIMEOUTS_VALID, 0, FUNCTIONS, 0]);
        data.extend(TIMEOUT_TENTHS.to_be_bytes());
        data.extend(TIMEOUT_TENTHS.to_be_bytes());
    }
    data_in::respond(&data, allocation_length)
}
