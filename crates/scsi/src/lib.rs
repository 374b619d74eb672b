//! SCSI as hosts see it: what a command descriptor block asks for, what a volume answers by itself,
//! and what it asks of the medium beneath.
//!
//! The way of a command: [`parse`] turns the CDB into a [`Command`] as soon as it arrives, which says
//! how much Data-Out it wants; when that is here, [`LogicalUnit::begin`] answers it or names a
//! [`MediumOperation`]; when that is done, [`Continuation::complete`] makes the answer.
//!
//! It refuses to execute anything on a medium, to order tasks (that is the transport's and the
//! engine's), and to keep anything that would grow with what initiators send.
//!
//! Sources: SAM-5, SPC-4 (and SPC-5 where named), SBC-3 (and SBC-4 where named).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod sense;
pub mod task;

pub use sense::{AdditionalSense, FieldPointer, Sense, SenseKey};
pub use task::{Lun, Response, Status, TaskAttribute};
