//! What stands on the hosts' side of the cluster, for tests, measurements and reports.
//!
//! [`Session`] is one iSCSI session of a host; [`MultipathDisk`] is one volume reached through
//! several portals, as a host's multipath driver reaches it; [`verify`] is load that knows what every
//! sector must hold; [`mod@bench`] is load that only counts.
//!
//! It refuses to know how the other side is made: everything that it says and hears is iSCSI, so
//! that it runs against any target.
//!
//! Invariants:
//! - everything runs on the tokio runtime of its caller, and ends when its owner drops it;
//! - memory is bounded: by queue depths, and by the size of the region that verified load covers.
#![forbid(unsafe_code)]

pub mod bench;
pub mod command;
pub mod meter;
pub mod multipath;
pub mod sense;
pub mod session;
pub mod verify;

pub use multipath::{DiskConfig, MultipathDisk};
pub use session::{Session, SessionConfig};

/// The vocabulary of commands and sessions that this crate's interface uses.
pub use holdfast_iscsi::initiator::{
    CommandRequest, CommandTag, Completion, EndReason, SessionKind,
};
pub use holdfast_iscsi::pdu::TaskManagementCode;
pub use holdfast_iscsi::{IscsiName, Isid};
pub use holdfast_scsi::{Lun, SenseKey, Status};
