//! What a node writes into its log: the levels, and changes of them that hold for a time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Seconds that changed levels hold unless it is said: long enough to see something once more.
pub const LOG_CHANGE_SECONDS: u32 = 600;
/// Seconds that they hold at most: what is to be for longer is configured (`log.level`).
pub const LOG_CHANGE_SECONDS_MAX: u32 = 24 * 60 * 60;

/// How much is written: what is of this level and of those before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What a person has to look at.
    Error,
    /// What is not as it should be, and goes on.
    Warn,
    /// What happens seldom.
    #[default]
    Info,
    /// What helps to find out why something is as it is.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Error,
        Self::Warn,
        Self::Info,
        Self::Debug,
        Self::Trace,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// A part of a node that has a level of its own, if one is given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogArea {
    /// Requests to the interface.
    Api,
    /// What plans for the cluster, and steers it.
    Controller,
    /// Devices.
    Disk,
    /// The etcd that runs beside the node.
    Etcd,
    /// The sessions with the metadata.
    Metadata,
    /// Links to other nodes, and initiators' connections.
    Net,
    /// The node itself: its start, what its engine tells, its end.
    Node,
}

impl LogArea {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Api,
        Self::Controller,
        Self::Disk,
        Self::Etcd,
        Self::Metadata,
        Self::Net,
        Self::Node,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Controller => "controller",
            Self::Disk => "disk",
            Self::Etcd => "etcd",
            Self::Metadata => "metadata",
            Self::Net => "net",
            Self::Node => "node",
        }
    }
}

/// A part, and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AreaLevel {
    /// Which part.
    pub area: LogArea,
    /// Its level.
    pub level: LogLevel,
}

/// What a node writes into its log now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLevels {
    /// The level of what has none of its own.
    pub level: LogLevel,
    /// The parts with another one.
    pub areas: Vec<AreaLevel>,
    /// What is configured (`log.level`), to which it falls back.
    pub configured: LogLevel,
    /// In how many seconds it falls back; null where it is as it is configured.
    pub seconds_left: Option<u64>,
}

/// Other levels for a time, after which the node falls back to what is configured by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogChange {
    /// The level of what has none of its own; null to leave it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LogLevel>,
    /// Levels of parts; others stay as they are.
    #[schema(max_items = 7)]
    pub areas: Vec<AreaLevel>,
    /// For so many seconds, from 1 to 86400; 600 if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86400)]
    pub seconds: Option<u32>,
    /// Before that, fall back to what is configured. Alone it does that and nothing else.
    pub reset: bool,
}
