//! Executes disk operations on files and block devices: direct I/O through io_uring, or through
//! threads where a system refuses it.
//!
//! It refuses to interpret what it reads or writes, to retry a failed write, and to order
//! operations: that is the business of whoever asks.
//!
//! Invariants:
//! - memory that the kernel may use is not freed before the kernel is done with it;
//! - a completed durable write, and what had completed before a completed flush was asked for, is on
//!   stable storage as far as the device can be trusted;
//! - all `unsafe` code of Holdfast is in this crate.
#![warn(clippy::undocumented_unsafe_blocks)]
#![warn(clippy::multiple_unsafe_ops_per_block)]

#[allow(unsafe_code, reason = "aligned memory is allocated by hand")]
mod buffer;
mod device;
mod disks;
mod error;
mod identity;
mod lock;
mod ring;
mod threads;
mod usage;
mod work;

pub use device::{DeviceSpec, FileSpec, Geometry};
pub use disks::{Disks, Driver, DriverChoice, OpenDevice, Options};
pub use error::{OpenError, OpenErrorReason, StartError};
pub use identity::Identity;
pub use lock::lock_holder;
pub use usage::DeviceUse;
