//! Long work under way, as what can be watched, and called off where that is possible.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// A volume is made.
    Creation,
    /// A replica that was away is brought up to date.
    Sync,
    /// A replica is made where there was none: to even out what nodes hold, or in place of one that is lost or has to go.
    Move,
    /// Everything on a node moves away.
    NodeDrain,
    /// Everything on a device moves to others.
    DeviceDrain,
    /// All of a volume is read, and its copies are compared.
    Scrub,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

impl TaskKind {
    /// The word that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creation => "creation",
            Self::Sync => "sync",
            Self::Move => "move",
            Self::NodeDrain => "node-drain",
            Self::DeviceDrain => "device-drain",
            Self::Scrub => "scrub",
            Self::Other => "other",
        }
    }
}

/// Long work under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// What it is called: the same for as long as it takes, and again if the same has to be done once more.
    pub id: String,
    /// What is done.
    pub kind: TaskKind,
    /// With what, in words: "slice 0 of volume data, to n2".
    pub subject: String,
    /// The volume that it is about; null if it is about none, or several.
    #[serde(default)]
    pub volume: Option<String>,
    /// The node that it is about; null if it is about none, or several.
    #[serde(default)]
    pub node: Option<String>,
    /// Whether it waits for its turn, or for what does not come by itself; else something is being done.
    #[serde(default)]
    pub is_waiting: bool,
    /// When it began: seconds since 1970 (UTC); null where nobody keeps that.
    #[serde(default)]
    pub began_seconds: Option<u64>,
    /// Bytes that are done; null where nobody keeps how many there were.
    #[serde(default)]
    pub bytes_done: Option<u64>,
    /// Bytes that are to be done, those that are done among them; null as before.
    #[serde(default)]
    pub bytes_total: Option<u64>,
    /// Bytes that are left, as far as is known; null if that is not counted in bytes.
    #[serde(default)]
    pub bytes_left: Option<u64>,
    /// Bytes in a second.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// Seconds until it is done, at this rate; null if there is none.
    #[serde(default)]
    pub seconds_left: Option<u64>,
    /// Whether `DELETE` calls it off.
    #[serde(default)]
    pub can_cancel: bool,
}

/// Long work under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskList {
    /// By kind and subject.
    pub tasks: Vec<Task>,
    /// Where the rest begins, for `after`; none if there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
