//! Whether a shared disk does what clusters of hosts need: Windows Server failover clusters, VMware, Pacemaker with
//! `fence_scsi` or `fence_mpath`, Linux with dm-multipath.
//!
//! It tries out, over iSCSI sessions of its own, what these hosts rely on, and what their own validation tries as far as
//! public documents tell: [`run`] makes three hosts, each with a session on every path of the unit, carries out every
//! check of the [table](all_checks), and says for each kind of host whether it may use the disk.
//!
//! It refuses to know how the target is made: it runs against any that speaks iSCSI. It refuses to write to a unit that
//! holds something, or that somebody uses, unless it is told to.
//!
//! Invariants:
//! - what a target answers is read as something hostile: it is refused by name, never trusted;
//! - nothing outside one stretch of the unit is written, and that is zeros again at the end;
//! - registrations of a run are ended with it, as far as the target can be reached.
#![forbid(unsafe_code)]

mod answer;
mod bench;
mod check;
mod checks;
mod contender;
mod discovery;
mod link;
mod nexus;
mod options;
mod parse;
pub mod report;
mod reserve;
mod run;
mod safety;
mod stretch;
mod verdict;
mod words;

pub use check::{Check, Group, HostKind, Outcome};
pub use checks::all as all_checks;
pub use options::{Options, Timing};
pub use report::{CheckReport, PathReport, Report, Subject};
pub use run::{StartError, run};
pub use verdict::{HostVerdict, Standing};

/// What runs are configured with.
pub use holdfast_iscsi::chap::{ChapAccount, ChapSecret};
pub use holdfast_lab::{IscsiName, Lun};

use holdfast_lab::command;

#[cfg(test)]
mod tests;
