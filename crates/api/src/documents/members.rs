//! Documents about who belongs to the cluster, what is on its way, and the settings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Node;
use crate::EntityTag;

/// What a node is to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeStanding {
    /// It has registered, and nobody has admitted it: it is given nothing.
    Waiting,
    /// It holds what it is given, as all nodes did before there was anything else.
    #[default]
    Active,
    /// It is about to be worked on: it leads nothing, is given nothing, and nothing of it is rebuilt
    /// elsewhere.
    Maintenance,
    /// Everything that it holds moves away.
    Draining,
    /// It is no part of the cluster any more.
    Removed,
}

impl NodeStanding {
    /// The word that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Maintenance => "maintenance",
            Self::Draining => "draining",
            Self::Removed => "removed",
        }
    }
}

/// What has to go from a node, or to be rebuilt elsewhere in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToMove {
    /// Replicas of slices.
    pub slices: u32,
    /// Bytes of pages in them.
    pub bytes: u64,
    /// Bytes that are still to be copied until all of it is elsewhere: of what is on its way, what is left.
    #[serde(default)]
    pub bytes_left: u64,
    /// Bytes in a second that are copied of them to other nodes.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// Seconds until all of it is elsewhere, at this rate; null if nothing is being copied, or some of it cannot be, for nobody
    /// serves it.
    #[serde(default)]
    pub seconds_left: Option<u64>,
}

/// What a replica is to its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaRole {
    /// It orders the slice's writes.
    Primary,
    /// It holds everything.
    InSync,
    /// It is being brought up to date.
    Joining,
    /// It is away, or has nothing yet.
    Absent,
}

impl ReplicaRole {
    /// The word that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::InSync => "in-sync",
            Self::Joining => "joining",
            Self::Absent => "absent",
        }
    }
}

/// A replica on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeSlice {
    /// The volume's name.
    pub volume: String,
    /// Which slice of it, from 0.
    pub index: u32,
    /// What the replica is to it.
    pub role: ReplicaRole,
    /// Bytes that it lacks; null if nobody can tell before it has said what it has, or it is in sync.
    #[serde(default)]
    pub bytes_lacking: Option<u64>,
    /// Bytes of the slice's pages, of which the replica may lack some; null if no node knows.
    pub used_bytes: Option<u64>,
    /// Whether it is to go, or to be rebuilt elsewhere.
    pub leaves: bool,
}

/// A node, and what is on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDetails {
    /// The node.
    pub node: Node,
    /// Its replicas, by volume.
    pub slices: Vec<NodeSlice>,
}

/// What an operator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeOrder {
    /// It is to be part of the cluster.
    Add,
    /// Everything on it is to move away.
    Drain,
    /// What is on it may stay after all.
    CancelDrain,
    /// It is about to be worked on: it hands over what it leads.
    MaintenanceOn,
    /// It is back.
    MaintenanceOff,
}

/// A change of a node's part in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeChange {
    /// What is wanted.
    pub order: NodeOrder,
    /// Where it stands: copies of a slice are kept on different sites, as far as there are any. Without
    /// it, it stands where it stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

/// The cluster's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// After so many seconds without a word from a node its replicas are rebuilt elsewhere.
    pub repair_delay_seconds: u64,
    /// Whether slices move by themselves to even out what nodes hold and lead.
    pub rebalance: bool,
    /// By how many percent hosts' commands may become slower by what nodes do in the background: bringing
    /// replicas up to date, reading everything through.
    pub background_slowdown_percent: u32,
    /// Bytes a second, in whole pages of 256 KiB, that a node may do in the background however slow hosts' commands are. It is what is
    /// allowed: slow disks reach less, and a piece of a page counts for more than its bytes.
    pub background_floor: u64,
    /// A volume is scrubbed when so many seconds have passed since its last scrub began; zero: only when
    /// an operator says so.
    pub scrub_interval_seconds: u64,
    /// Bytes a second that a node scrubs at most, of what it leads.
    pub scrub_rate: u64,
    /// Names what may be changed of it, as `If-Match` takes it; null from a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// Other settings; what is not there stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SettingsChange {
    /// After so many seconds without a word from a node its replicas are rebuilt elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_delay_seconds: Option<u64>,
    /// Whether slices move by themselves to even out what nodes hold and lead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<bool>,
    /// By how many percent, from 1 to 100, hosts' commands may become slower by what nodes do in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_slowdown_percent: Option<u32>,
    /// Bytes a second, in whole pages of 256 KiB, that a node may do in the background however slow hosts' commands are. It is what is
    /// allowed: slow disks reach less, and a piece of a page counts for more than its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_floor: Option<u64>,
    /// A volume is scrubbed when so many seconds have passed since its last scrub began; zero: only when
    /// an operator says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub_interval_seconds: Option<u64>,
    /// Bytes a second that a node scrubs at most, of what it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub_rate: Option<u64>,
}
