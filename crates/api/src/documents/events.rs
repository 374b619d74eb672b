//! What changed, as those are told who listen.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// From here on everything is told.
    Began,
    /// Something may have changed that is not told: nobody kept it since the last event that the listener has.
    Gap,
    /// The cluster is healthier than before, or less.
    ClusterHealth,
    /// A volume is healthier than before, or less.
    VolumeHealth,
    /// There is a new volume.
    VolumeCreated,
    /// A volume has more bytes.
    VolumeGrown,
    /// A volume is for others than before.
    VolumeAccess,
    /// A volume is no more.
    VolumeDeleted,
    /// A node cannot be relied on any more.
    NodeLost,
    /// It can be again.
    NodeBack,
    /// A node has another part in the cluster, or is a new one, or no part of it any more.
    NodeStanding,
    /// A device has failed, or is not there.
    DeviceLost,
    /// A device is in another state.
    DeviceState,
    /// Replicas of a volume on a node are being brought up to date, or made there.
    SyncBegan,
    /// They are not any more: they are done, or it cannot go on.
    SyncEnded,
    /// Settings were changed.
    Settings,
    /// There is something new that an administrator should know.
    AlertRaised,
    /// That is not so any more.
    AlertCleared,
    /// An alarm is raised.
    AlarmRaised,
    /// Somebody has taken note of an alarm.
    AlarmAcknowledged,
    /// An alarm is over.
    AlarmCleared,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

impl EventKind {
    /// The word that documents and streams use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Gap => "gap",
            Self::ClusterHealth => "cluster-health",
            Self::VolumeHealth => "volume-health",
            Self::VolumeCreated => "volume-created",
            Self::VolumeGrown => "volume-grown",
            Self::VolumeAccess => "volume-access",
            Self::VolumeDeleted => "volume-deleted",
            Self::NodeLost => "node-lost",
            Self::NodeBack => "node-back",
            Self::NodeStanding => "node-standing",
            Self::DeviceLost => "device-lost",
            Self::DeviceState => "device-state",
            Self::SyncBegan => "sync-began",
            Self::SyncEnded => "sync-ended",
            Self::Settings => "settings",
            Self::AlertRaised => "alert-raised",
            Self::AlertCleared => "alert-cleared",
            Self::AlarmRaised => "alarm-raised",
            Self::AlarmAcknowledged => "alarm-acknowledged",
            Self::AlarmCleared => "alarm-cleared",
            Self::Other => "other",
        }
    }
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventSeverity {
    /// It is good to know.
    Info,
    /// It works, with less protection or little room.
    Warning,
    /// Something does not work.
    Error,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Names it for `Last-Event-ID`.
    pub id: String,
    /// When the node saw it: milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// What is told.
    pub kind: EventKind,
    /// How much it matters.
    pub severity: EventSeverity,
    /// What it is about: "node n1", "volume demo".
    pub subject: String,
    /// What there is to know.
    pub detail: String,
}
