//! SCSI as hosts see it: what a command descriptor block asks for, what a volume answers by itself,
//! and what it asks of the medium beneath.
//!
//! The way of a command: [`Cdb::parse`] reads the CDB as soon as it arrives and says
//! how much Data-Out it wants; when that is here, [`LogicalUnit::begin`] answers it or names a
//! [`MediumOperation`]; when that is done, [`Continuation::complete`] makes the answer. What is about
//! reservations becomes an [`AccessRequest`], and is decided on the record that all nodes share. A copy between units is a
//! [`CopyList`] first, for only who serves them all knows which they are.
//!
//! It refuses to execute anything on a medium, to order tasks (that is the transport's and the
//! engine's), and to keep anything that would grow with what initiators send.
//!
//! Sources: SAM-5, SPC-4 (and SPC-5 where named), SBC-3 (and SBC-4 where named).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod absent;
pub mod alua;
mod capacity;
pub mod cdb;
pub mod copy;
mod data;
mod data_in;
pub mod geometry;
pub mod inquiry;
mod lba_status;
pub mod limits;
mod log;
pub mod logical_unit;
pub mod medium;
mod mode;
mod mode_select;
pub mod nexus;
mod operation_codes;
mod report_luns;
mod report_operation_codes;
pub mod reservation;
pub mod sense;
pub mod steps;
pub mod surroundings;
pub mod task;
mod task_functions;
mod unmap;

pub use absent::respond_absent;
pub use alua::{AccessState, StatusCode, TargetPortGroup, WantedStates};
pub use cdb::{Cdb, Command, Direction};
pub use copy::{Copy, CopyList, CopyOutcome, CopyReport, CopyStep, Reachable, ResultsWanted};
pub use geometry::{BlockLength, ByteRange, Geometry};
pub use logical_unit::{Identity, LogicalUnit, Request};
pub use medium::{Extent, MediumData, MediumError, MediumOperation};
pub use nexus::{Nexus, UnitAttention};
pub use operation_codes::leaves_traces;
pub use reservation::{AccessRequest, Decision, Need};
pub use sense::{AdditionalSense, FieldPointer, Sense, SenseKey};
pub use steps::{Continuation, Outcome};
pub use surroundings::{Provisioning, Surroundings};
pub use task::{Lun, Response, Status, TaskAttribute};

#[cfg(test)]
mod tests;
