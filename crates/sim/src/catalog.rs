//! The slices' records as the metadata has them, kept along with its changes: they are looked at all
//! the time, and change seldom.
//!
//! Invariant: after every change that the catalog was told of, it is what a read of all would bring.

use std::collections::BTreeMap;

use holdfast_metadata::Machine;
use holdfast_metadata::machine::StoreChange;
use holdfast_model::SliceId;
use holdfast_model::metadata::WatchEvent;
use holdfast_model::record::{Record, SLICES_PREFIX, SliceRecord};

use crate::boot;

/// The records.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    slices: BTreeMap<SliceId, SliceRecord>,
    /// By key, for those that are deleted.
    keys: BTreeMap<String, SliceId>,
}

/// A record that has changed.
#[derive(Debug)]
pub(crate) struct Changed {
    /// `None` for a slice that was made.
    pub(crate) before: Option<SliceRecord>,
    pub(crate) after: SliceRecord,
}

impl Catalog {
    pub(crate) fn slice(&self, slice: SliceId) -> Option<&SliceRecord> {
        self.slices.get(&slice)
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &SliceRecord> {
        self.slices.values()
    }

    /// Another store has taken the place of the one before.
    pub(crate) fn read_anew(&mut self, machine: &Machine) {
        *self = Self::default();
        for record in boot::slices(machine) {
            self.put(record);
        }
    }

    /// Follows what has changed.
    pub(crate) fn follow(&mut self, changes: &[StoreChange]) -> Vec<Changed> {
        let mut changed = Vec::new();
        for change in changes {
            let StoreChange::Committed { events, .. } = change else {
                continue;
            };
            for event in events {
                match event {
                    WatchEvent::Put(pair) if pair.key.starts_with(SLICES_PREFIX) => {
                        let after = SliceRecord::decode(&pair.value);
                        let after = after.expect("our own records can be read");
                        let before = self.put(after.clone());
                        changed.push(Changed { before, after });
                    }
                    WatchEvent::Delete { key, .. } => {
                        if let Some(slice) = self.keys.remove(key) {
                            self.slices.remove(&slice);
                        }
                    }
                    WatchEvent::Put(_) => {}
                }
            }
        }
        changed
    }

    fn put(&mut self, record: SliceRecord) -> Option<SliceRecord> {
        let slice = record.slice;
        self.keys.insert(SliceRecord::key(slice), slice);
        self.slices.insert(slice, record)
    }
}
