//! Between the cluster's words and etcd's: keys, transactions, events.
//!
//! Each cluster has the keys below a root of its own, so that several clusters share an etcd.
//!
//! Invariants:
//! - no key outside the root is read, watched or changed, whatever is asked;
//! - what etcd holds below the root and is not ours (a key that is no UTF-8) is not told.

use holdfast_model::ClusterId;
use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, Operation, OperationResult, Revision, Selector, Transaction,
    TransactionOutcome, WatchEvent,
};
use holdfast_stdx::Bytes;

use super::proto::{self, Request, RequestOp, Response, ResponseOp, Target};

/// Where a cluster's keys begin in etcd.
#[derive(Clone, Debug)]
pub(super) struct Root(String);

impl Root {
    pub(super) fn of(cluster: ClusterId) -> Self {
        Self(format!("/holdfast/{cluster}"))
    }

    fn key(&self, key: &str) -> Vec<u8> {
        [self.0.as_bytes(), key.as_bytes()].concat()
    }

    /// The key, and the first key behind the range or nothing.
    pub(super) fn selection(&self, selector: &Selector) -> (Vec<u8>, Vec<u8>) {
        match selector {
            Selector::Key(key) => (self.key(key), Vec::new()),
            Selector::Prefix(prefix) => {
                let begin = self.key(prefix);
                let mut end = begin.clone();
                // UTF-8 has no byte 0xFF, and the root is not empty: the last byte has a next one.
                *end.last_mut().expect("the root is not empty") += 1;
                (begin, end)
            }
        }
    }

    /// The cluster's word for a key of etcd's.
    fn own(&self, key: &[u8]) -> Option<String> {
        let own = key.strip_prefix(self.0.as_bytes())?;
        str::from_utf8(own).ok().map(str::to_owned)
    }

    fn key_value(&self, found: proto::KeyValue) -> Option<KeyValue> {
        Some(KeyValue {
            key: self.own(&found.key)?,
            value: Bytes::from(found.value),
            create_revision: revision(found.create_revision),
            mod_revision: revision(found.mod_revision),
            version: found.version.cast_unsigned(),
            lease: LeaseId(found.lease.cast_unsigned()),
        })
    }

    /// A request for no keys that still makes etcd ask its leader.
    pub(super) fn look(&self) -> proto::RangeRequest {
        proto::RangeRequest {
            key: self.0.clone().into_bytes(),
            range_end: Vec::new(),
            sort_order: 0,
            count_only: true,
        }
    }

    /// A transaction as etcd takes it. Where no branch does anything, each is given a look: etcd
    /// answers a transaction without operations from the memory of the member that it is sent to, be
    /// it far behind, and we promise that reads are linearizable.
    pub(super) fn transaction(&self, transaction: &Transaction) -> proto::TxnRequest {
        let branch = |operations: &[Operation]| {
            let looks = looks_only(transaction).then(|| Request::Range(self.look()));
            operations
                .iter()
                .map(|operation| self.operation(operation))
                .chain(looks)
                .map(|request| RequestOp {
                    request: Some(request),
                })
                .collect()
        };
        proto::TxnRequest {
            compare: transaction
                .compare
                .iter()
                .map(|one| self.compare(one))
                .collect(),
            success: branch(&transaction.success),
            failure: branch(&transaction.failure),
        }
    }

    fn operation(&self, operation: &Operation) -> Request {
        match operation {
            Operation::Range(selector) => {
                let (key, range_end) = self.selection(selector);
                Request::Range(proto::RangeRequest {
                    key,
                    range_end,
                    sort_order: proto::ASCENDING,
                    count_only: false,
                })
            }
            Operation::Put { key, value, lease } => Request::Put(proto::PutRequest {
                key: self.key(key),
                value: value.to_vec(),
                lease: lease.0.cast_signed(),
            }),
            Operation::Delete(selector) => {
                let (key, range_end) = self.selection(selector);
                Request::DeleteRange(proto::DeleteRangeRequest { key, range_end })
            }
        }
    }

    fn compare(&self, compare: &Compare) -> proto::Compare {
        let (key, target, equals) = match compare {
            Compare::ModRevision { key, equals } => (
                key,
                proto::TARGET_MOD,
                Target::ModRevision(equals.0.cast_signed()),
            ),
            Compare::Value { key, equals } => {
                (key, proto::TARGET_VALUE, Target::Value(equals.to_vec()))
            }
        };
        proto::Compare {
            result: 0,
            target,
            key: self.key(key),
            equals: Some(equals),
        }
    }

    /// What etcd answered to `asked`; nothing if that is no answer to it.
    pub(super) fn outcome(
        &self,
        asked: &Transaction,
        answer: proto::TxnResponse,
    ) -> Option<TransactionOutcome> {
        let branch = if answer.succeeded {
            &asked.success
        } else {
            &asked.failure
        };
        let mut responses = answer.responses;
        if looks_only(asked) {
            responses.pop();
        }
        if responses.len() != branch.len() {
            return None;
        }
        let results = branch
            .iter()
            .zip(responses)
            .map(|(operation, response)| self.result(operation, response));
        Some(TransactionOutcome {
            succeeded: answer.succeeded,
            revision: revision(answer.header?.revision),
            results: results.collect::<Option<_>>()?,
        })
    }

    fn result(&self, operation: &Operation, response: ResponseOp) -> Option<OperationResult> {
        match (operation, response.response?) {
            (Operation::Range(_), Response::Range(found)) => {
                let found = found.kvs.into_iter();
                let found = found.filter_map(|one| self.key_value(one)).collect();
                Some(OperationResult::Range(found))
            }
            (Operation::Put { .. }, Response::Put(_)) => Some(OperationResult::Put),
            (Operation::Delete(_), Response::DeleteRange(gone)) => {
                Some(OperationResult::Delete(gone.deleted.cast_unsigned()))
            }
            _ => None,
        }
    }

    pub(super) fn event(&self, event: proto::Event) -> Option<WatchEvent> {
        let found = event.kv?;
        if event.kind == proto::EVENT_DELETE {
            return Some(WatchEvent::Delete {
                key: self.own(&found.key)?,
                mod_revision: revision(found.mod_revision),
            });
        }
        self.key_value(found).map(WatchEvent::Put)
    }
}

/// Whether a transaction does nothing whichever branch is taken.
pub(super) fn looks_only(transaction: &Transaction) -> bool {
    transaction.success.is_empty() && transaction.failure.is_empty()
}

pub(super) fn revision(revision: i64) -> Revision {
    Revision(revision.cast_unsigned())
}
