//! What a node and its replicas hold for true, for whoever checks a cluster from outside: the simulator.

use alloc::vec::Vec;

use holdfast_model::record::{SettingsRecord, SliceRecord, VolumeRecord};
use holdfast_model::{CommandId, Entry, Epoch, Sequence, SliceId, VolumeId};
use holdfast_stdx::Instant;

use crate::engine::Engine;

/// A replica, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// The slice.
    pub slice: SliceId,
    /// The epoch that it leads and serves.
    pub leads: Option<Epoch>,
    /// The epoch in which it is in sync and has begun.
    pub in_sync: Option<Epoch>,
    /// Whether committed blocks may be read from it now.
    pub may_read: bool,
    /// Its last entry.
    pub prepared: (Epoch, Sequence),
    /// Its committed point.
    pub committed: Sequence,
}

impl Engine {
    /// Every replica here.
    pub fn views(&self, now: Instant) -> impl Iterator<Item = ReplicaView> {
        let replicas = self.replicas.iter().filter(|_| self.is_alive());
        replicas.map(move |(slice, replica)| ReplicaView {
            slice: *slice,
            leads: replica.leads(),
            in_sync: replica.in_sync_epoch(),
            may_read: replica.may_read(now),
            prepared: self.world.storage.store().prepared(*slice),
            committed: self.world.storage.store().committed(*slice),
        })
    }

    /// The slices' records by which this node goes, in order.
    pub fn slice_records(&self) -> impl Iterator<Item = &SliceRecord> {
        let slices = self.world.cluster.slices.values();
        slices.map(|(record, _)| record)
    }

    /// The volumes' records by which this node goes, in order.
    pub fn volume_records(&self) -> impl Iterator<Item = &VolumeRecord> {
        self.world.cluster.volumes.values()
    }

    /// The cluster's settings by which this node goes.
    #[must_use]
    pub fn settings(&self) -> &SettingsRecord {
        &self.world.cluster.settings
    }

    /// The commands that write to a volume and that are not over here: the parts of the portal's,
    /// and what replicas have not committed, or do not know to be.
    pub fn writes_under_way(&self, volume: VolumeId) -> Vec<CommandId> {
        let replicas = self
            .replicas
            .iter()
            .filter(|(slice, _)| slice.volume == volume);
        let replicas = replicas.flat_map(|(slice, replica)| {
            let committed = self.world.storage.store().committed(*slice);
            let entries = self.entries_above(*slice, committed);
            let logged = entries
                .map(|entry| entry.command)
                .filter(|command| *command != CommandId::default());
            replica.commands().into_iter().chain(logged)
        });
        self.parts.writes_of(volume).chain(replicas).collect()
    }

    /// The entries of a slice's log above a sequence, as far as they are kept.
    pub fn entries_above(
        &self,
        slice: SliceId,
        sequence: Sequence,
    ) -> impl Iterator<Item = &Entry> {
        self.world.storage.store().entries_above(slice, sequence)
    }
}
