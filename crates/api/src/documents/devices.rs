//! Documents about the devices of a node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// What it holds goes to the node's other devices, and then it is removed.
    Leaving,
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

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Its number among those that the node has had, from 0. It is never another's.
    pub number: u16,
    /// Where the node has found it.
    pub path: String,
    /// Its class.
    pub tier: DeviceTier,
    /// What is done with it.
    pub state: DeviceState,
    /// Whether the node's journal is on it: then it can be neither drained nor removed.
    pub journal: bool,
    /// Bytes of pages that it can hold.
    pub bytes: u64,
    /// Bytes of pages that it holds: of one that is draining, those that are left.
    pub used_bytes: u64,
}

/// The devices of a node, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceList {
    /// The devices; none while they are not open.
    pub devices: Vec<Device>,
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
    },
    /// What it holds goes to the node's other devices.
    Drain {
        /// Its number.
        device: u16,
    },
    /// It is the node's no more: it must be drained.
    Remove {
        /// Its number.
        device: u16,
    },
}
