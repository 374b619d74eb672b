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

    /// The epoch in which this replica leads, if everything that it has numbered under an older fence is committed.
    pub fn goes_by_fence(&self, context: &dyn Context) -> Option<Epoch> {
        let Role::Primary(primary) = &self.role else {
            return None;
        };
        let is_drained = primary.is_serving() && context.committed() >= self.fenced.through;
        is_drained.then_some(primary.epoch)
    }
}
