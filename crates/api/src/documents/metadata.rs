//! Documents about what keeps the metadata, and about what is known without it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LocalMetadata, LocalReport, Room};

/// How a member of etcd is, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It answers, and has a leader.
    Answers,
    /// It answers, and does not reach enough of the others to have a leader.
    Leaderless,
    /// It answers, and is of another etcd than the others.
    Foreign,
    /// It does not answer.
    Silent,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

/// A member of etcd that a node is configured with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalMember {
    /// Where it answers clients, `host:port`.
    pub endpoint: String,
    /// How it is: not well after two looks in a row that have found it so.
    pub state: MemberState,
    /// The number of the member that last answered there since the node's start, as etcd writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Whether it is spoken to over TLS, by the node's file; null from a version that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
}

/// A member of etcd, as etcd itself says, and as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListedMember {
    /// Its number, as etcd writes it.
    pub member: String,
    /// Its name; empty for one that was added and has never run.
    pub name: String,
    /// Where it says that it answers clients, `host:port`; none for one that has never run.
    pub endpoints: Vec<String>,
    /// Where the others reach it, `host:port`.
    pub peers: Vec<String>,
    /// Whether it counts for a majority.
    pub votes: bool,
    /// How it is, wherever it answers: not well after two looks in a row that have found it so.
    pub state: MemberState,
}

/// The members of etcd that keep the metadata, counted as etcd itself lists them; where no node has heard that since it
/// started, for there was no majority, by the endpoints that nodes are configured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberCounts {
    /// All that count for a majority.
    pub total: u32,
    /// Those that answer some node, and have a leader.
    pub up: u32,
}

/// What is known of the cluster without the metadata: what nodes say of themselves when they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalCluster {
    /// How many seconds old the list of nodes is: that is when the metadata last told it. Null if it has not since the
    /// start; then only the node that is asked is in it.
    pub list_age_seconds: Option<u64>,
    /// The nodes, by their number.
    pub nodes: Vec<LocalNode>,
}

/// A node, by a list that may be old, and what it says of itself now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalNode {
    /// Its name.
    pub name: String,
    /// Its number.
    pub node: u16,
    /// Whether it is the one behind this interface.
    pub is_asked: bool,
    /// What it says; null if it does not answer.
    pub says: Option<LocalSummary>,
}

/// What a node says of itself, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSummary {
    /// Whether its devices are open, and none has failed.
    pub open: bool,
    /// Whether it follows the metadata: followed, unreached, or behind, which is of any that it does not believe.
    pub metadata: LocalMetadata,
    /// Whether it believes the metadata; null where it does not reach it.
    #[serde(default)]
    pub metadata_believed: Option<bool>,
    /// Replicas of slices that it holds.
    pub replicas: u32,
    /// Slices that it leads, and of which it takes reads and writes.
    pub primaries: u32,
    /// Sessions of initiators at its portal.
    pub sessions: u32,
    /// The room on its devices; nothing while they are not open.
    pub room: Room,
    /// Its devices; none while they are not open.
    pub devices: u32,
    /// Those of them that are missing or have failed.
    pub devices_absent: u32,
}

impl From<&LocalReport> for LocalSummary {
    fn from(report: &LocalReport) -> Self {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let sessions = report.volumes.iter().map(|volume| volume.sessions);
        let absent = report.devices.iter().filter(|device| device.is_absent);
        Self {
            open: report.open,
            metadata: report.metadata,
            // Earlier versions do not say it by itself.
            metadata_believed: report.metadata.is_believed(),
            replicas: count(report.slices.len()),
            primaries: count(report.slices.iter().filter(|slice| slice.serving).count()),
            sessions: sessions.fold(0, u32::saturating_add),
            room: report.room,
            devices: count(report.devices.len()),
            devices_absent: count(absent.count()),
        }
    }
}
