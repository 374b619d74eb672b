//! `holdfast demo`: a whole cluster on this machine, each node a process of its own.
//!
//! The parent holds the metadata, serves it to the nodes, and watches them; it is not on the way of
//! any I/O. If it alone dies, the nodes serve on, and the next parent on the same directory adopts
//! them.
//!
//! It refuses to use or erase a directory that is not a demo's, and to start a node again that has
//! died: that is for whoever looks on.
//!
//! Invariants:
//! - a directory has one parent at a time;
//! - `demo.json` is there while, and only while, a parent runs whose volumes have once been served
//!   everywhere; it is replaced whole;
//! - a parent that ends cleanly leaves no process behind.

mod claim;
mod file;
mod layout;
mod node;
mod ports;
mod process;
mod run;
mod services;
mod stop;

use std::path::PathBuf;

use clap::Args;
use clap::error::ErrorKind;
use holdfast_control::VolumeSize;
use holdfast_model::{ByteSize, Policy};

use crate::cli::{VolumeSpec, usage};
use crate::failure::Failure;
use crate::output::Output;

use self::layout::{Layout, NODES_MAX};

/// Nodes of a first start, unless it is told.
const NODES_DEFAULT: u16 = 3;
/// The volume of a first start, unless it is told.
const VOLUME_DEFAULT: &str = "demo:4GiB:mirror2";
/// The size of each node's device, unless it is told at the first start.
const DEVICE_SIZE_DEFAULT: ByteSize = ByteSize(16 << 30);

/// What the demo is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoOptions {
    /// Where everything is kept [default: holdfast/demo in the user's state directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many nodes, 1 to 7 [default: 3, or as many as there are]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: Option<u16>,
    /// The first node's portal; the others follow
    #[arg(long, default_value_t = 3260, value_name = "PORT",
          value_parser = clap::value_parser!(u16).range(1..))]
    portal_port: u16,
    /// The demo's API; the nodes' follow, the metadata and the nodes' peers are 100 above
    #[arg(long, default_value_t = 7460, value_name = "PORT",
          value_parser = clap::value_parser!(u16).range(1..))]
    api_port: u16,
    /// The size of each node's device, a sparse file [default: 16GiB]
    #[arg(long, value_name = "SIZE")]
    device_size: Option<ByteSize>,
    /// A volume to make, unless it is there; may be given several times [default at the first
    /// start: demo:4GiB:mirror2]
    #[arg(long = "volume", value_name = "NAME:SIZE:POLICY")]
    volumes: Vec<VolumeSpec>,
    /// Erase what an earlier demo has left in the directory, and begin anew
    #[arg(long)]
    fresh: bool,
}

/// What is to be started, all of it decided.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    layout: Layout,
    device_bytes: u64,
    volumes: Vec<VolumeSpec>,
}

/// Runs the demo until it is told to stop.
pub(crate) fn run(options: &DemoOptions, output: &Output) -> Result<(), Failure> {
    check(options);
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

/// Ends the process if the options make no sense by themselves.
fn check(options: &DemoOptions) {
    let invalid = |what: &str| usage(Some("demo"), ErrorKind::ValueValidation, what);
    for (place, volume) in options.volumes.iter().enumerate() {
        if options.volumes[..place]
            .iter()
            .any(|other| other.name == volume.name)
        {
            invalid(&format!("volume {} is named twice", volume.name));
        }
        // Without a number of nodes, a demo that is there already may have enough.
        let nodes = options.nodes.unwrap_or(NODES_MAX);
        if let Err(what) = check_policy(volume, nodes) {
            invalid(&what);
        }
    }
    let most = options.nodes.unwrap_or(1);
    if let Err(what) = Layout::check_ports(options.portal_port, options.api_port, most) {
        invalid(&what);
    }
}

/// Whether so many nodes are enough.
fn check_policy(volume: &VolumeSpec, nodes: u16) -> Result<(), String> {
    let VolumeSpec { name, policy, .. } = volume;
    if policy.copies() <= usize::from(nodes) {
        return Ok(());
    }
    let fits = Policy::ALL
        .into_iter()
        .rev()
        .find(|policy| policy.copies() <= usize::from(nodes));
    let fits = fits.expect("one node is enough for no protection");
    Err(format!(
        "volume {name}: policy {policy} needs {} nodes, and there are {nodes}\n\n\
         hint: --nodes {} makes more; --volume {name}:{}:{fits} needs fewer",
        policy.copies(),
        policy.copies(),
        ByteSize(volume.size.bytes()),
    ))
}

fn volume_default() -> VolumeSpec {
    let spec: VolumeSpec = VOLUME_DEFAULT.parse().expect("the default is a volume");
    assert!(
        VolumeSize::new(spec.size.bytes()).is_ok(),
        "the default has a size"
    );
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_needs_more_nodes_is_told_with_a_way_out() {
        let volume = volume_default();
        assert_eq!(check_policy(&volume, 2), Ok(()));
        let what = check_policy(&volume, 1).unwrap_err();
        assert!(
            what.contains("mirror2 needs 2 nodes, and there are 1"),
            "{what}"
        );
        assert!(what.contains("--volume demo:4GiB:none"), "{what}");
    }
}
