//! The data-plane daemon of one node: drives the engine over disks, sockets and the metadata.
//!
//! It refuses to decide anything: what is to be done, the engine says.
#![forbid(unsafe_code)]

mod alarm;
mod attention;
mod bad_blocks;
pub mod clock;
pub mod config;
mod departures;
mod detached;
mod devices;
pub mod directory;
mod disbelief;
mod error;
pub mod etcd;
mod history;
mod lasting;
mod length;
pub mod limits;
pub mod logging;
mod machine;
mod member;
mod members;
mod mending;
mod metrics;
mod opening;
mod paths;
pub mod ports;
pub mod predecessor;
pub mod process;
mod rates;
mod reach;
mod reactor;
mod report;
mod room;
mod run;
mod security;
mod services;
mod signals;
mod stalls;
pub mod support;
pub mod witness;

pub use devices::DeviceDesk;
pub use error::NodeError;
pub use history::{HISTORY_DIRECTORY, HistoryDesk};
pub use member::SEEN_FILE;
pub use metrics::{Metrics, reference as metrics_reference};
pub use paths::{DEVICES_FILE, device_paths, noted_device_paths};
pub use report::versions;
pub use run::{LOG_FILE, run};
pub use services::{ApiParts, connect};
pub use stalls::{Ledger, STALLS_FILE};
pub use support::NodeUpkeep;
