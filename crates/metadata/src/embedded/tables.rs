//! The store on its disk: one redb file.
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | `numbers` | `format`, `revision`, `history_from`, `lease_next` | 64 bits |
//! | `identity` | `cluster` | 128 bits |
//! | `keys` | the key | create, mod, version, lease (64 bits each), the value |
//! | `history` | revision | its events, as [`crate::codec`] writes them |
//! | `leases` | lease | time to live in nanoseconds |
//!
//! Invariants:
//! - one commit takes the file from the state after one group of requests to the state after the
//!   next: `numbers`, `keys`, `history` and `leases` always agree.

use holdfast_model::ClusterId;
use holdfast_model::metadata::{KeyValue, LeaseId, Revision, WatchEvent};
use holdfast_stdx::{Bytes, Duration};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{OpenError, StoreError};
use crate::codec::{self, CodecError, Encoded};
use crate::machine::{Machine, Snapshot, StoreChange};

const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const IDENTITY: TableDefinition<'_, &str, u128> = TableDefinition::new("identity");
const KEYS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("keys");
const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
const LEASES: TableDefinition<'_, u64, u64> = TableDefinition::new("leases");

/// The only layout that this version writes and reads. 1: the one above.
const FORMAT: u64 = 1;

/// Writes an empty store of `cluster`.
pub(super) fn initialize(database: &Database, cluster: ClusterId) -> Result<(), StoreError> {
    let empty = Machine::new(Default::default()).snapshot();
    let transaction = database.begin_write()?;
    {
        let mut numbers = transaction.open_table(NUMBERS)?;
        numbers.insert("format", FORMAT)?;
        numbers.insert("revision", empty.revision.0)?;
        numbers.insert("history_from", empty.history_from.0)?;
        numbers.insert("lease_next", empty.lease_next.0)?;
        transaction
            .open_table(IDENTITY)?
            .insert("cluster", cluster.0)?;
        transaction.open_table(KEYS)?;
        transaction.open_table(HISTORY)?;
        transaction.open_table(LEASES)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Reads the whole store.
pub(super) fn read(database: &Database, cluster: ClusterId) -> Result<Snapshot, OpenError> {
    let transaction = database.begin_read().map_err(StoreError::from)?;
    let numbers = transaction.open_table(NUMBERS).map_err(StoreError::from)?;
    let number = |name: &str| -> Result<u64, OpenError> {
        let found = numbers.get(name).map_err(StoreError::from)?;
        found.map(|value| value.value()).ok_or(OpenError::Damaged)
    };
    let format = number("format")?;
    if format != FORMAT {
        return Err(OpenError::Format(format));
    }
    let identity = transaction.open_table(IDENTITY).map_err(StoreError::from)?;
    let owner = identity
        .get("cluster")
        .map_err(StoreError::from)?
        .ok_or(OpenError::Damaged)?;
    let owner = ClusterId(owner.value());
    if owner != cluster {
        return Err(OpenError::Cluster {
            found: owner,
            expected: cluster,
        });
    }
    let mut snapshot = Snapshot {
        revision: Revision(number("revision")?),
        history_from: Revision(number("history_from")?),
        lease_next: LeaseId(number("lease_next")?),
        ..Snapshot::default()
    };
    let keys = transaction.open_table(KEYS).map_err(StoreError::from)?;
    for row in keys.iter().map_err(StoreError::from)? {
        let (key, value) = row.map_err(StoreError::from)?;
        snapshot.keys.push(decode_key(key.value(), value.value())?);
    }
    let history = transaction.open_table(HISTORY).map_err(StoreError::from)?;
    for (row, expected) in history
        .iter()
        .map_err(StoreError::from)?
        .zip(snapshot.history_from.0..)
    {
        let (revision, events) = row.map_err(StoreError::from)?;
        if revision.value() != expected {
            return Err(OpenError::Damaged);
        }
        snapshot
            .history
            .push(codec::from_bytes(events.value()).map_err(damaged)?);
    }
    let leases = transaction.open_table(LEASES).map_err(StoreError::from)?;
    for row in leases.iter().map_err(StoreError::from)? {
        let (lease, time_to_live) = row.map_err(StoreError::from)?;
        let time_to_live = Duration::from_nanos(time_to_live.value());
        snapshot.leases.push((LeaseId(lease.value()), time_to_live));
    }
    Ok(snapshot)
}

/// Makes the changes durable, all or none.
pub(super) fn write(database: &Database, changes: &[StoreChange]) -> Result<(), StoreError> {
    let transaction = database.begin_write()?;
    for change in changes {
        match change {
            StoreChange::Committed { revision, events } => {
                write_events(&transaction, *revision, events)?;
            }
            StoreChange::LeaseGranted {
                lease,
                time_to_live,
            } => {
                let nanoseconds = u64::try_from(time_to_live.as_nanos()).unwrap_or(u64::MAX);
                transaction
                    .open_table(LEASES)?
                    .insert(lease.0, nanoseconds)?;
                transaction
                    .open_table(NUMBERS)?
                    .insert("lease_next", lease.0 + 1)?;
            }
            StoreChange::LeaseEnded(lease) => {
                transaction.open_table(LEASES)?.remove(lease.0)?;
            }
            StoreChange::HistoryFrom(revision) => {
                transaction
                    .open_table(HISTORY)?
                    .retain_in(..revision.0, |_, _| false)?;
                transaction
                    .open_table(NUMBERS)?
                    .insert("history_from", revision.0)?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

fn write_events(
    transaction: &WriteTransaction,
    revision: Revision,
    events: &[WatchEvent],
) -> Result<(), StoreError> {
    let mut keys = transaction.open_table(KEYS)?;
    for event in events {
        match event {
            WatchEvent::Put(new) => {
                keys.insert(new.key.as_str(), encode_key(new).as_slice())?;
            }
            WatchEvent::Delete { key, .. } => {
                keys.remove(key.as_str())?;
            }
        }
    }
    let mut history = Vec::new();
    codec::encode_list(events, &mut history);
    transaction
        .open_table(HISTORY)?
        .insert(revision.0, history.as_slice())?;
    transaction
        .open_table(NUMBERS)?
        .insert("revision", revision.0)?;
    Ok(())
}

fn encode_key(key_value: &KeyValue) -> Vec<u8> {
    let mut target = Vec::new();
    key_value.create_revision.encode(&mut target);
    key_value.mod_revision.encode(&mut target);
    key_value.version.encode(&mut target);
    key_value.lease.encode(&mut target);
    target.extend_from_slice(&key_value.value);
    target
}

fn decode_key(key: &str, mut source: &[u8]) -> Result<KeyValue, OpenError> {
    let source = &mut source;
    Ok(KeyValue {
        key: key.to_owned(),
        create_revision: Encoded::decode(source).map_err(damaged)?,
        mod_revision: Encoded::decode(source).map_err(damaged)?,
        version: Encoded::decode(source).map_err(damaged)?,
        lease: Encoded::decode(source).map_err(damaged)?,
        value: Bytes::copy_from_slice(source),
    })
}

fn damaged(_: CodecError) -> OpenError {
    OpenError::Damaged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_is_refused_before_anything_else_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path().join("store.redb")).unwrap();
        let cluster = ClusterId(5);
        initialize(&database, cluster).unwrap();
        assert!(read(&database, cluster).is_ok());
        let transaction = database.begin_write().unwrap();
        let mut numbers = transaction.open_table(NUMBERS).unwrap();
        numbers.insert("format", FORMAT + 1).unwrap();
        numbers.remove("revision").unwrap();
        drop(numbers);
        transaction.commit().unwrap();
        // Another cluster's, for all that can be known of it.
        for cluster in [cluster, ClusterId(6)] {
            let refused = read(&database, cluster);
            assert!(
                matches!(refused, Err(OpenError::Format(format)) if format == FORMAT + 1),
                "{refused:?}"
            );
        }
    }
}
