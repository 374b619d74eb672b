//! `holdfast demo`: a whole cluster on this machine, each node a process of its own.
//!
//! The parent holds the metadata, or has an etcd hold it, and watches the nodes; it is not on the way of
//! any I/O. If it alone dies, the nodes serve on, and the next parent on the same directory adopts
//! them, and their etcd.
//!
//! It refuses to use or erase a directory that is not a demo's, and to start a node again that has
//! died: that is for whoever looks on. (An etcd that has died is started again.)
//!
//! Invariants:
//! - a directory has one parent at a time;
//! - `demo.json` is there while, and only while, a parent runs whose volumes have once been served
//!   everywhere; it is replaced whole;
//! - a parent that ends cleanly leaves no process behind.

mod claim;
mod credentials;
mod file;
mod layout;
mod node;
mod patience;
mod people;
mod ports;
mod process;
mod run;
mod services;
mod settings;
mod signals;
mod stop;
mod summary;

use std::path::PathBuf;

use clap::Args;
use holdfast_model::ByteSize;
use holdfast_node::config::CACHE_BYTES_MAX;

use crate::cli::VolumeSpec;
use crate::failure::Failure;
use crate::output::Output;

use self::layout::{MetadataKind, NODES_MAX, NODES_PER_MACHINE_MAX};

pub(crate) use self::signals::Signals;

/// What the demo is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoOptions {
    /// Where everything is kept [default: holdfast/demo in the user's state directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many nodes, 1 to 7 [default: those of 3 machines, or as many as there are]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: Option<u16>,
    /// How many of them are one machine, 1 to 3, and so one failure domain: no two copies of anything are there
    /// [default: 1, or as at the first start]
    #[arg(long, value_name = "COUNT",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_PER_MACHINE_MAX)))]
    nodes_per_machine: Option<u16>,
    /// The first node's portal; the others follow
    #[arg(long, default_value_t = 3260, value_name = "PORT",
          value_parser = clap::value_parser!(u16).range(1..))]
    portal_port: u16,
    /// The demo's API; the nodes' follow, the metadata and the nodes' peers are 100 above, etcd's
    /// ports 200 and 201
    #[arg(long, default_value_t = 7460, value_name = "PORT",
          value_parser = clap::value_parser!(u16).range(1..))]
    api_port: u16,
    /// The size of each node's device, a sparse file [default: 16GiB]
    #[arg(long, value_name = "SIZE")]
    device_size: Option<ByteSize>,
    /// How much memory each node keeps of what hosts have read, at most
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(CACHE_BYTES_MAX))]
    cache: ByteSize,
    /// A volume to make, unless it is there; may be given several times [default at the first
    /// start: demo:4GiB:mirror2]
    #[arg(long = "volume", value_name = "NAME:SIZE:POLICY")]
    volumes: Vec<VolumeSpec>,
    /// What keeps the metadata: the demo itself, or an etcd that it starts [default: embedded, or as at
    /// the first start]
    #[arg(long, value_enum, value_name = "STORE")]
    metadata: Option<MetadataKind>,
    /// The program, for --metadata etcd [default: etcd in PATH]
    #[arg(long, value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
    /// Do without TLS and logins: what is said to the APIs can be read and changed on its way, and whoever reaches them may do everything
    #[arg(long)]
    insecure: bool,
    /// Erase what an earlier demo has left in the directory, and begin anew
    #[arg(long)]
    fresh: bool,
}

/// Runs the demo until it is told to stop.
pub(crate) fn run(options: &DemoOptions, output: &Output) -> Result<(), Failure> {
    settings::check(options);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("start: {error}")))?;
    // Complaints of the servers inside; everything that people should read is said directly.
    let logged = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .try_init();
    debug_assert!(logged.is_ok(), "nobody else logs in this process");
    runtime.block_on(run::run(options, *output))
}
