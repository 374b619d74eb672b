//! A replica in sync refuses nothing for want of room: whoever leads asks it before it takes a write that needs
//! some (`replication.md`, A write).
//!
//! One that has only just become in sync may: nobody asked it about the writes that were under way while it joined. So may one whose process was
//! started since, in the first epoch that begins then: what it had promised is forgotten, and what was under way comes once more.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_model::{Epoch, NodeId, SliceId};
use holdfast_wire::{Refusal, Refused};

use crate::catalog::Changed;
use crate::failure::Failure;

/// By slice.
#[derive(Debug, Default)]
pub(super) struct InSyncHasRoom(BTreeMap<SliceId, Members>);

/// Who is in sync and was in the epoch before, and in which epoch that is.
#[derive(Debug, Default)]
struct Members {
    epoch: Epoch,
    still: BTreeSet<NodeId>,
    /// Whose process has ended in it.
    ended: BTreeSet<NodeId>,
}

impl InSyncHasRoom {
    /// A record has changed.
    pub(super) fn changed(&mut self, Changed { before, after }: &Changed) {
        let before = before.iter().flat_map(|before| before.in_sync());
        let before: BTreeSet<NodeId> = before.collect();
        let members = self.0.entry(after.slice).or_default();
        if members.epoch != after.epoch {
            let ended = core::mem::take(&mut members.ended);
            let still = after.in_sync();
            let still = still.filter(|node| before.contains(node) && !ended.contains(node));
            members.still = still.collect();
            members.epoch = after.epoch;
        }
    }

    /// A process has ended.
    pub(super) fn process_ended(&mut self, node: NodeId) {
        for members in self.0.values_mut() {
            members.still.remove(&node);
            members.ended.insert(node);
        }
    }

    /// A replica whose devices work says that it cannot go on.
    pub(super) fn check(&self, node: NodeId, refused: &Refused) -> Result<(), Failure> {
        let slice = refused.slice;
        let members = self.0.get(&slice);
        let is_in_sync =
            members.is_some_and(|it| it.epoch == refused.epoch && it.still.contains(&node));
        if refused.refusal != Refusal::Failed || !is_in_sync {
            return Ok(());
        }
        Err(Failure::Invariant {
            name: "in_sync_has_room",
            what: format!("{node} is in sync on {slice}, and refuses"),
        })
    }
}
