//! Which requests are well formed. Stores and clients check alike, so that what one store refuses
//! no other takes.
//!
//! Invariants:
//! - a request that passes is bounded in size, and changes a key once at most.

use std::collections::BTreeSet;

use holdfast_model::metadata::{
    Compare, KEY_LENGTH_MAX, MetadataError, MetadataRequest, Operation, Selector, TIME_TO_LIVE_MAX,
    TIME_TO_LIVE_MIN, TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX, Transaction,
    VALUE_LENGTH_MAX,
};
use holdfast_stdx::Duration;

/// Watches that one client may have at a time: a node watches a handful of prefixes.
pub const WATCHES_PER_CLIENT_MAX: usize = 1 << 10;
/// Leases in a store at most: some for each node, and each costs a timer.
pub const LEASES_MAX: usize = 1 << 14;
/// Bytes in all keys and values of a store at most: the records of some 60 volumes of the greatest
/// size, and little enough to be kept in memory.
pub const STORE_BYTES_MAX: usize = 256 << 20;
/// Memory that a key costs beyond its bytes, for limits that count bytes.
pub(crate) const KEY_OVERHEAD: usize = 128;

/// Checks a request against the limits of the language.
///
/// # Errors
/// [`MetadataError::Invalid`] if it breaks one.
pub fn validate(request: &MetadataRequest) -> Result<(), MetadataError> {
    let valid = match request {
        MetadataRequest::Transact(transaction) => transaction_is_valid(transaction),
        MetadataRequest::Watch { selector, .. } => selector_is_valid(selector),
        MetadataRequest::Grant { time_to_live } => {
            (TIME_TO_LIVE_MIN..=TIME_TO_LIVE_MAX).contains(time_to_live)
        }
        MetadataRequest::Unwatch | MetadataRequest::KeepAlive(_) | MetadataRequest::Revoke(_) => {
            true
        }
    };
    if valid {
        Ok(())
    } else {
        Err(MetadataError::Invalid)
    }
}

/// The time to live that a lease gets for the one asked: whole seconds, as in etcd.
pub(crate) fn granted_time_to_live(asked: Duration) -> Duration {
    let seconds = asked.as_secs() + u64::from(asked.subsec_nanos() > 0);
    Duration::from_secs(seconds)
}

fn transaction_is_valid(transaction: &Transaction) -> bool {
    let Transaction {
        compare,
        success,
        failure,
    } = transaction;
    let counts = [compare.len(), success.len(), failure.len()];
    if counts
        .into_iter()
        .any(|count| count > TRANSACTION_OPERATIONS_MAX)
    {
        return false;
    }
    let bytes: usize = compare.iter().map(compare_bytes).sum::<usize>()
        + success
            .iter()
            .chain(failure)
            .map(operation_bytes)
            .sum::<usize>();
    bytes <= TRANSACTION_BYTES_MAX
        && compare.iter().all(compare_is_valid)
        && branch_is_valid(success)
        && branch_is_valid(failure)
}

fn branch_is_valid(operations: &[Operation]) -> bool {
    operations.iter().all(operation_is_valid) && changes_each_key_once(operations)
}

/// etcd's rule: no key is put twice, and none is put that the same transaction deletes. (A key
/// that two deletes name goes with the first of them.)
fn changes_each_key_once(operations: &[Operation]) -> bool {
    let mut puts = BTreeSet::new();
    let all_new = operations.iter().all(|operation| match operation {
        Operation::Put { key, .. } => puts.insert(key.as_str()),
        Operation::Range(_) | Operation::Delete(_) => true,
    });
    let none_deleted = operations.iter().all(|operation| match operation {
        Operation::Delete(Selector::Key(key)) => !puts.contains(key.as_str()),
        Operation::Delete(Selector::Prefix(prefix)) => puts
            .range(prefix.as_str()..)
            .next()
            .is_none_or(|key| !key.starts_with(prefix.as_str())),
        Operation::Range(_) | Operation::Put { .. } => true,
    });
    all_new && none_deleted
}

fn operation_is_valid(operation: &Operation) -> bool {
    match operation {
        Operation::Range(selector) | Operation::Delete(selector) => selector_is_valid(selector),
        Operation::Put { key, value, .. } => key_is_valid(key) && value.len() <= VALUE_LENGTH_MAX,
    }
}

fn compare_is_valid(compare: &Compare) -> bool {
    match compare {
        Compare::ModRevision { key, .. } => key_is_valid(key),
        Compare::Value { key, equals } => key_is_valid(key) && equals.len() <= VALUE_LENGTH_MAX,
    }
}

/// A prefix may be empty: all keys begin so.
fn selector_is_valid(selector: &Selector) -> bool {
    match selector {
        Selector::Key(key) => key_is_valid(key),
        Selector::Prefix(prefix) => prefix.len() <= KEY_LENGTH_MAX,
    }
}

fn key_is_valid(key: &str) -> bool {
    (1..=KEY_LENGTH_MAX).contains(&key.len())
}

fn compare_bytes(compare: &Compare) -> usize {
    match compare {
        Compare::ModRevision { key, .. } => key.len(),
        Compare::Value { key, equals } => key.len() + equals.len(),
    }
}

fn operation_bytes(operation: &Operation) -> usize {
    match operation {
        Operation::Range(Selector::Key(key) | Selector::Prefix(key))
        | Operation::Delete(Selector::Key(key) | Selector::Prefix(key)) => key.len(),
        Operation::Put { key, value, .. } => key.len() + value.len(),
    }
}
