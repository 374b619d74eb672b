//! The language in which nodes ask for what the cluster agrees on. Its meaning is that of etcd's
//! v3 API (revisions, compare-and-set transactions, watches from a revision, leases, compaction);
//! `crates/metadata` holds the stores that speak it.
//!
//! Invariants of every store:
//! - the revision rises by one with every transaction that changes anything, and with nothing else;
//! - an answer other than [`MetadataError`] means that the change is durable;
//! - events of a watch come in the order of revisions, none missing, none twice.

use alloc::string::String;
use alloc::vec::Vec;

use holdfast_stdx::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// The store's logical clock. Zero is before everything.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// A lease: keys bound to it go when it ends. Zero is no lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A key as it stands at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key: UTF-8, at most [`KEY_LENGTH_MAX`] bytes.
    pub key: String,
    /// The value, at most [`VALUE_LENGTH_MAX`] bytes.
    pub value: Bytes,
    /// When the key last came into being.
    pub create_revision: Revision,
    /// When it was last changed.
    pub mod_revision: Revision,
    /// How often it was put since it came into being, from 1.
    pub version: u64,
    /// The lease that it is bound to.
    pub lease: LeaseId,
}

/// Bytes in a key at most.
pub const KEY_LENGTH_MAX: usize = 1 << 10;
/// Bytes in a value at most: far below etcd's request limit of 1.5 MiB.
pub const VALUE_LENGTH_MAX: usize = 256 << 10;
/// Operations, and comparisons, in a transaction at most: etcd's default limit.
pub const TRANSACTION_OPERATIONS_MAX: usize = 128;
/// Bytes in all keys and values of a transaction at most, below etcd's request limit of 1.5 MiB.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 20;
/// Bytes in all keys and values that one transaction's ranges may answer: several times the slice
/// records of a volume of the greatest size.
pub const RANGE_BYTES_MAX: usize = 64 << 20;
/// The shortest life of a lease, etcd's own; longer ones are rounded up to whole seconds.
pub const TIME_TO_LIVE_MIN: Duration = Duration::from_secs(1);
/// The longest life of a lease.
pub const TIME_TO_LIVE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Which keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// This key.
    Key(String),
    /// All keys that begin so.
    Prefix(String),
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was last changed at this revision; [`Revision`] zero: it does not exist.
    ModRevision {
        /// The key.
        key: String,
        /// What its `mod_revision` must be.
        equals: Revision,
    },
    /// The key exists and has this value.
    Value {
        /// The key.
        key: String,
        /// What its value must be.
        equals: Bytes,
    },
}

/// One step of a transaction. A transaction changes a key once at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads keys, in their order.
    Range(Selector),
    /// Sets a key.
    Put {
        /// The key.
        key: String,
        /// Its new value.
        value: Bytes,
        /// The lease to bind it to; zero for none.
        lease: LeaseId,
    },
    /// Deletes keys; none there is no error.
    Delete(Selector),
}

impl Operation {
    /// Sets a key; no lease ends it.
    #[must_use]
    pub const fn put(key: String, value: Bytes) -> Self {
        let lease = LeaseId(0);
        Self::Put { key, value, lease }
    }
}

/// If all comparisons hold, `success` is done, else `failure`; all at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The conditions; none: they hold.
    pub compare: Vec<Compare>,
    /// Done if they hold.
    pub success: Vec<Operation>,
    /// Done if one does not.
    pub failure: Vec<Operation>,
}

impl Transaction {
    /// Whether nothing is changed, whichever branch is done.
    #[must_use]
    pub fn is_read(&self) -> bool {
        let mut operations = self.success.iter().chain(&self.failure);
        operations.all(|operation| matches!(operation, Operation::Range(_)))
    }
}

/// What one operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The keys found.
    Range(Vec<KeyValue>),
    /// Done.
    Put,
    /// How many keys went.
    Delete(u64),
}

/// What a transaction answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionOutcome {
    /// Whether the comparisons held.
    pub succeeded: bool,
    /// The store's revision after it.
    pub revision: Revision,
    /// An answer for each operation of the branch taken.
    pub results: Vec<OperationResult>,
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// It was set.
    Put(KeyValue),
    /// It went, by a delete or with its lease.
    Delete {
        /// The key.
        key: String,
        /// When.
        mod_revision: Revision,
    },
}

/// Names a request, or a watch, in its answers; drawn by whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataToken(pub u64);

/// What a node asks. Reads are linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataRequest {
    /// Runs a transaction (a read is one with a single `Range`).
    Transact(Transaction),
    /// Begins a watch of all changes to `selector` at revisions from `from` on. It lasts until
    /// [`MetadataAnswer::WatchEnded`] or [`MetadataRequest::Unwatch`].
    Watch {
        /// Which keys.
        selector: Selector,
        /// The first revision to tell of.
        from: Revision,
    },
    /// Ends the watch that was begun under the same token.
    Unwatch,
    /// Makes a lease.
    Grant {
        /// How long it lasts without being kept alive: [`TIME_TO_LIVE_MIN`] to
        /// [`TIME_TO_LIVE_MAX`].
        time_to_live: Duration,
    },
    /// Renews a lease.
    KeepAlive(LeaseId),
    /// Ends a lease, and the keys bound to it.
    Revoke(LeaseId),
}

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataAnswer {
    /// The transaction's outcome.
    Transacted(TransactionOutcome),
    /// Changes that a watch saw, in order. Everything up to `revision` has been told.
    Watched {
        /// What the watch has now told of.
        revision: Revision,
        /// The changes.
        events: Vec<WatchEvent>,
    },
    /// The watch goes on over another connection, and misses nothing: if what answers there is still the same store. It looks like it, as a copy
    /// does.
    WatchResumed,
    /// The watch is over and tells nothing more; begin anew from a fresh read.
    WatchEnded(MetadataError),
    /// The lease, with the time to live that was given.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// Its time to live.
        time_to_live: Duration,
    },
    /// The lease lives on.
    KeptAlive,
    /// The lease is gone.
    Revoked,
    /// The request failed.
    Failed(MetadataError),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The store cannot be reached, or did not answer. A transaction may or may not have been
    /// done: only a later read can tell.
    #[error("the metadata store cannot be reached")]
    Unavailable,
    /// The revision is older than what the store still knows.
    #[error("the history before revision {} is gone", .0.0)]
    Compacted(Revision),
    /// There is no such lease (any more).
    #[error("the lease has ended")]
    NoSuchLease,
    /// The request breaks a limit or a rule of this module; asking again will not help.
    #[error("the request is not well formed")]
    Invalid,
    /// The store has no room, and takes no change until an operator has made some. Nothing was done. It
    /// still answers reads.
    #[error("the metadata store is full, and takes no change")]
    Full,
}
