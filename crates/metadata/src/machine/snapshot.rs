//! A store's state as it is read back from a disk.
//!
//! It comes from outside: whatever does not fit together is refused, never asserted.

use std::collections::BTreeSet;

use holdfast_model::metadata::{KeyValue, LeaseId, Revision, WatchEvent};
use holdfast_stdx::{Duration, Instant};

use super::history::History;
use super::lease::Leases;
use super::tree::Tree;
use super::watch::Watches;
use super::{HistoryLimits, Machine, Output, REVISION_FIRST};

/// All that a store must remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Of the newest change.
    pub revision: Revision,
    /// The keys.
    pub keys: Vec<KeyValue>,
    /// The first revision whose events are known.
    pub history_from: Revision,
    /// The events of each revision from there to the newest.
    pub history: Vec<Vec<WatchEvent>>,
    /// The leases, with their time to live.
    pub leases: Vec<(LeaseId, Duration)>,
    /// The next lease's id.
    pub lease_next: LeaseId,
}

/// Why a snapshot is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The history does not reach from its beginning to the newest revision.
    #[error("the history has a gap")]
    History,
    /// A key is newer than the store, older than itself, or there twice.
    #[error("a key does not fit the store's revision")]
    Key,
    /// A lease is not below the next lease's id, is there twice, or is missing.
    #[error("a key's lease is not known")]
    Lease,
}

impl Machine {
    /// The store as the snapshot tells; the time of each lease begins now. History beyond `limits`
    /// is forgotten, which `out` tells.
    ///
    /// # Errors
    /// [`SnapshotError`] if the snapshot's parts do not agree with each other.
    pub fn restore(
        limits: HistoryLimits,
        now: Instant,
        snapshot: Snapshot,
        out: &mut Output,
    ) -> Result<Self, SnapshotError> {
        let history = restore_history(limits, &snapshot)?;
        let leases = restore_leases(now, &snapshot)?;
        let mut machine = Self {
            revision: snapshot.revision,
            tree: Tree::default(),
            history,
            leases,
            watches: Watches::default(),
        };
        for key_value in snapshot.keys {
            machine.restore_key(key_value)?;
        }
        machine.history.trim(out);
        machine.assert_invariants();
        Ok(machine)
    }

    /// The state as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            revision: self.revision,
            keys: self.tree.all().cloned().collect(),
            history_from: self.history.first(),
            history: self.history.all(),
            leases: self.leases.all().collect(),
            lease_next: self.leases.next(),
        }
    }

    fn restore_key(&mut self, key_value: KeyValue) -> Result<(), SnapshotError> {
        let ordered = key_value.create_revision <= key_value.mod_revision
            && key_value.mod_revision <= self.revision
            && key_value.version > 0;
        if !ordered || self.tree.find(&key_value.key).is_some() {
            return Err(SnapshotError::Key);
        }
        if key_value.lease != LeaseId::default() && !self.leases.contains(key_value.lease) {
            return Err(SnapshotError::Lease);
        }
        self.leases.bind(key_value.lease, &key_value.key);
        self.tree.insert(key_value);
        Ok(())
    }
}

fn restore_history(limits: HistoryLimits, snapshot: &Snapshot) -> Result<History, SnapshotError> {
    let Snapshot {
        revision,
        history_from,
        history,
        ..
    } = snapshot;
    let end = history_from.0.checked_add(history.len() as u64);
    if *revision < REVISION_FIRST
        || *history_from <= REVISION_FIRST
        || end != revision.0.checked_add(1)
        || history.iter().any(Vec::is_empty)
    {
        return Err(SnapshotError::History);
    }
    let mut restored = History::new(limits, *history_from);
    for (number, events) in (history_from.0..).zip(history) {
        restored.push(Revision(number), events.clone());
    }
    Ok(restored)
}

fn restore_leases(now: Instant, snapshot: &Snapshot) -> Result<Leases, SnapshotError> {
    let ids: BTreeSet<_> = snapshot.leases.iter().map(|(lease, _)| *lease).collect();
    let made = |lease: &LeaseId| *lease > LeaseId::default() && *lease < snapshot.lease_next;
    if snapshot.lease_next == LeaseId::default()
        || ids.len() != snapshot.leases.len()
        || !ids.iter().all(made)
    {
        return Err(SnapshotError::Lease);
    }
    let mut restored = Leases::new(snapshot.lease_next);
    for (lease, time_to_live) in &snapshot.leases {
        restored.insert(now, *lease, *time_to_live);
    }
    Ok(restored)
}
