//! What an operator does about nodes whose devices are small: each gets another one. And what such a node may do.
//!
//! Invariant: a replica in sync refuses nothing for want of room: whoever leads has asked it before.

use holdfast_engine::Condition;
use holdfast_model::NodeId;
use holdfast_model::record::Membership;
use holdfast_stdx::Duration;
use holdfast_wire::{Message, Refusal};

use super::device_changes::DeviceChange;
use super::node::ProcessId;
use super::{Cluster, Fault};
use crate::failure::Failure;

/// A number that picks a new device.
const NEW: u16 = 1;

impl Cluster {
    /// Every node gets a second device. Says whether there is still something to be waited for.
    pub(crate) fn add_room(&mut self) -> bool {
        let mut waits = false;
        for node in self.node_ids() {
            self.look_for_room(node);
            if self.devices(node).len() > 1 {
                continue;
            }
            waits = true;
            if !self.invariants.has_device_orders(node) {
                let added = Fault::Device(node, DeviceChange::Add(NEW));
                self.plan_fault(Duration::ZERO, added);
            }
        }
        waits
    }

    fn look_for_room(&mut self, node: NodeId) {
        let Some(process) = &self.nodes[&node].process else {
            return;
        };
        let replicas = process.engine.status().replicas;
        if replicas.iter().any(|it| it.condition == Condition::NoRoom) {
            self.watch.coverage.reach("sync", "waits for room");
        }
    }

    /// A replica in sync says that it cannot go on only if a device has failed.
    pub(super) fn check_refusal(
        &mut self,
        process: ProcessId,
        message: &Message,
    ) -> Result<(), Failure> {
        let Message::Refused(refused) = message else {
            return Ok(());
        };
        let node = process.node;
        // With a device that fails all replicas are out, and the process ends.
        let has_failed = self.running(process).is_none() || self.views(node).is_empty();
        if refused.refusal != Refusal::Failed || has_failed {
            return Ok(());
        }
        let mut records = self.slices().filter(|it| it.slice == refused.slice);
        let record = records.find(|it| it.epoch == refused.epoch);
        let replica = record.and_then(|record| record.replica(node));
        let is_in_sync = replica.is_some_and(|it| it.membership == Membership::InSync);
        if !is_in_sync {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "in_sync_has_room",
            what: format!("{node} is in sync on {}, and refuses", refused.slice),
        })
    }
}
