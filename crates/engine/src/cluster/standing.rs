//! Whether this node is who it says: how it becomes that, and when it is not any more.
//!
//! Invariant: why the node is not registered is told once, and again when the reason is another one.

use alloc::collections::BTreeSet;

use holdfast_model::metadata::TransactionOutcome;
use holdfast_model::record::NodeRecord;
use holdfast_model::report::NotedAt;
use holdfast_model::{ClusterId, NodeId};
use holdfast_stdx::Instant;

use super::{Change, Cluster, Purpose, RETRY};
use crate::Notice;
use crate::past::Past;
use crate::registration::{Registration, Step};
use crate::rejection::{REJECTED_RETRY, Rejection};

/// What stands in the way of this node.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// This node's devices are blank: it is looked whether they may be formatted under its number.
    is_blank: bool,
    rejection: Option<Rejection>,
}

impl Standing {
    /// Whether the node has nothing yet.
    pub(super) fn is_blank(&self) -> bool {
        self.is_blank
    }
}

impl Cluster {
    /// Looks whether the number is another node's, and takes it, before this one, whose devices are blank, has a
    /// store.
    pub(crate) fn look_first(&mut self, cluster: ClusterId, registration: Registration) {
        self.past = Past::new(cluster, BTreeSet::new(), NotedAt::default());
        self.registration = Some(registration);
        self.standing.is_blank = true;
        self.introduce();
    }

    /// Why this node is not registered, if it is not because of somebody else, or was removed.
    pub(crate) fn rejection(&self) -> Option<&Rejection> {
        self.standing.rejection.as_ref()
    }

    /// The record of the process that is this node by now, if that is another one.
    pub(crate) fn successor(&self, node: NodeId) -> Option<&NodeRecord> {
        let registration = self.registration.as_ref().filter(|_| self.registered)?;
        let record = self.nodes.get(&node)?;
        registration.is_displaced_by(record).then_some(record)
    }

    /// The metadata says who this node is.
    pub(super) fn introduced(&mut self, now: Instant, outcome: &TransactionOutcome) {
        let is_blank = self.standing.is_blank;
        let own = self.own();
        let step = if is_blank {
            own.look(outcome)
        } else {
            own.read(outcome)
        };
        match step {
            Step::Free => self.number_is_own(),
            Step::Take(compare, success) => {
                self.accepted();
                self.transact(Purpose::Take, compare, success);
            }
            Step::Done => self.registered(now),
            Step::Newer(key) => {
                self.register_retry = Some(now + RETRY);
                self.accepted();
                self.pass_over(key);
            }
            Step::Doubt => self.changes.push_back(Change::Doubtful),
            Step::Rejected(rejection) => {
                self.register_retry = Some(now + REJECTED_RETRY);
                self.reject(rejection);
            }
            // It was looked at long ago that nothing is lacking.
            Step::Replace(..) if self.rejection().is_some() => {
                self.accepted();
                self.has_looked = false;
                self.introduce();
            }
            Step::Replace(compare, success) => {
                self.transact(Purpose::Register, compare, success);
            }
        }
    }

    /// The number is this node's, which has blank devices: they may be formatted.
    pub(super) fn number_is_own(&mut self) {
        self.standing.is_blank = false;
        self.accepted();
        self.changes.push_back(Change::Free);
    }

    /// This node was removed from the cluster, as the metadata says to one that is registered.
    pub(crate) fn consider_removed(&mut self, node: NodeId, name: &str) {
        if !self.registered || self.is_astray() {
            return;
        }
        if self.nodes.contains_key(&node) {
            // Metadata of before was brought back.
            self.accepted();
        } else if !self.belongs(node) {
            let name = name.into();
            self.reject(Rejection::Removed { name });
        }
    }

    /// Where the machine was reached whose place this one has taken, if that had another store.
    pub(crate) fn former(&self) -> Option<&str> {
        self.registration.as_ref()?.former()
    }

    fn reject(&mut self, rejection: Rejection) {
        if self.standing.rejection.as_ref() != Some(&rejection) {
            let notice = Notice::Rejected(rejection.clone());
            self.changes.push_back(Change::Tell(notice));
            self.standing.rejection = Some(rejection);
        }
    }

    /// Nobody else is this node, as far as is known.
    pub(super) fn accepted(&mut self) {
        self.standing.rejection = None;
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
