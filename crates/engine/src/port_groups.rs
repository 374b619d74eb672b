//! Asymmetric access (SPC-4 5.15.2): which nodes are the short way to a volume, as hosts are told.
//!
//! Each node is a target port group of its own, with one port. It is active/optimized where it holds in-sync replicas of at least
//! half of the volume's slices: there reads are local, and writes are for every other slice. Else it is active/non-optimized, and
//! takes the same commands. A node that has no link here is unavailable, as far as is known here: what it says itself counts for
//! who reaches it. A slice that nobody serves changes nothing, nor does a primary that is being replaced.
//!
//! Invariants:
//! - a group's number is its node's, and never changes;
//! - hosts are told of a change for the worse once it has lasted for a while: states do not flap with every replica that comes or goes.
//!   That a node can be reached they are told at once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::record::SliceRecord;
use holdfast_model::{NodeId, VolumeId};
use holdfast_scsi::{AccessState, StatusCode, TargetPortGroup, UnitAttention};
use holdfast_stdx::{Duration, Instant};

use crate::engine::Engine;

/// How long after a record has changed it is looked at the states: many change together.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// How long a group has to be worse than hosts were told before they hear of it: what a restart, or a hand-over, changes for a moment
/// nobody has to hear of.
const WORSE_AFTER: Duration = Duration::from_secs(1);

/// The groups of every volume, as hosts are told.
#[derive(Debug, Default)]
pub(crate) struct PortGroups {
    groups: BTreeMap<VolumeId, Vec<TargetPortGroup>>,
    /// Since when groups are worse than hosts have been told.
    worse_since: BTreeMap<(VolumeId, u16), Instant>,
    /// Volumes of which something has changed.
    changed: BTreeSet<VolumeId>,
    due: Option<Instant>,
}

impl PortGroups {
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// What hosts have been told of a node's group.
    pub(crate) fn told(&self, volume: VolumeId, node: NodeId) -> Option<AccessState> {
        let groups = self.groups.get(&volume)?;
        let group = groups.iter().find(|group| group.group == node.0)?;
        Some(group.state)
    }

    /// It is looked at what has changed as soon as possible.
    fn hurry(&mut self, now: Instant) {
        if !self.changed.is_empty() {
            self.due = Some(now);
        }
    }

    /// Something has happened to a volume that may change states.
    fn note(&mut self, now: Instant, volume: VolumeId) {
        let due = match self.groups.contains_key(&volume) {
            true => now + LOOK_AFTER,
            // Until it is known, hosts are told of no groups at all.
            false => now,
        };
        self.look_at(volume, due);
    }

    fn look_at(&mut self, volume: VolumeId, due: Instant) {
        self.changed.insert(volume);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Puts what was told in the place of states that are worse, and have not been for long.
    fn wait_for_worse(&mut self, now: Instant, volume: VolumeId, groups: &mut [TargetPortGroup]) {
        let told = self.groups.get(&volume).into_iter().flatten();
        let told: BTreeMap<u16, AccessState> =
            told.map(|group| (group.group, group.state)).collect();
        for group in groups {
            let key = (volume, group.group);
            let Some(told) = told.get(&group.group).filter(|told| **told < group.state) else {
                self.worse_since.remove(&key);
                continue;
            };
            let since = *self.worse_since.entry(key).or_insert(now);
            if now < since + WORSE_AFTER {
                group.state = *told;
                self.look_at(volume, since + WORSE_AFTER);
            } else {
                self.worse_since.remove(&key);
            }
        }
    }

    fn forget(&mut self, volume: VolumeId) {
        self.groups.remove(&volume);
        self.worse_since.retain(|(of, _), _| *of != volume);
    }
}

/// In how many slices of a volume each node is in sync, and would like to lead; and how many there are.
#[derive(Default)]
struct Holdings {
    in_sync: BTreeMap<NodeId, usize>,
    preferred: BTreeMap<NodeId, usize>,
    slices: usize,
}

impl Holdings {
    fn of<'a>(records: impl Iterator<Item = &'a SliceRecord>) -> Self {
        let mut holdings = Self::default();
        for record in records {
            holdings.slices += 1;
            *holdings.preferred.entry(record.preferred).or_default() += 1;
            for node in record.in_sync() {
                *holdings.in_sync.entry(node).or_default() += 1;
            }
        }
        holdings
    }

    fn group(&self, node: NodeId, is_reached: bool) -> TargetPortGroup {
        let in_sync = self.in_sync.get(&node).copied().unwrap_or(0);
        let preferred = self.preferred.get(&node).copied().unwrap_or(0);
        let state = if !is_reached {
            AccessState::Unavailable
        } else if 2 * in_sync >= self.slices {
            AccessState::ActiveOptimized
        } else {
            AccessState::ActiveNonOptimized
        };
        TargetPortGroup {
            group: node.0,
            state,
            preferred: self.slices > 0 && preferred == self.slices,
            status: StatusCode::Implicit,
            ports: vec![node.0],
        }
    }
}

impl Engine {
    /// A slice's record is another, or a volume is.
    pub(crate) fn note_port_groups(&mut self, volume: VolumeId) {
        self.port_groups.note(self.world.now, volume);
    }

    /// Nodes have come or gone.
    pub(crate) fn note_all_port_groups(&mut self) {
        let now = self.world.now;
        for volume in self.world.cluster.volumes.keys() {
            self.port_groups.note(now, *volume);
        }
    }

    /// A node can be reached, or cannot any more.
    pub(crate) fn look_at_port_groups_soon(&mut self) {
        self.note_all_port_groups();
        self.port_groups.hurry(self.world.now);
    }

    /// Looks at the states of volumes of which something has changed, and tells hosts.
    pub(crate) fn look_at_port_groups(&mut self) {
        let now = self.world.now;
        if self.port_groups.due.is_none_or(|due| due > now) {
            return;
        }
        self.port_groups.due = None;
        for volume in core::mem::take(&mut self.port_groups.changed) {
            let Some(mut groups) = self.port_groups_now(volume) else {
                self.port_groups.forget(volume);
                self.volumes.set_groups(volume, Vec::new());
                continue;
            };
            self.port_groups.wait_for_worse(now, volume, &mut groups);
            let before = self.port_groups.groups.insert(volume, groups.clone());
            if before.as_ref() == Some(&groups) {
                continue;
            }
            self.volumes.set_groups(volume, groups);
            // At first nobody has been told anything.
            if before.is_some() {
                // SPC-4 5.15.2.7.
                let attention = UnitAttention::AccessStateChanged;
                self.portal.raise(&self.volumes, volume, attention);
            }
        }
    }

    fn port_groups_now(&self, volume: VolumeId) -> Option<Vec<TargetPortGroup>> {
        let cluster = &self.world.cluster;
        cluster.volumes.get(&volume)?;
        let holdings = Holdings::of(cluster.slices_of(volume));
        let nodes = cluster.nodes.keys().copied();
        let nodes = nodes.filter(|node| cluster.belongs(*node));
        let groups = nodes.map(|node| {
            let is_reached = node == self.config.node || self.world.peers.link(node).is_some();
            holdings.group(node, is_reached)
        });
        Some(groups.collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use holdfast_model::record::{Membership, ReplicaRecord};
    use holdfast_model::{Epoch, Incarnation, SliceId, StoreId};

    use super::*;

    /// A slice of the first volume, which the first of those in sync leads.
    pub(crate) fn record(index: u32, preferred: u16, in_sync: &[u16]) -> SliceRecord {
        let replica = |node: &u16| ReplicaRecord {
            node: NodeId(*node),
            store: StoreId(1),
            membership: Membership::InSync,
        };
        SliceRecord {
            schema: 1,
            slice: SliceId {
                volume: VolumeId(1),
                index,
            },
            epoch: Epoch(1),
            primary: NodeId(in_sync[0]),
            preferred: NodeId(preferred),
            replicas: in_sync.iter().map(replica).collect(),
            copies_min: 1,
            bytes_moved: 0,
            proposer: (NodeId(1), Incarnation(1)),
            nonce: 0,
            recovery: None,
        }
    }

    #[test]
    fn who_has_half_of_it_is_the_short_way() {
        use AccessState::{ActiveNonOptimized, ActiveOptimized, Unavailable};
        let records = [record(0, 1, &[1, 2]), record(1, 1, &[1, 3])];
        let holdings = Holdings::of(records.iter());
        for (node, is_reached, state, preferred) in [
            (1, true, ActiveOptimized, true),
            (2, true, ActiveOptimized, false),
            (4, true, ActiveNonOptimized, false),
            (2, false, Unavailable, false),
        ] {
            let group = holdings.group(NodeId(node), is_reached);
            assert_eq!((group.state, group.preferred), (state, preferred), "{node}");
            assert_eq!((group.group, group.ports), (node, vec![node]));
        }
        let records = [0, 1, 2].map(|index| record(index, 1, &[1, 2 + u16::from(index == 2)]));
        let holdings = Holdings::of(records.iter());
        assert_eq!(holdings.group(NodeId(3), true).state, ActiveNonOptimized);
    }
}
