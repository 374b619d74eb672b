//! What nodes keep of what they put down, for how long, and how much that may be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::EntityTag;

/// How much each node keeps of what it puts down, and what there is of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retention {
    /// MiB of the audit log that a node keeps at most: the file that is written, and the one before it, each of half as much.
    pub audit_mib: u32,
    /// MiB of the log of events that a node keeps at most, in two files as well.
    pub events_mib: u32,
    /// What each node has that has answered, by its number; asked of a demo's own address, that of the demo as well, as 0: it has an audit
    /// log of what was done through that address.
    pub nodes: Vec<NodeRetention>,
    /// The nodes that did not answer, by name: those of an earlier version, too, which keep 32 MiB of the audit log and 16 MiB of events.
    pub silent: Vec<String>,
    /// Names what may be changed of it, as `If-Match` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<EntityTag>,
}

/// Another bound; what is not there stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionChange {
    /// MiB of the audit log, from 2 to 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 2, maximum = 128)]
    pub audit_mib: Option<u32>,
    /// MiB of the log of events, from 2 to 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 2, maximum = 128)]
    pub events_mib: Option<u32>,
}

/// What a node keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRetention {
    /// The node's name.
    pub name: String,
    /// What it has.
    #[serde(flatten)]
    pub kept: LocalRetention,
}

/// What one node keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalRetention {
    /// The node's number; 0 of what a demo keeps beside its nodes.
    pub node: u16,
    /// Of the audit log; null where there is none, because the interface is open to everybody, or where it cannot be read.
    pub audit: Option<KeptLog>,
    /// Of the log of events; null where it cannot be read, and of a demo.
    pub events: Option<KeptLog>,
    /// Of the performance history; null where that does not answer, and of a demo.
    pub history: Option<KeptHistory>,
}

/// What there is of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptLog {
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes that they may have. They have more where that was made less, until the file that was too long is replaced.
    pub bytes_max: u64,
    /// When its first entry was put down: milliseconds since 1970 (UTC); null where there is none.
    pub oldest_ms: Option<u64>,
}

/// What there is of the performance history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptHistory {
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes that they may have: `history.bytes_max` in the node's file, where it is changed. Each resolution has a quarter of that, and
    /// the newest file of each stays in any case.
    pub bytes_max: u64,
    /// What there is in each resolution, the finest first.
    pub resolutions: Vec<KeptResolution>,
}

/// What there is of the performance history in steps of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptResolution {
    /// Seconds of a step.
    pub step_seconds: u32,
    /// Seconds for which steps are kept, if there is room for so many.
    pub kept_seconds: u64,
    /// When the first step began that is kept: milliseconds since 1970 (UTC); null where there is none yet.
    pub oldest_ms: Option<u64>,
}
