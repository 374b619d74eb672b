//! How a node makes itself known in the metadata: its record is read, and replaced if it is still
//! the one that was read.
//!
//! Invariants:
//! - every start of a node has an incarnation above those of all its earlier starts, whatever its
//!   store: a node that was emptied, or removed, counts on, and so names no command as its former
//!   self did;
//! - a registration that was given up, and arrives late, never replaces a later one.

use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::Incarnation;
use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, Operation, OperationResult, Revision, Selector, TransactionOutcome,
};
use holdfast_model::record::{NodeRecord, Record};

/// What to do after the record was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is this start's.
    Done,
    /// To replace it.
    Replace(Vec<Compare>, Vec<Operation>),
}

/// A registration under way, or done.
#[derive(Debug)]
pub(crate) struct Registration {
    own: NodeRecord,
    /// The record that was last proposed: whoever reads it again knows that it has been taken.
    proposed: bool,
    behind: bool,
}

impl Registration {
    /// Of a node with this record, whose incarnation is still to be found.
    pub(crate) fn new(own: NodeRecord) -> Self {
        Self {
            own,
            proposed: false,
            behind: false,
        }
    }

    /// What is read.
    pub(crate) fn range(&self) -> Operation {
        Operation::Range(Selector::Key(NodeRecord::key(self.own.node)))
    }

    /// The record as it was read.
    pub(crate) fn read(&mut self, outcome: &TransactionOutcome) -> Step {
        let found = match outcome.results.first() {
            Some(OperationResult::Range(found)) => found.first(),
            _ => None,
        };
        let known = found.and_then(|pair| NodeRecord::decode(&pair.value).ok());
        if self.proposed && known.as_ref() == Some(&self.own) {
            return Step::Done;
        }
        self.behind = known
            .as_ref()
            .is_some_and(|known| known.store == self.own.store && known.uses >= self.own.uses);
        // A node that was removed has no record any more. Every start was a change of the metadata, so
        // that none had a higher number than the revision by now.
        let highest = Incarnation(outcome.revision.0);
        let before = known.map_or(highest, |known| known.incarnation);
        self.own.incarnation = before.next();
        self.proposed = true;
        self.replace(found)
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

    /// Whether this node's store was opened more often, in the past, than it remembers: somebody
    /// has brought back an old copy of it.
    pub(crate) fn store_is_behind(&self) -> bool {
        self.behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::{NodeId, StoreId};

    const READ_AT: Revision = Revision(9);

    fn own(store: u128, uses: u64) -> NodeRecord {
        NodeRecord {
            schema: 1,
            node: NodeId(1),
            name: "one".into(),
            store: StoreId(store),
            uses,
            incarnation: Incarnation::ZERO,
            portal: "127.0.0.1:1".into(),
            peer: "127.0.0.1:2".into(),
            api: "http://127.0.0.1:3".into(),
        }
    }

    /// The record that a start leaves behind, when it finds the one of the start before: it is read at
    /// [`READ_AT`].
    fn start(store: u128, uses: u64, before: Option<&NodeRecord>) -> (Registration, NodeRecord) {
        let mut registration = Registration::new(own(store, uses));
        let Step::Replace(compare, success) = registration.read(&holding(before)) else {
            panic!("nothing was proposed yet");
        };
        let equals = Revision(if before.is_some() { 7 } else { 0 });
        let key = NodeRecord::key(NodeId(1));
        assert_eq!(compare, [Compare::ModRevision { key, equals }]);
        let [Operation::Put { value, .. }] = &success[..] else {
            panic!("one key is set");
        };
        let record = NodeRecord::decode(value).expect("our own record");
        (registration, record)
    }

    fn holding(record: Option<&NodeRecord>) -> TransactionOutcome {
        let pair = record.map(|record| KeyValue {
            key: NodeRecord::key(record.node),
            value: record.encode(),
            create_revision: Revision(3),
            mod_revision: Revision(7),
            version: 1,
            lease: LeaseId(0),
        });
        TransactionOutcome {
            succeeded: true,
            revision: READ_AT,
            results: vec![OperationResult::Range(pair.into_iter().collect())],
        }
    }

    #[test]
    fn incarnations_rise_over_restarts_and_new_stores() {
        let (_, first) = start(5, 1, None);
        assert_eq!(first.incarnation, Incarnation(READ_AT.0 + 1));
        let (_, second) = start(5, 2, Some(&first));
        assert_eq!(second.incarnation, first.incarnation.next());
        let (emptied, third) = start(6, 1, Some(&second));
        assert_eq!(third.incarnation, second.incarnation.next());
        assert!(!emptied.store_is_behind());
    }

    /// Its record went with it. Each of its starts was a change, so that none had a higher number than
    /// the revision that it left behind.
    #[test]
    fn a_node_that_was_removed_counts_on() {
        let (_, first) = start(5, 1, None);
        let (_, second) = start(5, 2, Some(&first));
        let mut registration = Registration::new(own(5, 3));
        let mut outcome = holding(None);
        // Two registrations and the removal later.
        outcome.revision = Revision(READ_AT.0 + 3);
        assert!(matches!(registration.read(&outcome), Step::Replace(..)));
        assert!(registration.incarnation() > second.incarnation);
    }

    #[test]
    fn a_store_from_the_past_is_noticed() {
        let (_, before) = start(5, 4, None);
        assert!(start(5, 4, Some(&before)).0.store_is_behind());
        assert!(start(5, 3, Some(&before)).0.store_is_behind());
        assert!(!start(5, 5, Some(&before)).0.store_is_behind());
    }

    #[test]
    fn a_lost_answer_is_no_store_from_the_past() {
        let (mut registration, record) = start(5, 1, None);
        assert_eq!(registration.read(&holding(Some(&record))), Step::Done);
        assert!(!registration.store_is_behind());
        assert_eq!(registration.incarnation(), record.incarnation);
    }

    #[test]
    fn a_proposal_that_lost_to_an_older_start_is_made_again_above_it() {
        let (mut registration, _) = start(5, 3, None);
        let (_, ghost) = start(5, 2, None);
        let Step::Replace(..) = registration.read(&holding(Some(&ghost))) else {
            panic!("the record is another start's");
        };
        assert_eq!(registration.incarnation(), ghost.incarnation.next());
        assert!(!registration.store_is_behind());
    }
}
