//! What an engine is told once, at its start.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_iscsi::chap::ChapSeed;
use holdfast_iscsi::target::Limits;
use holdfast_model::{ClusterId, MachineId, NodeId};
use holdfast_stdx::Duration;
use holdfast_store::{DeviceGeometry, StoreConfig, StoreIdentity};

/// Who the node is, what it has, and how much it may use.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// With which nodes it fails: those that say the same. None: with no other one.
    pub failure_domain: Option<String>,
    /// Where initiators reach it, `host:port`.
    pub portal: String,
    /// Where other nodes reach it, `host:port`.
    pub peer: String,
    /// Where its API answers, a URL.
    pub api: String,
    /// Its devices, as the driver opened them.
    pub devices: Vec<DeviceGeometry>,
    /// Given if blank devices are to be formatted: drawn at random for this start.
    pub create: Option<StoreIdentity>,
    /// The machine.
    pub machine: Machine,
    /// The id of this use of the store: drawn at random for this start, never 0.
    pub use_id: u64,
    /// Limits of the store.
    pub store: StoreConfig,
    /// Limits of the portal.
    pub portal_limits: Limits,
    /// What initiators are challenged with: drawn at random for this start.
    pub portal_seed: ChapSeed,
    /// How long a command is held while nobody serves its slice, before it is refused as NOT
    /// READY.
    pub hold: Duration,
    /// Replicas that may be on their way to lead at a time, 1 at least.
    pub takeovers_max: usize,
}

/// What tells a machine from others that may have the same configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Drawn at random: the same at each of its starts.
    pub id: MachineId,
    /// It listens at the address itself at which others reach the node: no other machine has that.
    pub has_address: bool,
    /// An operator says that another machine that is on record under this number is gone: this one takes its place.
    /// See [`Rejection::OtherMachine`](crate::Rejection::OtherMachine).
    pub takes_over: bool,
}

/// How long a command is held by default.
pub const HOLD: Duration = Duration::from_secs(30);

/// Replicas on their way to lead at a time by default: enough to keep the group commit of the disks and the
/// metadata busy.
pub const TAKEOVERS_MAX: usize = 128;
