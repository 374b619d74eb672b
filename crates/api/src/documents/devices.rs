//! Documents about the devices of a node.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AwaitedCause, Room};

/// What is done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// It takes data.
    InUse,
    /// It takes none, and what it holds goes to the node's other devices.
    Draining,
    /// It takes none, and holds none: it can be removed.
    Drained,
    /// What it holds goes to the node's other devices, or is brought by other nodes if it is absent, and then
    /// it is removed.
    Leaving,
    /// It was not there when the node started. If it is there at the next start, it is used again.
    Missing,
    /// It has failed, and what is on it counts no more.
    Lost,
}

impl DeviceState {
    /// The words that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in-use",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Leaving => "leaving",
            Self::Missing => "missing",
            Self::Lost => "lost",
        }
    }
}

/// The class of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceTier {
    /// Fast; slots are given out here first.
    #[default]
    Flash,
    /// Large.
    Capacity,
}

impl DeviceTier {
    /// The word that documents and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::Capacity => "capacity",
        }
    }
}

/// What is at the path of a device that the node has open, and that is there no more, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Detached {
    /// Nothing.
    Nothing,
    /// Another file or block device.
    Another,
    /// The device itself, shorter than it was when it was opened.
    CutShort,
    /// What this version does not know.
    #[serde(other)]
    Other,
}

impl Detached {
    /// What is so, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing is at its path any more",
            Self::Another => "something else is at its path now",
            Self::CutShort => "its file is shorter than it was",
            Self::Other => "its path does not lead to it any more",
        }
    }
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Its number among those that the node has had, from 0. It is never another's.
    pub number: u16,
    /// Where the node has found it, or where it was; empty if that is not known.
    pub path: String,
    /// Its class.
    pub tier: DeviceTier,
    /// What is done with it.
    pub state: DeviceState,
    /// Whether the node's journal is on it.
    pub journal: bool,
    /// Whether the journal is somewhere else, and could go there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub journal_room: bool,
    /// Whether the node does without it: it was not there when the node started, or has failed. What was on it
    /// is brought by other nodes.
    #[serde(default)]
    pub is_absent: bool,
    /// Bytes of pages that it can hold.
    pub bytes: u64,
    /// Bytes of pages that it holds: of one that is draining, those that are left; of one that is absent, what
    /// is lacking because of all that are.
    pub used_bytes: u64,
    /// Bytes in a second by which that becomes less, over the last ten seconds; zero of one that takes data.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// Seconds until nothing of it is left, at this rate; null of a device that takes data, and if there is no
    /// rate to tell it from.
    #[serde(default)]
    pub seconds_left: Option<u64>,
    /// Bytes that it held when that began to become less, or when its node last started if that was later; null of a device that
    /// takes data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_bytes: Option<u64>,
    /// Blocks of 4 KiB on it that are known to be bad, and have not been fetched from other nodes yet.
    #[serde(default)]
    pub bad_blocks: u64,
    /// What is at its path instead of it, if it was taken away, or cut short, while the node has it open: the node goes on with it
    /// until it ends, and does not find it, or not use it, when it is started again. Null of a device that is where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<Detached>,
    /// The 99th percentile of how long its operations took, of the last minute: microseconds, an eighth too much at most. Null of
    /// one that has done fewer than ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p99_us: Option<u64>,
}

/// The devices of one class, and their room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TierRoom {
    /// The class.
    pub tier: DeviceTier,
    /// Devices of it that take data.
    pub devices: u32,
    /// The room on them.
    pub room: Room,
}

/// The devices of a node, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceList {
    /// The devices; none while they are not open.
    pub devices: Vec<Device>,
    /// The device that the node waits for before it opens them; null if it waits for none.
    #[serde(default)]
    pub awaited_device: Option<String>,
    /// Why it waits for that device; null if it waits for none, or is of a version that does not say it.
    #[serde(default)]
    pub awaited_cause: Option<AwaitedCause>,
}

/// What is to be done with a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "order", rename_all = "lowercase", deny_unknown_fields)]
pub enum DeviceChange {
    /// The node gets one more, which must be blank.
    Add {
        /// Its absolute path on the node's machine: a block device, or a file that is there.
        path: String,
        /// Its class.
        #[serde(default)]
        tier: DeviceTier,
        /// The number of the device whose place it takes: what that one holds goes to the others, and then
        /// it is removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<u16>,
        /// Whether room is left on it for the node's journal, so that this can go there. One that takes the place
        /// of the journal's device has it anyway.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        journal_room: bool,
    },
    /// What it holds goes to the node's other devices, and the journal to one that has room for it.
    Drain {
        /// Its number.
        device: u16,
    },
    /// It takes data again: what was ordered is called off. What has gone elsewhere stays there.
    Resume {
        /// Its number.
        device: u16,
    },
    /// It is the node's no more: it must be drained, or absent with nothing lacking any more.
    Remove {
        /// Its number.
        device: u16,
        /// What is lacking because it is absent is given up, where no other node has it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        give_up: bool,
    },
}

/// As the log of what was done has it.
impl fmt::Display for DeviceChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { path, replaces, .. } => {
                write!(formatter, "add device {path}")?;
                replaces.map_or(Ok(()), |device| write!(formatter, " for device {device}"))
            }
            Self::Drain { device } => write!(formatter, "drain device {device}"),
            Self::Resume { device } => write!(formatter, "resume device {device}"),
            Self::Remove { device, give_up } => {
                let given_up = if *give_up {
                    ", give up what is lacking"
                } else {
                    ""
                };
                write!(formatter, "remove device {device}{given_up}")
            }
        }
    }
}
