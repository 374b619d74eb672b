//! iSCSI (RFC 7143) as pure machines: PDUs, text negotiation, and the two sides of a session.
//!
//! [`target::Target`] is all portals of one node; [`initiator::Initiator`] is one session of a host.
//! Bytes and time come in as arguments, bytes to send and events for the layer above come out.
//!
//! It refuses to open sockets, to read clocks, to know what a CDB means, and to recover a session
//! from errors (ErrorRecoveryLevel is 0: a session in doubt is closed, its initiator logs in again).
//!
//! Invariants:
//! - nothing that comes from a connection panics, and what a connection can make a machine hold is
//!   bounded by [`target::Limits`];
//! - a command is given to the layer above once, with all of its Data-Out, in the order that its
//!   task attribute asks for;
//! - a task that was aborted, or whose session ended, is never answered.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod chap;
pub mod identity;
pub mod initiator;
pub mod negotiation;
pub mod pdu;
pub mod serial;
pub mod target;

pub use chap::{ChapAccount, ChapSecret};
pub use identity::{ConnectionIdentifier, IscsiName, Isid, Nexus, PortalGroupTag, Tsih};
pub use serial::SerialNumber;
