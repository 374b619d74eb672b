//! What the node tells its API about itself.

use holdfast_api::documents::{LocalJoining, LocalReport, LocalSlice, LocalVolume};
use holdfast_engine::{NodeStatus, ReplicaStatus};
use holdfast_model::{Incarnation, PAGE_SIZE};

use crate::config::NodeConfig;

/// What does not change while the node runs.
pub(crate) struct Reporter {
    node: u16,
    name: String,
    incarnation: Incarnation,
}

impl Reporter {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        Self {
            node: config.node.0,
            name: config.name.clone(),
            incarnation: Incarnation::ZERO,
        }
    }

    /// The devices are open: this is which start of theirs it is.
    pub(crate) fn opened(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// The report for this state of the engine.
    pub(crate) fn report(&self, status: &NodeStatus) -> LocalReport {
        LocalReport {
            node: self.node,
            name: self.name.clone(),
            incarnation: self.incarnation.0,
            process: std::process::id(),
            volumes: status
                .served
                .iter()
                .map(|volume| LocalVolume {
                    volume: volume.0,
                    serving: true,
                })
                .collect(),
            slices: status.replicas.iter().map(slice).collect(),
        }
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
            .map(|(node, bytes_done, bytes_total)| LocalJoining {
                node: node.0,
                bytes_done: *bytes_done,
                bytes_total: *bytes_total,
            })
            .collect(),
    }
}
