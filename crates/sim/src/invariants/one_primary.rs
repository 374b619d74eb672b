//! Each epoch has at most one primary, and one start of its process (`architecture.md`, invariant
//! 3; PacificA, Primary Invariant).

use std::collections::BTreeMap;

use holdfast_engine::ReplicaView;
use holdfast_model::{Epoch, NodeId, SliceId};

use crate::failure::Failure;

/// Who has led what.
#[derive(Debug, Default)]
pub(super) struct OnePrimary {
    leaders: BTreeMap<(SliceId, Epoch), (NodeId, u64)>,
}

impl OnePrimary {
    pub(super) fn check(
        &mut self,
        node: NodeId,
        start: u64,
        view: &ReplicaView,
    ) -> Result<(), Failure> {
        let Some(epoch) = view.leads else {
            return Ok(());
        };
        let leader = self
            .leaders
            .entry((view.slice, epoch))
            .or_insert((node, start));
        // After a clean stop a primary goes on in its epoch: another start of the same node.
        if leader.0 == node {
            leader.1 = start;
            return Ok(());
        }
        let (slice, other) = (view.slice, leader.0);
        Err(Failure::Invariant {
            name: "one primary",
            what: format!("{node} and {other} both lead {slice} in {epoch}"),
        })
    }
}
