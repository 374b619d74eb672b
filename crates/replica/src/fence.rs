//! The fence of the slice's volume: under which access to it changes are numbered.
//!
//! Whoever has lost the right to write must not have anything written that was on its way then. A portal that has not heard of
//! it may still let writes in; what they are permitted by is told with them, and held against what is known here.
//!
//! Invariants:
//! - the fence never falls, and nothing is numbered that was permitted by an older access than is known here;
//! - a primary says that it goes by a fence only when everything that it has numbered under older ones is committed.

use holdfast_model::{Epoch, Fence, Sequence};
use holdfast_wire::OutcomeCode;

use crate::{Context, Replica, Role};

/// The version of the protocol that knows of fences.
pub const FENCES_SINCE: u16 = 7;

/// Whether a replica still has something that it numbered under a fence older than it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceState {
    /// It does not lead: it numbers nothing.
    Follows,
    /// It leads, and something is not committed.
    Draining,
    /// It leads in this epoch, and everything is.
    Clear(Epoch),
}

/// What a replica goes by.
#[derive(Debug, Default)]
pub(crate) struct Fenced {
    pub(crate) fence: Fence,
    /// What may have been numbered under older ones is up to here.
    through: Sequence,
}

impl Replica {
    /// The access to the volume has changed, so that somebody has lost a right. Writes that have no number yet end as
    /// fenced: their portals look again whether they are permitted.
    pub fn raise_fence(&mut self, context: &mut dyn Context, fence: Fence) {
        if fence <= self.fenced.fence {
            return;
        }
        let (_, through) = context.prepared();
        self.fenced = Fenced { fence, through };
        self.refuse_admitted(context, OutcomeCode::Fenced);
        self.maintain(context);
    }

    /// Whoever begins the epoch goes by this fence. Where it is newer than what this node knows of, nothing is read or numbered
    /// here before it does.
    pub(crate) fn hear_of_fence(&mut self, context: &dyn Context, fence: Fence) {
        if fence > self.fenced.fence {
            let (_, through) = context.prepared();
            self.fenced = Fenced { fence, through };
        }
    }

    /// The fence that it goes by.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fenced.fence
    }

    /// Whether what it numbered under older fences is over.
    pub fn fence_state(&self, context: &dyn Context) -> FenceState {
        let Role::Primary(primary) = &self.role else {
            return FenceState::Follows;
        };
        // Entries that were prepared then, and given up since, are waited for no more.
        let through = self.fenced.through.min(context.prepared().1);
        if primary.is_serving() && context.committed() >= through {
            FenceState::Clear(primary.epoch)
        } else {
            FenceState::Draining
        }
    }
}
