//! How many copies there are, and what follows from there being too few.
//!
//! Invariant: what hosts want is committed in no fewer copies than the record asks for.

use holdfast_model::{CommandId, NodeId};

use super::Primary;
use super::member::{Loss, Member};
use crate::Context;

impl Primary {
    /// How many copies are in sync.
    pub(super) fn copies(&self) -> usize {
        1 + self.in_sync_members().count()
    }

    /// Whether a copy can be taken out.
    pub(crate) fn has_spare(&self) -> bool {
        self.copies() > self.copies_min && !self.unconfirmed
    }

    /// Whether nothing commits because an in-sync replica is gone that cannot be taken out.
    pub(super) fn waits_in_vain(&self, context: &dyn Context) -> bool {
        let now = context.now();
        let gone = |(node, member): (NodeId, &Member)| {
            member.loss(now, context.peer(node)) == Some(Loss::Gone)
        };
        !self.has_spare() && self.in_sync_members().any(gone)
    }

    /// Whether nothing commits before another replica is in sync: somebody is lost who cannot be spared, or there
    /// are too few. The epoch's first entry may be among what does not.
    pub(super) fn is_stuck(&self, context: &dyn Context) -> bool {
        let now = context.now();
        let is_lost =
            |(node, member): (NodeId, &Member)| member.loss(now, context.peer(node)).is_some();
        self.copies() < self.copies_min || self.in_sync_members().any(is_lost)
    }

    /// Whether something that hosts want would be committed in too few copies.
    pub(super) fn lacks_copies(&self) -> bool {
        let mut pending = self.pending.iter();
        self.copies() < self.copies_min
            && pending.any(|(_, command, _)| *command != CommandId::default())
    }
}
