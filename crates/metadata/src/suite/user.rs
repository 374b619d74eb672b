//! A user of a store for tests: asks, and sorts the answers by their tokens.

use std::collections::{BTreeMap, VecDeque};

use holdfast_model::metadata::{
    Compare, KeyValue, LeaseId, MetadataAnswer, MetadataError, MetadataRequest, MetadataToken,
    Operation, OperationResult, Revision, Selector, Transaction, TransactionOutcome, WatchEvent,
};
use holdfast_stdx::{Bytes, Duration};

use crate::session::Session;

/// How long an answer may take. Far above what a store needs: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// One session, with what has been told to it and not been asked for yet.
#[derive(Debug)]
pub struct User {
    session: Session,
    next_token: u64,
    told: BTreeMap<MetadataToken, VecDeque<MetadataAnswer>>,
}

impl User {
    /// A user of `session`.
    #[must_use]
    pub fn new(session: Session) -> Self {
        Self {
            session,
            next_token: 1,
            told: BTreeMap::new(),
        }
    }

    /// Asks, without waiting for the answer.
    pub fn submit(&mut self, request: MetadataRequest) -> MetadataToken {
        let token = MetadataToken(self.next_token);
        self.next_token += 1;
        self.session.requests.submit(token, request);
        token
    }

    /// Asks under a token that is in use already.
    pub fn submit_again(&mut self, token: MetadataToken, request: MetadataRequest) {
        self.session.requests.submit(token, request);
    }

    /// The next answer to `token`.
    pub async fn answer(&mut self, token: MetadataToken) -> MetadataAnswer {
        loop {
            if let Some(answer) = self.told.get_mut(&token).and_then(VecDeque::pop_front) {
                return answer;
            }
            let received = tokio::time::timeout(PATIENCE, self.session.answers.recv()).await;
            let (token, answer) = received
                .unwrap_or_else(|_| panic!("no answer within {PATIENCE:?}"))
                .expect("the session lives");
            self.told.entry(token).or_default().push_back(answer);
        }
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&mut self, request: MetadataRequest) -> MetadataAnswer {
        let token = self.submit(request);
        self.answer(token).await
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// What the store says against it.
    pub async fn transact(
        &mut self,
        transaction: Transaction,
    ) -> Result<TransactionOutcome, MetadataError> {
        match self.ask(MetadataRequest::Transact(transaction)).await {
            MetadataAnswer::Transacted(outcome) => Ok(outcome),
            MetadataAnswer::Failed(error) => Err(error),
            other => panic!("a transaction is not answered by {other:?}"),
        }
    }

    /// Does one thing, whatever is there, and tells the revision after it.
    pub async fn perform(&mut self, operation: Operation) -> (Revision, OperationResult) {
        let transaction = Transaction {
            success: vec![operation],
            ..Transaction::default()
        };
        let outcome = self
            .transact(transaction)
            .await
            .expect("the operation is valid");
        assert!(outcome.succeeded, "no condition holds always");
        let [result] = <[_; 1]>::try_from(outcome.results).expect("one operation, one result");
        (outcome.revision, result)
    }

    /// Sets a key, and tells at which revision.
    pub async fn put(&mut self, key: &str, value: &str) -> Revision {
        self.perform(put(key, value)).await.0
    }

    /// Deletes keys, and tells how many there were.
    pub async fn delete(&mut self, selector: Selector) -> (Revision, u64) {
        match self.perform(Operation::Delete(selector)).await {
            (revision, OperationResult::Delete(count)) => (revision, count),
            (_, other) => panic!("a delete is not answered by {other:?}"),
        }
    }

    /// Reads keys.
    pub async fn range(&mut self, selector: Selector) -> (Revision, Vec<KeyValue>) {
        match self.perform(Operation::Range(selector)).await {
            (revision, OperationResult::Range(found)) => (revision, found),
            (_, other) => panic!("a range is not answered by {other:?}"),
        }
    }

    /// Reads a key.
    pub async fn find(&mut self, name: &str) -> Option<KeyValue> {
        let mut found = self.range(key(name)).await.1;
        assert!(found.len() <= 1, "a key is there once");
        found.pop()
    }

    /// The store's revision.
    pub async fn revision(&mut self) -> Revision {
        let nothing = Transaction::default();
        self.transact(nothing)
            .await
            .expect("doing nothing is valid")
            .revision
    }

    /// Makes a lease.
    pub async fn grant(&mut self, time_to_live: Duration) -> LeaseId {
        self.grant_life(time_to_live).await.0
    }

    /// Makes a lease, and tells how long it lasts: etcd may give it longer than was asked.
    pub async fn grant_life(&mut self, time_to_live: Duration) -> (LeaseId, Duration) {
        match self.ask(MetadataRequest::Grant { time_to_live }).await {
            MetadataAnswer::Granted {
                lease,
                time_to_live: given,
            } => {
                assert!(given >= time_to_live, "a lease lasts as long as was asked");
                (lease, given)
            }
            other => panic!("a grant is not answered by {other:?}"),
        }
    }

    /// Begins a watch.
    pub fn watch(&mut self, selector: Selector, from: Revision) -> MetadataToken {
        self.submit(MetadataRequest::Watch { selector, from })
    }

    /// What a watch tells up to `until`, over however many connections.
    pub async fn events(&mut self, watch: MetadataToken, until: Revision) -> Vec<WatchEvent> {
        let mut seen = Vec::new();
        let mut last = Revision(0);
        while last < until {
            match self.answer(watch).await {
                MetadataAnswer::Watched { revision, events } => {
                    assert!(revision >= last, "a watch goes forward");
                    for event in &events {
                        let happened = event_revision(event);
                        assert!(happened > last, "nothing is told twice, or late");
                        assert!(happened <= revision, "what is told has happened");
                    }
                    last = revision;
                    seen.extend(events);
                }
                MetadataAnswer::WatchResumed => {}
                other => panic!("a watch is not answered by {other:?}"),
            }
        }
        seen
    }
}

/// This key.
#[must_use]
pub fn key(name: &str) -> Selector {
    Selector::Key(name.to_owned())
}

/// All keys that begin so.
#[must_use]
pub fn prefix(name: &str) -> Selector {
    Selector::Prefix(name.to_owned())
}

/// Sets a key that is bound to no lease.
#[must_use]
pub fn put(name: &str, value: &str) -> Operation {
    put_leased(name, value, LeaseId::default())
}

/// Sets a key that is bound to a lease.
#[must_use]
pub fn put_leased(name: &str, value: &str, lease: LeaseId) -> Operation {
    Operation::Put {
        key: name.to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease,
    }
}

/// The key was last changed then.
#[must_use]
pub fn changed_at(name: &str, equals: Revision) -> Compare {
    Compare::ModRevision {
        key: name.to_owned(),
        equals,
    }
}

/// When it happened.
#[must_use]
pub fn event_revision(event: &WatchEvent) -> Revision {
    match event {
        WatchEvent::Put(new) => new.mod_revision,
        WatchEvent::Delete { mod_revision, .. } => *mod_revision,
    }
}
