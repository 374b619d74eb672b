//! What an operator does about nodes whose devices are small: each gets another one.

use holdfast_engine::Condition;
use holdfast_model::NodeId;
use holdfast_stdx::Duration;
use holdfast_wire::Message;

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

    /// A replica may say that it cannot go on.
    pub(super) fn check_refusal(
        &mut self,
        process: ProcessId,
        message: &Message,
    ) -> Result<(), Failure> {
        let Message::Refused(refused) = message else {
            return Ok(());
        };
        // With a device that fails all replicas are out, and the process ends.
        if self.running(process).is_none() || self.views(process.node).is_empty() {
            return Ok(());
        }
        self.invariants.refused(process.node, refused)
    }
}
