//! How a node makes itself known in the metadata: its record is read, and replaced if it is still
//! the one that was read.
//!
//! Invariants:
//! - every start of a node has an incarnation above those of all its earlier starts, whatever its
//!   store: a node that was emptied, or removed, counts on, and so names no command as its former
//!   self did;
//! - a registration that was given up, and arrives late, never replaces a later one;
//! - a store that was brought back from the past is registered only once nothing that it holds is
//!   relied on any more: until then every start finds out anew.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::Incarnation;
use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, Operation, OperationResult, Revision, Selector, TransactionOutcome,
};
use holdfast_model::record::{ClusterRecord, NodeRecord, Record};
use holdfast_store::UseIds;

/// What to do after the record was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is this start's.
    Done,
    /// The store lacks the use of it that is on record: somebody has brought back an old copy. To be asked
    /// again once what it holds is doubted.
    Doubt,
    /// To replace it.
    Replace(Vec<Compare>, Vec<Operation>),
}

/// A registration under way, or done.
#[derive(Debug)]
pub(crate) struct Registration {
    own: NodeRecord,
    use_ids: UseIds,
    /// The record that was last proposed: whoever reads it again knows that it has been taken.
    proposed: bool,
    is_doubted: bool,
}

impl Registration {
    /// Of a node with this record, whose incarnation is still to be found, and whose store knows these uses.
    pub(crate) fn new(own: NodeRecord, use_ids: UseIds) -> Self {
        Self {
            own,
            use_ids,
            proposed: false,
            is_doubted: false,
        }
    }

    /// What is read.
    pub(crate) fn range(&self) -> Operation {
        Operation::Range(Selector::Key(NodeRecord::key(self.own.node)))
    }

    /// The record as it was read, with the cluster's beside it.
    pub(crate) fn read(&mut self, outcome: &TransactionOutcome) -> Step {
        let found = match outcome.results.first() {
            Some(OperationResult::Range(found)) => found.first(),
            _ => None,
        };
        let known = found.and_then(|pair| NodeRecord::decode(&pair.value).ok());
        if self.proposed && known.as_ref() == Some(&self.own) {
            return Step::Done;
        }
        if !self.is_doubted && known.as_ref().is_some_and(|known| self.lacks_use_of(known)) {
            return Step::Doubt;
        }
        // A node that was removed has no record any more. Every start was a change of the metadata, so
        // that none had a higher number than the revision by now.
        let highest = Incarnation(outcome.revision.0);
        let before = known.map_or(highest, |known| known.incarnation);
        // Unless the metadata was lost, and the record with it.
        let before = before.max(floor(outcome));
        self.own.incarnation = before.next();
        self.proposed = true;
        self.replace(found)
    }

    /// What the store holds is relied on no more, durably.
    pub(crate) fn doubted(&mut self) {
        self.is_doubted = true;
    }

    /// Whether this node's store was used, in the past, without knowing. Its count tells only until it has
    /// been opened as often again; the ids of its uses tell always.
    fn lacks_use_of(&self, known: &NodeRecord) -> bool {
        if known.store != self.own.store {
            return false;
        }
        let id = self.use_ids.of(known.uses, self.own.uses);
        match id {
            _ if known.uses >= self.own.uses => true,
            Some(id) if known.use_id != 0 => id != known.use_id,
            _ => false,
        }
    }

    fn replace(&self, found: Option<&KeyValue>) -> Step {
        let key = NodeRecord::key(self.own.node);
        let compare = Compare::ModRevision {
            key: key.clone(),
            equals: found.map_or(Revision(0), |pair| pair.mod_revision),
        };
        let put = Operation::Put {
            key,
            value: self.own.encode(),
            lease: LeaseId(0),
        };
        Step::Replace(vec![compare], vec![put])
    }

    /// Which start of the node this is. Meaningful once the registration is done.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.own.incarnation
    }
}

/// From where starts are counted at least; told beside the node's own record.
fn floor(outcome: &TransactionOutcome) -> Incarnation {
    let cluster = match outcome.results.get(1) {
        Some(OperationResult::Range(found)) => found.first(),
        _ => None,
    };
    let record = cluster.and_then(|pair| ClusterRecord::decode(&pair.value).ok());
    record.map_or(Incarnation::ZERO, |record| record.incarnation_floor)
}

#[cfg(test)]
#[path = "registration_tests.rs"]
mod tests;
