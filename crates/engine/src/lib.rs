//! One node's core: portals, volumes, replicas and store as one machine, without any I/O.
//!
//! The daemon (`node`) and the simulator (`sim`) drive it with the same calls. It refuses to know
//! what time it is, to wait, and to open anything.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod event;
mod notice;

pub use event::{
    Command, ConnectionId, Event, LinkId, PeerCommand, PeerEvent, PortalCommand, PortalEvent,
};
pub use notice::{Notice, Severity};
