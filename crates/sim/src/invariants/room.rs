//! A replica in sync refuses nothing for want of room: whoever leads asks it before it takes a write that needs
//! some (`replication.md`, A write).
//!
//! One that has only just become in sync may: nobody asked it about the writes that were under way while it joined.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{Epoch, NodeId, SliceId};
use holdfast_wire::{Refusal, Refused};

use crate::catalog::Changed;
use crate::failure::Failure;

/// Who is in sync and was in the epoch before, by slice, and in which epoch that is.
#[derive(Debug, Default)]
pub(super) struct InSyncHasRoom(BTreeMap<SliceId, (Epoch, BTreeSet<NodeId>)>);

impl InSyncHasRoom {
    /// A record has changed.
    pub(super) fn changed(&mut self, Changed { before, after }: &Changed) {
        let before = before.iter().flat_map(|before| before.in_sync());
        let before: BTreeSet<NodeId> = before.collect();
        let still = after.in_sync().filter(|node| before.contains(node));
        self.0.insert(after.slice, (after.epoch, still.collect()));
    }

    /// A replica whose devices work says that it cannot go on.
    pub(super) fn check(&self, node: NodeId, refused: &Refused) -> Result<(), Failure> {
        let slice = refused.slice;
        let is_in_sync = self
            .0
            .get(&slice)
            .is_some_and(|(epoch, nodes)| *epoch == refused.epoch && nodes.contains(&node));
        if refused.refusal != Refusal::Failed || !is_in_sync {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "in_sync_has_room",
            what: format!("{node} is in sync on {slice}, and refuses"),
        })
    }
}
