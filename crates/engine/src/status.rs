//! How a node stands, for its API: a snapshot that costs little.

use alloc::vec::Vec;

use holdfast_model::{Epoch, NodeId, SliceId, VolumeId};
use holdfast_store::Usage;

use crate::engine::Engine;

/// A node's view of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// The store is open, and no device has failed.
    pub open: bool,
    /// The metadata is being watched, and this node is registered in it.
    pub registered: bool,
    /// Peers that can be spoken to.
    pub peers: Vec<NodeId>,
    /// Sessions of initiators.
    pub sessions: usize,
    /// What the store holds.
    pub usage: Usage,
    /// Bytes that replicas led from here have copied to joining ones since the start.
    pub bytes_moved: u64,
    /// Replicas here.
    pub replicas: Vec<ReplicaStatus>,
    /// Volumes of which every slice can be reached from this portal.
    pub served: Vec<VolumeId>,
}

/// A replica here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The slice.
    pub slice: SliceId,
    /// Its epoch, as far as it is known here.
    pub epoch: Epoch,
    /// Whether it leads and serves.
    pub leads: bool,
    /// Pages that it holds.
    pub pages: u64,
    /// Blocks that are known to be bad here, and have not been mended yet.
    pub bad_blocks: u64,
    /// For a primary: who is being brought up to date, and bytes done of all.
    pub joining: Vec<(NodeId, u64, u64)>,
}

impl Engine {
    /// A snapshot.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        if !self.is_alive() {
            return NodeStatus::default();
        }
        let store = self.world.storage.store();
        let replicas = self.replicas.iter().map(|(slice, replica)| {
            let status = replica.status();
            ReplicaStatus {
                slice: *slice,
                epoch: status.epoch,
                leads: status.leads,
                pages: store.allocated_pages(*slice),
                bad_blocks: self.world.storage.bad_blocks(*slice),
                joining: status.joining,
            }
        });
        NodeStatus {
            open: true,
            registered: self.world.cluster.is_ready(),
            peers: self.world.peers.nodes().collect(),
            sessions: self.portal.sessions(),
            usage: store.usage(),
            bytes_moved: self.world.bytes_moved,
            replicas: replicas.collect(),
            served: self.served(),
        }
    }

    /// Volumes of which every slice is led from here, or by a peer that can be asked.
    fn served(&self) -> Vec<VolumeId> {
        let reaches = |slice: SliceId| {
            let record = self
                .world
                .cluster
                .slices
                .get(&slice)
                .map(|(record, _)| record);
            record.is_some_and(|record| {
                if record.primary == self.config.node {
                    self.replicas
                        .get(&slice)
                        .is_some_and(|replica| replica.leads().is_some())
                } else {
                    self.world.peers.link(record.primary).is_some()
                }
            })
        };
        let volumes = self.world.cluster.volumes.values();
        volumes
            .filter(|volume| {
                let id = volume.volume;
                (0..volume.slice_count()).all(|index| reaches(SliceId { volume: id, index }))
            })
            .map(|volume| volume.volume)
            .collect()
    }
}
