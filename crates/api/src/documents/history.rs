//! Performance history: what was measured in steps of time, of the cluster or a part of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::DeviceTier;

/// Steps in an answer at most, unless it is said how long they are.
pub const HISTORY_STEPS_DEFAULT: u64 = 400;
/// Steps in an answer at most: an hour of seconds.
pub const HISTORY_STEPS_MAX: u64 = 3600;

/// Which time is asked for, in what steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// From when: milliseconds since 1970. An hour before the end, if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<u64>,
    /// Until when: milliseconds since 1970. Now, if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// How long steps are at least, in seconds, from 1. What is longer ago is kept in longer ones: 1 s for an hour, 10 s for a
    /// day, 5 min for 30 days, 1 h for a year. So that there are 400 at most, if it is not said; there are 3600 at most in any
    /// case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<u32>,
}

/// What was measured of the cluster, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// When the first step begins: milliseconds since 1970.
    pub from_ms: u64,
    /// When the last one ends.
    pub until_ms: u64,
    /// How long each is, in seconds.
    pub step_seconds: u32,
    /// The steps, the earliest first. Those in which no node measured are left out, of a volume also those
    /// from before it was there.
    pub points: Vec<HistoryPoint>,
    /// Nodes that did not answer: what they have measured is not among it.
    pub silent: Vec<String>,
}

/// What was measured in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryPoint {
    /// When it began: milliseconds since 1970.
    pub at_ms: u64,
    /// Commands that read; of a device or a tier, operations.
    pub reads: Flow,
    /// Commands that write.
    pub writes: Flow,
    /// Other commands that reach the medium: UNMAP, VERIFY, SYNCHRONIZE CACHE and their kin. Of a device, flushes and discards.
    pub others: Flow,
    /// Commands that were under way at a time, as a mean.
    pub queue_depth: f64,
    /// How full it was; nothing of volumes and initiators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// What only nodes are measured in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeMeasures>,
}

/// Commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// How many were done in a second (IOPS).
    pub per_second: f64,
    /// Bytes that they moved in a second.
    pub bytes_per_second: f64,
    /// How long they took; nothing if there were none.
    pub latency: Option<Latency>,
}

/// How long commands took, in microseconds, each to the nearest: from when the node had read the last byte of one, or of its data, from the
/// connection until it handed the answer to that. The network is not in it, nor what a host does itself; nor what the node waits for the
/// host, if it does when all has come: a command begins when the host has taken so much of earlier answers that others may follow, and
/// a write that comes after half a second of silence when the host has said that it is there. A write that has to wait for room before
/// the node asks for its data does not take that time. The mean is exact; percentiles are never too little, and an eighth too much at
/// most, but for what took more than 67 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Half of them took no longer (median).
    pub p50_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
    /// 999 of 1000 took no longer.
    pub p999_us: u64,
    /// None took longer.
    pub max_us: u64,
}

/// How full something was, as means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fill {
    /// Bytes that were taken.
    pub used_bytes: u64,
    /// Bytes that there was room for.
    pub bytes: u64,
}

/// What only nodes are measured in; of the cluster, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeMeasures {
    /// Sessions of initiators, as a mean.
    pub sessions: f64,
    /// Blocks of 4 KiB that were read from memory, in a second.
    pub cache_hits_per_second: f64,
    /// Blocks of 4 KiB that were not in memory when they were asked for, in a second.
    pub cache_misses_per_second: f64,
    /// How full the journal was, from 0 to 1, as a mean; of the cluster, the fullest node's.
    pub journal_used: f64,
    /// How full it was at most.
    pub journal_used_max: f64,
    /// Bytes that were copied to replicas that join, in a second.
    pub synced_bytes_per_second: f64,
}

/// Whose history is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryOf {
    /// All nodes' together.
    Cluster,
    /// A volume's, by its name.
    Volume(String),
    /// What an initiator does with a volume: their names.
    Initiator(String, String),
    /// What an initiator does with all volumes, by its name.
    Host(String),
    /// A node's, by its name.
    Node(String),
    /// A device's: the node's name, and its number there.
    Device(String, u16),
    /// That of all devices of a class.
    Tier(DeviceTier),
}

/// Of what one node is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HistorySubject {
    /// The node itself.
    #[default]
    Node,
    /// A volume at its portal, by its id.
    Volume(u64),
    /// What one initiator does with a volume at its portal.
    Initiator(u64, String),
    /// What one initiator does at its portal, with whichever volume.
    Host(String),
    /// One of its devices, by its number.
    Device(u16),
    /// Its devices of one class, by the class's name.
    Tier(String),
}

/// As `node`, `volume:7`, `initiator:7:iqn.2026-11.example:host`, `host:iqn.2026-11.example:host`, `device:2`, `tier:flash`.
impl fmt::Display for HistorySubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => formatter.write_str("node"),
            Self::Volume(volume) => write!(formatter, "volume:{volume}"),
            Self::Initiator(volume, name) => write!(formatter, "initiator:{volume}:{name}"),
            Self::Host(name) => write!(formatter, "host:{name}"),
            Self::Device(device) => write!(formatter, "device:{device}"),
            Self::Tier(tier) => write!(formatter, "tier:{tier}"),
        }
    }
}

/// That names nothing of which there is a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSubject;

impl FromStr for HistorySubject {
    type Err = UnknownSubject;

    fn from_str(text: &str) -> Result<Self, UnknownSubject> {
        let (kind, which) = text.split_once(':').unwrap_or((text, ""));
        let number = |text: &str| text.parse().map_err(|_| UnknownSubject);
        match kind {
            "node" if which.is_empty() => Ok(Self::Node),
            "volume" => number(which).map(Self::Volume),
            "device" => which.parse().map(Self::Device).map_err(|_| UnknownSubject),
            "tier" if !which.is_empty() => Ok(Self::Tier(which.to_owned())),
            "host" if !which.is_empty() => Ok(Self::Host(which.to_owned())),
            "initiator" => {
                let (volume, name) = which.split_once(':').ok_or(UnknownSubject)?;
                Ok(Self::Initiator(number(volume)?, name.to_owned()))
            }
            _ => Err(UnknownSubject),
        }
    }
}

/// What one node is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LocalHistoryQuery {
    /// Of what: `node`, `volume:7`, `initiator:7:iqn.2026-11.example:host`, `host:iqn.2026-11.example:host`, `device:2`,
    /// `tier:flash`; volumes by their ids, devices by their numbers.
    pub of: String,
    /// When the first step begins: seconds since 1970, a multiple of the step.
    pub from: u64,
    /// When the last one ends.
    pub until: u64,
    /// How long each is, in seconds.
    pub step: u32,
}

/// What one node has measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalHistory {
    /// The node's number.
    pub node: u16,
    /// The steps in which it measured, the earliest first.
    pub points: Vec<LocalHistoryPoint>,
}

/// What one node has measured in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalHistoryPoint {
    /// When it began: seconds since 1970.
    pub at: u64,
    /// Seconds of it in which the node measured.
    pub seconds: u64,
    /// Commands that read.
    #[serde(default, skip_serializing_if = "LocalFlow::is_empty")]
    pub reads: LocalFlow,
    /// Commands that write.
    #[serde(default, skip_serializing_if = "LocalFlow::is_empty")]
    pub writes: LocalFlow,
    /// Other commands.
    #[serde(default, skip_serializing_if = "LocalFlow::is_empty")]
    pub others: LocalFlow,
    /// How full it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// What only nodes are measured in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<LocalNodeMeasures>,
}

/// Commands of one kind, so that those of several nodes can be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalFlow {
    /// Bytes that they moved.
    pub bytes: u64,
    /// How long they took together, in microseconds.
    pub total_us: u64,
    /// How many there were of each length: the longest in it, in microseconds, and how many.
    pub latencies: Vec<(u64, u64)>,
}

impl LocalFlow {
    pub(super) fn is_empty(&self) -> bool {
        self.latencies.is_empty()
    }
}

/// What only nodes are measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalNodeMeasures {
    /// Sessions of initiators.
    pub sessions: Level,
    /// Segments of the journal that were in use.
    pub journal_used: Level,
    /// Segments of the journal.
    pub journal: Level,
    /// Blocks of 4 KiB that were read from memory.
    pub cache_hits: u64,
    /// Blocks of 4 KiB that were not.
    pub cache_misses: u64,
    /// Bytes that were copied to replicas that join.
    pub synced_bytes: u64,
}

/// How high something was, as often as it was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Level {
    /// Of all looks together.
    pub sum: u64,
    /// How often it was looked at.
    pub looks: u64,
    /// The highest.
    pub most: u64,
}

impl Level {
    /// The mean; zero if nobody looked.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.looks == 0 {
            return 0.0;
        }
        self.sum as f64 / self.looks as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_read_as_they_are_written() {
        let name = "iqn.2026-11.example:host:1".to_owned();
        for subject in [
            HistorySubject::Node,
            HistorySubject::Volume(7),
            HistorySubject::Initiator(7, name),
            HistorySubject::Device(2),
            HistorySubject::Tier("flash".to_owned()),
        ] {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
        for text in [
            "",
            "node:1",
            "volume",
            "volume:x",
            "device:70000",
            "initiator:7",
            "tier:",
        ] {
            assert_eq!(
                text.parse::<HistorySubject>(),
                Err(UnknownSubject),
                "{text}"
            );
        }
    }
}
