//! Documents about what keeps the metadata, and about what is known without it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LocalMetadata, Room};

/// How a member of etcd is, as one node sees it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
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
}

/// The members of etcd that keep the metadata, counted by their endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberCounts {
    /// All that nodes are configured with.
    pub total: u32,
    /// Those that answer some node, and have a leader.
    pub up: u32,
}
