//! Protocol data units: their headers (RFC 7143 11), their framing in a stream, their digests.
//!
//! It refuses to judge what a PDU means in the state of a session; it only refuses what no state
//! permits.
//!
//! Invariants:
//! - every header that is parsed and encoded again gives the bytes that its fields have in the RFC,
//!   reserved ones zero;
//! - a [`PduReader`] holds at most one PDU and the chunk that ends it.

mod fields;
mod header;
mod payload;
mod reader;
mod reply;
mod request;
mod writer;

pub use fields::{
    AsyncEvent, InitiatorTaskTag, LoginStage, LoginStatus, LogoutReason, LogoutResponseCode,
    RejectReason, Residual, TargetTransferTag, TaskManagementCode, TaskManagementResponseCode,
};
pub use header::{HEADER_LENGTH, Header, opcode};
pub use payload::Payload;
pub use reader::{FrameError, Framing, PduReader, RawPdu};
pub use reply::{
    AsyncMessage, DataIn, LoginResponse, LogoutResponse, NopIn, ReadyToTransfer, Reject, Reply,
    ScsiResponse, Sequence, TaskManagementResponse, TextResponse,
};
pub use request::{
    CommandFlags, DataOut, LoginRequest, LogoutRequest, NopOut, Request, ScsiCommand, Snack,
    TaskManagementRequest, TextRequest,
};
pub use writer::frame;

use thiserror::Error;

/// Why 48 bytes are no header that any state would accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// An operation code that this side does not receive.
    #[error("operation code {0:#04x} is not one that this side receives")]
    Opcode(u8),
    /// A field has a value that the RFC reserves.
    #[error("the field at byte {0} has a reserved value")]
    Field(u8),
}

#[cfg(test)]
mod tests;
