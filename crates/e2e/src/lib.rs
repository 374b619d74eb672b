//! Holdfast as its users meet it: real processes on real files, real initiators, and what happens
//! to real machines. This library is the harness; the scenarios are in `tests/`, one to a file.
//!
//! It refuses to look inside: it knows the contract of the command line, iSCSI, and signals. Only
//! [`damage`] knows the format, to spoil it.
//!
//! Invariants:
//! - nothing that a test starts outlives it; nothing is signalled that the test did not start;
//! - one cluster runs at a time, because a machine that runs several says nothing about stalls.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod binary;
pub mod cli;
pub mod conformance;
pub mod damage;
pub mod demo;
pub mod demo_file;
pub mod figures;
pub mod golden;
pub mod guest;
pub mod host;
pub mod image;
pub mod machines;
pub mod network;
pub mod ports;
pub mod process;
pub mod raw;
pub mod recover;
pub mod revision;
pub mod rival;
pub mod thrash;
pub mod upgrade;
pub mod world;

pub use demo::{Demo, DemoOptions, scenario};
