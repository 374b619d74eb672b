//! One node's core: portals, volumes, replicas and store as one machine, without any I/O.
//!
//! The daemon (`node`) and the simulator (`sim`) drive it with the same calls. It refuses to know
//! what time it is, to wait, and to open anything.
//!
//! The way of a command: `portal` (iSCSI and SCSI) → `operation` and `part` (cut into slices) →
//! `parts` (here, or forwarded to whoever leads) → a `Replica` of the slice → `storage`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod astray;
mod background;
mod clearing;
mod cluster;
mod config;
mod context;
mod copies;
mod devices;
mod engine;
mod event;
mod heartbeat;
mod lifecycle;
mod links;
mod mend;
mod neighbours;
mod newer;
mod notes;
mod notice;
mod obstacle;
mod operation;
mod pace;
mod part;
mod parts;
mod past;
mod peers;
mod port_groups;
mod portal;
mod registration;
mod rejection;
mod repair;
mod scrub;
mod space;
mod stall;
mod status;
mod storage;
mod takeovers;
mod usage;
mod view;
mod volume;
mod vouching;

pub use astray::{Astray, Lost};
pub use config::{EngineConfig, HOLD, Machine, TAKEOVERS_MAX};
pub use engine::{Engine, Output};
pub use event::{
    Command, ConnectionId, Event, LinkId, OpenFailure, PeerCommand, PeerEvent, PortalCommand,
    PortalEvent,
};
pub use holdfast_store::{
    Absence, DeviceGeometry, DeviceOrder, DeviceRefused, DeviceState, DeviceStatus, JournalMark,
    Stray,
};
pub use newer::NewerState;
pub use notes::report;
pub use notice::{Notice, Severity};
pub use rejection::Rejection;
pub use scrub::ScrubStatus;
pub use stall::{STALL_MIN, Stall, StallCause};
pub use status::{
    AccessState, Checked, Condition, MendedBlocks, NodeStatus, ReplicaStatus, SessionStatus, Usage,
    VolumeStatus,
};
pub use usage::Use;
pub use view::ReplicaView;
