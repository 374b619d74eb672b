//! What an answer needs to know of the world around a unit: the target that it belongs to, and the
//! space beneath it.
//!
//! Who serves units brings it with each command, for it changes without the unit's doing.
//!
//! Invariants:
//! - a node's portal group tag (RFC 7143) and the relative identifier of its port are one number.

use alloc::vec::Vec;

use crate::alua::TargetPortGroup;
use crate::limits::{THRESHOLD_SET_BYTES, THRESHOLDS};

/// The world around a unit. What is not known is left out of answers, as in the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The target's iSCSI name; empty if there is none.
    pub target: &'a str,
    /// The target port groups. If there are none, access is symmetric, and hosts are told of no groups.
    pub groups: &'a [TargetPortGroup],
    /// The space beneath the unit.
    pub provisioning: Option<Provisioning>,
}

/// The space beneath a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioning {
    /// Bytes that the unit's blocks take.
    pub used_bytes: u64,
    /// Bytes that are left for blocks of the unit, and of others that share the space.
    pub available_bytes: u64,
    /// Hosts are told ([`UnitAttention::SoftThresholdReached`](crate::UnitAttention)) when no more
    /// than this is left: once for each, the highest first.
    pub thresholds_bytes: Option<[u64; THRESHOLDS]>,
}

impl Provisioning {
    /// Threshold sets (SBC-3, Logical block provisioning thresholds), as 32 bits hold them.
    pub(crate) fn sets(bytes: u64) -> u32 {
        u32::try_from(bytes / THRESHOLD_SET_BYTES).unwrap_or(u32::MAX)
    }
}

impl Surroundings<'_> {
    /// TARGET PORT GROUP of the port with that relative identifier.
    pub(crate) fn group_of(&self, port: u16) -> Option<&TargetPortGroup> {
        self.groups.iter().find(|group| group.ports.contains(&port))
    }

    /// The relative identifiers of all ports, ascending; `own` is one of them.
    pub(crate) fn ports(&self, own: u16) -> Vec<u16> {
        let mut ports: Vec<u16> = self.groups.iter().flat_map(|it| it.ports.clone()).collect();
        ports.push(own);
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}
