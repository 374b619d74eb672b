//! Parameter data on its way to the initiator.

use alloc::vec;

use holdfast_stdx::Bytes;

use crate::Response;

/// GOOD with as much of `data` as ALLOCATION LENGTH admits: what is beyond is cut without an error,
/// and lengths inside the data do not change by that (SPC-4, Allocation length).
pub(crate) fn respond(data: &[u8], allocation_length: u32) -> Response {
    let length = data.len().min(allocation_length as usize);
    if length == 0 {
        return Response::good();
    }
    Response::good_in(vec![Bytes::copy_from_slice(&data[..length])])
}
