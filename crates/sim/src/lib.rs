//! The simulator: machines that know no clock, no device and no chance, driven by ones that are made
//! of a seed. The same seed gives the same run, byte for byte.
#![forbid(unsafe_code)]

mod boot;
pub mod campaign;
mod catalog;
pub mod clock;
pub mod cluster;
mod cold;
pub mod content;
pub mod coverage;
pub mod disk;
pub mod failure;
pub mod history;
mod host;
mod invariants;
pub mod network;
mod observe;
pub mod oracle;
mod pipe;
pub mod plan;
pub mod profile;
pub mod run;
pub mod schedule;
pub mod store;
pub mod tally;
pub mod trace;
pub mod volumes;
mod watch;

pub use host::{Copies, HostCounts, HostPlan, Rivalry};
