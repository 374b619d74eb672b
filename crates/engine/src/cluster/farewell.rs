//! How this node says in the metadata that it ends because it was told to: whoever looks for it then knows that it is not lost.
//!
//! Invariants:
//! - only the process says so that is the node on record, as long as it is;
//! - where it cannot be said at once it is tried again, until the node has ended.

use alloc::vec;

use holdfast_model::NodeId;
use holdfast_model::metadata::{MetadataAnswer, Operation};
use holdfast_model::record::{Record, StopRecord};
use holdfast_stdx::Instant;

use super::{Cluster, Purpose, RETRY};

/// How far it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Farewell {
    /// There is nothing to be said, or nothing more.
    #[default]
    No,
    /// It is to be said, from then on.
    Due(Instant),
    /// It is under way.
    Asked,
}

impl Cluster {
    /// This process ends because it was told to: says so, now or when something may be changed. Somebody who is not the node on
    /// record says nothing.
    pub(crate) fn say_stopped(&mut self, now: Instant, node: NodeId) {
        let is_on_record = self.registered && self.rejection().is_none();
        if is_on_record && !self.is_astray() && self.successor(node).is_none() {
            self.farewell = Farewell::Due(now);
        }
    }

    /// Says it.
    pub(super) fn bid_farewell(&mut self) {
        let own = self.own();
        let (is_still_on_record, record) = (own.as_registered(), own.stop());
        let put = Operation::put(StopRecord::key(record.node), record.encode());
        self.farewell = Farewell::Asked;
        self.transact(Purpose::SayStopped, vec![is_still_on_record], vec![put]);
    }

    /// When it is tried to say it, if it is to be said, and something may be changed.
    pub(super) fn farewell_due(&self) -> Option<Instant> {
        match self.farewell {
            Farewell::Due(due) if self.may_change() => Some(due),
            _ => None,
        }
    }

    /// Whether it is to be said still.
    pub(crate) fn is_saying_stopped(&self) -> bool {
        self.farewell != Farewell::No
    }

    /// What came of it: said, or another process is the node by now; or nobody knows.
    pub(super) fn farewell_answered(&mut self, now: Instant, answer: &MetadataAnswer) {
        self.farewell = match answer {
            MetadataAnswer::Failed(_) => Farewell::Due(now + RETRY),
            _ => Farewell::No,
        };
    }
}
