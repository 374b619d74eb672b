//! Every byte between nodes: how a message is framed, what each says, and the version of both.
//!
//! It refuses to know what a message means: order, leases and commits belong to `replica`.
//!
//! Invariants:
//! - a frame is read whole or refused: its header, body and payload each have a checksum;
//! - nothing is allocated for a length that a bound has not admitted;
//! - what is encoded is decoded to the same message, or the change of version says why not.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codec;
mod frame;
mod hello;
mod message;

pub use frame::{
    BODY_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, PAYLOAD_BYTES_MAX, WIRE_VERSION,
    WIRE_VERSION_MIN, WireError, decode, encode, hello_from_frame, hello_to_frame,
};
pub use hello::{Hello, Lane};
pub use message::{
    Begin, BlockContent, BlockDigest, Camp, Claim, Commit, Content, Contents, Copied, Copy,
    CopySource, Correct, Digest, Digests, EndTasks, Enforce, Enforced, Fetch, Fetched, Forward,
    ForwardKind, Forwarded, Grant, HandOver, Heartbeat, Holdings, JoinRequest, Message,
    OutcomeCode, Prepare, PrepareHeld, Prepared, Query, QueryReply, Refusal, Refused, Reserve,
    Reserved, Resign, Role, SPACE_VOLUMES_MAX, Settle, Space, Stance, Supplied, Supply,
    SupplyOutcome, TasksEnded, Unread, Verified, Verify, Vouch, Vouched,
};
