//! A multi-version store as a pure machine: requests and the time go in, answers and what must be
//! made durable come out.
//!
//! It refuses to read a clock, to touch a disk or a socket, and to wait: whoever drives it holds
//! the answers back until the changes that came out with them, or before them, are durable.
//!
//! Invariants (checked by [`Machine::assert_invariants`]):
//! - the revision rises by one with every transaction that changes anything, and with nothing else;
//! - every live watch has been told of everything up to the current revision;
//! - the history is one list of events for each revision from its first to the current one;
//! - a key is bound to a lease that lives, or to none, and that lease knows the key;
//! - the same inputs give the same outputs, in the same order.

mod history;
mod lease;
mod snapshot;
mod tree;
mod watch;

use holdfast_model::metadata::{
    KEY_LENGTH_MAX, KeyValue, LeaseId, MetadataAnswer, MetadataError, MetadataRequest,
    MetadataToken, Operation, OperationResult, RANGE_BYTES_MAX, Revision, Selector, Transaction,
    TransactionOutcome, WatchEvent,
};
use holdfast_stdx::{Bytes, Duration, Instant};

use self::history::History;
use self::lease::Leases;
use self::tree::{Tree, key_value_bytes};
use self::watch::Watches;
use crate::limits::{self, KEY_OVERHEAD};

pub use self::history::HistoryLimits;
pub use self::snapshot::{Snapshot, SnapshotError};

/// Whoever asks: one connection, one node of a simulation. Watches belong to their client, and end
/// with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// An answer, and to whom it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// To whom.
    pub client: ClientId,
    /// To which of its requests.
    pub token: MetadataToken,
    /// The answer.
    pub answer: MetadataAnswer,
}

/// A change that must be durable before the answers that came out with it, or after it, are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChange {
    /// A revision came into being, with these events.
    Committed {
        /// The revision, one more than the last.
        revision: Revision,
        /// What happened in it; never empty.
        events: Vec<WatchEvent>,
    },
    /// A lease was made.
    LeaseGranted {
        /// The lease; ids rise and are never used again.
        lease: LeaseId,
        /// How long it lasts without being kept alive.
        time_to_live: Duration,
    },
    /// A lease ended; its keys went with the revision before this change.
    LeaseEnded(LeaseId),
    /// The events of revisions before this one are forgotten.
    HistoryFrom(Revision),
}

/// What comes out of the machine. Whoever drives it empties it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Answers, in their order.
    pub answers: Vec<Addressed>,
    /// Changes to make durable, in their order.
    pub changes: Vec<StoreChange>,
}

impl Output {
    fn answer(&mut self, client: ClientId, token: MetadataToken, answer: MetadataAnswer) {
        self.answers.push(Addressed {
            client,
            token,
            answer,
        });
    }
}

/// The store.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Of the newest change; 1 for a store in which nothing has happened, as in etcd.
    revision: Revision,
    tree: Tree,
    history: History,
    leases: Leases,
    watches: Watches,
}

/// Keys of an ended lease that go in one revision, so that its events fit into one answer. No lease
/// has nearly as many.
const LEASED_KEYS_PER_REVISION: usize = 32 << 10;

const _: () = assert!(
    LEASED_KEYS_PER_REVISION * (KEY_LENGTH_MAX + KEY_OVERHEAD) <= RANGE_BYTES_MAX,
    "the events of an ended lease fit into one answer"
);

/// The revision of a store in which nothing has happened.
const REVISION_FIRST: Revision = Revision(1);

impl Machine {
    /// An empty store that keeps as much history as `limits` say.
    #[must_use]
    pub fn new(limits: HistoryLimits) -> Self {
        Self {
            revision: REVISION_FIRST,
            tree: Tree::default(),
            history: History::new(limits, Revision(REVISION_FIRST.0 + 1)),
            leases: Leases::new(LeaseId(1)),
            watches: Watches::default(),
        }
    }

    /// The revision of the newest change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The first revision whose events are still known; one more than the current revision if none
    /// are.
    #[must_use]
    pub fn history_from(&self) -> Revision {
        self.history.first()
    }

    /// When [`Machine::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.leases.next_deadline()
    }

    /// Ends the leases whose time is over.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Output) {
        while let Some(lease) = self.leases.expired(now) {
            self.end_lease(lease, out);
        }
    }

    /// Carries out a request of `client`. Every request is answered here, but
    /// [`MetadataRequest::Unwatch`], after which there is nothing to tell.
    pub fn apply(
        &mut self,
        now: Instant,
        client: ClientId,
        token: MetadataToken,
        request: MetadataRequest,
        out: &mut Output,
    ) {
        // A lease is over at its deadline, whether or not the driver's timer was on time.
        self.handle_timeout(now, out);
        let answer = match limits::validate(&request) {
            Err(error) => Some(MetadataAnswer::Failed(error)),
            Ok(()) => self.dispatch(now, client, token, request, out),
        };
        if let Some(answer) = answer {
            out.answer(client, token, answer);
        }
    }

    /// Forgets a client and its watches. Its leases live on until their time is over.
    pub fn disconnect(&mut self, client: ClientId) {
        self.watches.remove_client(client);
    }

    /// Forgets the events of revisions before `from`; those after the current revision stay to
    /// come.
    pub fn compact(&mut self, from: Revision, out: &mut Output) {
        self.history
            .forget_before(Revision(from.0.min(self.revision.0 + 1)), out);
    }

    fn dispatch(
        &mut self,
        now: Instant,
        client: ClientId,
        token: MetadataToken,
        request: MetadataRequest,
        out: &mut Output,
    ) -> Option<MetadataAnswer> {
        let result = match request {
            MetadataRequest::Transact(transaction) => self
                .transact(transaction, out)
                .map(MetadataAnswer::Transacted),
            MetadataRequest::Watch { selector, from } => {
                return self.watch(client, token, selector, from, out);
            }
            MetadataRequest::Unwatch => {
                self.watches.remove(client, token);
                return None;
            }
            MetadataRequest::Grant { time_to_live } => self.grant(now, time_to_live, out),
            MetadataRequest::KeepAlive(lease) => self
                .leases
                .keep_alive(now, lease)
                .map(|()| MetadataAnswer::KeptAlive),
            MetadataRequest::Revoke(lease) => {
                if self.leases.contains(lease) {
                    self.end_lease(lease, out);
                    Ok(MetadataAnswer::Revoked)
                } else {
                    Err(MetadataError::NoSuchLease)
                }
            }
        };
        Some(result.unwrap_or_else(MetadataAnswer::Failed))
    }

    fn grant(
        &mut self,
        now: Instant,
        asked: Duration,
        out: &mut Output,
    ) -> Result<MetadataAnswer, MetadataError> {
        let time_to_live = limits::granted_time_to_live(asked);
        let lease = self.leases.grant(now, time_to_live)?;
        out.changes.push(StoreChange::LeaseGranted {
            lease,
            time_to_live,
        });
        Ok(MetadataAnswer::Granted {
            lease,
            time_to_live,
        })
    }

    fn end_lease(&mut self, lease: LeaseId, out: &mut Output) {
        for keys in self.leases.keys(lease).chunks(LEASED_KEYS_PER_REVISION) {
            let mut change = Pending::after(self.revision);
            for key in keys {
                self.delete(&Selector::Key(key.clone()), &mut change);
            }
            self.commit(change, out);
        }
        self.leases.remove(lease);
        out.changes.push(StoreChange::LeaseEnded(lease));
    }

    fn watch(
        &mut self,
        client: ClientId,
        token: MetadataToken,
        selector: Selector,
        from: Revision,
        out: &mut Output,
    ) -> Option<MetadataAnswer> {
        if self.watches.contains(client, token) || !self.watches.has_room(client) {
            return Some(MetadataAnswer::Failed(MetadataError::Invalid));
        }
        // Revisions before the first change have no events, so nobody can have missed one.
        let from = Revision(from.0.max(REVISION_FIRST.0 + 1));
        if from < self.history.first() {
            let gone = MetadataError::Compacted(self.history.first());
            return Some(MetadataAnswer::WatchEnded(gone));
        }
        for answer in watch::replay(&self.history, &selector, from, self.revision) {
            out.answer(client, token, answer);
        }
        self.watches.insert(client, token, selector, from);
        None
    }

    fn transact(
        &mut self,
        transaction: Transaction,
        out: &mut Output,
    ) -> Result<TransactionOutcome, MetadataError> {
        let succeeded = transaction
            .compare
            .iter()
            .all(|compare| self.tree.holds(compare));
        let operations = if succeeded {
            transaction.success
        } else {
            transaction.failure
        };
        self.admit(&operations)?;
        let mut change = Pending::after(self.revision);
        let results = operations
            .into_iter()
            .map(|operation| match operation {
                Operation::Range(selector) => {
                    OperationResult::Range(self.tree.select(&selector).cloned().collect())
                }
                Operation::Put { key, value, lease } => {
                    self.put(key, value, lease, &mut change);
                    OperationResult::Put
                }
                Operation::Delete(selector) => {
                    OperationResult::Delete(self.delete(&selector, &mut change))
                }
            })
            .collect();
        self.commit(change, out);
        Ok(TransactionOutcome {
            succeeded,
            revision: self.revision,
            results,
        })
    }

    /// Whether the operations can be done: after this none fails, so a transaction is done whole
    /// or not at all.
    fn admit(&self, operations: &[Operation]) -> Result<(), MetadataError> {
        let mut range_count = 0;
        let mut answer_bytes = 0;
        let mut put_bytes = 0;
        for operation in operations {
            match operation {
                Operation::Range(selector) => {
                    range_count += 1;
                    let found = self.tree.select(selector);
                    answer_bytes += found.map(key_value_bytes).sum::<usize>();
                }
                Operation::Put { key, value, lease } => {
                    if *lease != LeaseId::default() && !self.leases.contains(*lease) {
                        return Err(MetadataError::NoSuchLease);
                    }
                    put_bytes += key.len() + value.len() + KEY_OVERHEAD;
                }
                // Counted as well: its events go to the watches in one answer.
                Operation::Delete(selector) => {
                    let gone = self.tree.select(selector);
                    answer_bytes += gone.map(|one| one.key.len() + KEY_OVERHEAD).sum::<usize>();
                }
            }
        }
        // A range may find all that the same transaction puts.
        answer_bytes += range_count * put_bytes;
        let full = put_bytes > 0 && self.tree.bytes() + put_bytes > limits::STORE_BYTES_MAX;
        if answer_bytes > RANGE_BYTES_MAX || full {
            return Err(MetadataError::Invalid);
        }
        Ok(())
    }

    fn put(&mut self, key: String, value: Bytes, lease: LeaseId, change: &mut Pending) {
        let old = self.tree.find(&key);
        if let Some(old) = old {
            self.leases.unbind(old.lease, &key);
        }
        let new = KeyValue {
            create_revision: old.map_or(change.revision, |old| old.create_revision),
            version: old.map_or(1, |old| old.version + 1),
            mod_revision: change.revision,
            key,
            value,
            lease,
        };
        self.leases.bind(lease, &new.key);
        change.events.push(WatchEvent::Put(new.clone()));
        self.tree.insert(new);
    }

    fn delete(&mut self, selector: &Selector, change: &mut Pending) -> u64 {
        let gone = self.tree.remove(selector);
        let count = gone.len() as u64;
        for old in gone {
            self.leases.unbind(old.lease, &old.key);
            let event = WatchEvent::Delete {
                key: old.key,
                mod_revision: change.revision,
            };
            change.events.push(event);
        }
        count
    }

    /// Makes a revision of what changed, if anything did, and tells the watches.
    fn commit(&mut self, change: Pending, out: &mut Output) {
        let Pending { revision, events } = change;
        if events.is_empty() {
            return;
        }
        assert!(revision.0 == self.revision.0 + 1, "revisions rise by one");
        self.revision = revision;
        self.watches.tell(revision, &events, out);
        self.history.push(revision, events.clone());
        out.changes
            .push(StoreChange::Committed { revision, events });
        self.history.trim(out);
    }

    /// Panics if the machine's parts do not agree with each other. For tests and simulations: it
    /// reads everything.
    pub fn assert_invariants(&self) {
        assert!(
            self.history.end().0 == self.revision.0 + 1,
            "the history ends now"
        );
        self.tree.assert_invariants(self.revision);
        self.leases.assert_invariants(&self.tree);
    }
}

/// A revision in the making.
struct Pending {
    revision: Revision,
    events: Vec<WatchEvent>,
}

impl Pending {
    fn after(revision: Revision) -> Self {
        Self {
            revision: Revision(revision.0 + 1),
            events: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
