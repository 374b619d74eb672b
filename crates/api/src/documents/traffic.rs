//! Traffic: what hosts did with each volume in the last few seconds.
//!
//! Invariant: what nodes tell each other are counts by length, so that percentiles are those of all commands.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Flow, LocalFlow};

/// Of how many seconds traffic is told: enough that a figure stands still for whoever reads it.
pub const TRAFFIC_SECONDS: u32 = 5;

/// What hosts did with each volume in the last seconds that are over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Traffic {
    /// How many seconds that is.
    pub seconds: u32,
    /// Volumes that hosts read or wrote meanwhile, by name. With the others nothing was done.
    pub volumes: Vec<VolumeTraffic>,
    /// Nodes that did not answer: what was done at their portals is not among it.
    pub silent: Vec<String>,
}

/// What hosts did with one volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeTraffic {
    /// The volume.
    pub volume: String,
    /// Commands that read.
    pub reads: Flow,
    /// Commands that write.
    pub writes: Flow,
    /// Both together; the percentiles are those of both, and no mean of theirs.
    pub all: Flow,
}

/// What was done at one node's portal in the last seconds that are over, by its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalTraffic {
    /// The node's number.
    pub node: u16,
    /// Seconds in which it measured; 0 if it has just started.
    pub seconds: u64,
    /// Volumes that hosts read or wrote at its portal.
    pub volumes: Vec<LocalVolumeTraffic>,
}

/// What was done with one volume at one node's portal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalVolumeTraffic {
    /// The volume's id.
    pub volume: u64,
    /// Commands that read.
    #[serde(default, skip_serializing_if = "LocalFlow::is_empty")]
    pub reads: LocalFlow,
    /// Commands that write.
    #[serde(default, skip_serializing_if = "LocalFlow::is_empty")]
    pub writes: LocalFlow,
}
