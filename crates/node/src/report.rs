//! What the node tells its API about itself.

use std::time::SystemTime;

use holdfast_api::documents::{
    LocalJoining, LocalReport, LocalSlice, LocalStall, LocalVolume, Room,
};
use holdfast_engine::{NodeStatus, ReplicaStatus, Usage, VolumeStatus};
use holdfast_model::{Incarnation, PAGE_SIZE};

use crate::config::NodeConfig;
use crate::{clock, stalls};

/// What does not change while the node runs.
pub(crate) struct Reporter {
    node: u16,
    name: String,
    incarnation: Incarnation,
    /// Reports that were made.
    made: u64,
}

impl Reporter {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        Self {
            node: config.node.0,
            name: config.name.clone(),
            incarnation: Incarnation::ZERO,
            made: 0,
        }
    }

    /// The devices are open: this is which start of theirs it is.
    pub(crate) fn opened(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// The report for this state of the engine.
    pub(crate) fn report(&mut self, status: &NodeStatus) -> LocalReport {
        self.made += 1;
        LocalReport {
            node: self.node,
            name: self.name.clone(),
            incarnation: self.incarnation.0,
            process: std::process::id(),
            number: self.made,
            open: status.open,
            room: room(&status.usage),
            volumes: status.volumes.iter().map(volume).collect(),
            slices: status.replicas.iter().map(slice).collect(),
            stalled: stalled(status),
            background_rate: status.background_rate,
        }
    }
}

fn stalled(status: &NodeStatus) -> Vec<LocalStall> {
    let (now, wall) = (clock::now(), SystemTime::now());
    let stalled = status.stalled.iter();
    stalled
        .map(|stall| stalls::local(stall, now, wall))
        .collect()
}

fn room(usage: &Usage) -> Room {
    Room {
        bytes: usage.pages * PAGE_SIZE as u64,
        used_bytes: (usage.pages_used + usage.pages_reserved) * PAGE_SIZE as u64,
    }
}

fn volume(status: &VolumeStatus) -> LocalVolume {
    LocalVolume {
        volume: status.volume.0,
        serving: status.served,
        sessions: status.sessions,
    }
}

fn slice(replica: &ReplicaStatus) -> LocalSlice {
    let joining = replica.joining.iter();
    LocalSlice {
        volume: replica.slice.volume.0,
        index: replica.slice.index,
        epoch: replica.epoch.0,
        serving: replica.leads,
        used_bytes: replica.pages * PAGE_SIZE as u64,
        bad_blocks: replica.bad_blocks,
        joining: joining
            .map(|(node, progress)| LocalJoining {
                node: node.0,
                bytes_done: progress.bytes_done,
                bytes_total: progress.bytes_total,
                bytes_moved: progress.bytes_moved,
            })
            .collect(),
    }
}
