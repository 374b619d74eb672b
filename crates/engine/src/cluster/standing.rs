//! Whether this node is who it says: how it becomes that, what others want, and when it is not any more.
//!
//! Invariants:
//! - a bid to be this node is deleted by the process that is, and by no other;
//! - why the node is not registered is told once, and again when the reason is another one.

use alloc::vec;

use holdfast_model::metadata::{
    Compare, KeyValue, Operation, Revision, Selector, TransactionOutcome,
};
use holdfast_model::record::{BidRecord, NodeRecord, Record, RecordError};
use holdfast_model::{NodeId, StoreId};
use holdfast_stdx::Instant;

use super::{Change, Cluster, Purpose, RETRY};
use crate::Notice;
use crate::registration::{Registration, Step};
use crate::rejection::{BID_TIME, Rejection};

/// What stands in the way of this node, or of another process that wants to be it.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// This node's devices are blank: it is looked whether they may be formatted under its number.
    is_blank: bool,
    rejection: Option<Rejection>,
    /// A bid of somebody else to be this node, and the revision as of which it was put.
    bid: Option<Revision>,
    /// Whose bid was told of.
    told: Option<StoreId>,
}

impl Standing {
    /// The devices are blank.
    pub(super) fn begin_blank(&mut self) {
        self.is_blank = true;
    }
}

impl Cluster {
    /// Why this node is not registered, if it is not because of somebody else.
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
            own.read(now, outcome)
        };
        match step {
            Step::Free => {
                self.standing.is_blank = false;
                self.accepted();
                self.changes.push_back(Change::Free);
            }
            Step::Done => self.registered(),
            Step::Newer(key) => {
                self.register_retry = Some(now + RETRY);
                self.pass_over(key);
            }
            Step::Doubt => self.changes.push_back(Change::Doubtful),
            Step::Rejected(rejection) => {
                self.register_retry = Some(now + rejection.retry());
                self.reject(rejection);
            }
            Step::Bid(compare, success) => {
                self.question(outcome);
                self.transact(Purpose::Bid, compare, success);
            }
            Step::Wait(until) => {
                self.question(outcome);
                self.register_retry = Some(until);
            }
            Step::Replace(compare, success) => {
                self.transact(Purpose::Register, compare, success);
            }
        }
    }

    /// How it ended that a bid was made: it stands, or is looked for.
    pub(super) fn bid_answered(&mut self, now: Instant, outcome: Option<&TransactionOutcome>) {
        let done = outcome.filter(|outcome| outcome.succeeded);
        let stands = done.map(|outcome| outcome.revision);
        if let Some(revision) = stands {
            self.own().bid_stands(now, revision);
        }
        let rest = stands.map_or(RETRY, |_| BID_TIME);
        self.register_retry = Some(now + rest);
    }

    fn reject(&mut self, rejection: Rejection) {
        if self.standing.rejection.as_ref() != Some(&rejection) {
            let notice = Notice::Rejected(rejection.clone());
            self.changes.push_back(Change::Tell(notice));
            self.standing.rejection = Some(rejection);
        }
    }

    /// It is being found out whether somebody else is this node. What was found out before counts meanwhile.
    fn question(&mut self, outcome: &TransactionOutcome) {
        let is_known = matches!(self.standing.rejection, Some(Rejection::Running { .. }));
        let question = self.own().in_question(outcome);
        if let Some(question) = question.filter(|_| !is_known) {
            self.reject(question);
        }
    }

    /// Nobody else is this node.
    pub(super) fn accepted(&mut self) {
        self.standing.rejection = None;
    }

    /// A bid to be a node, as it stands.
    pub(super) fn put_bid(&mut self, node: NodeId, pair: &KeyValue) -> Result<(), RecordError> {
        let bid = BidRecord::decode(&pair.value)?;
        let is_own = |registration: &Registration| {
            registration.node() == node && registration.is_bid_of_another(&bid)
        };
        if !self.registered || !self.registration.as_ref().is_some_and(is_own) {
            return Ok(());
        }
        self.standing.bid = Some(pair.mod_revision);
        if self.standing.told != Some(bid.store) {
            self.standing.told = Some(bid.store);
            let notice = Notice::Bid { peer: bid.peer };
            self.changes.push_back(Change::Tell(notice));
        }
        Ok(())
    }

    /// Objects to whoever bids to be this node, as long as it is.
    pub(super) fn object(&mut self) {
        let Some(equals) = self.standing.bid.take() else {
            return;
        };
        let node = self.own().node();
        if !self.may_change() || self.successor(node).is_some() {
            return;
        }
        let key = BidRecord::key(node);
        let compare = Compare::ModRevision {
            key: key.clone(),
            equals,
        };
        let delete = Operation::Delete(Selector::Key(key));
        self.transact(Purpose::Object, vec![compare], vec![delete]);
    }

    /// It is unknown whether the bid is gone: everything is read again.
    pub(super) fn objection_failed(&mut self, now: Instant) {
        if !self.is_listing() {
            self.retry = Some(now + RETRY);
        }
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
