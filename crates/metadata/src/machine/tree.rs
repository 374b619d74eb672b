//! The keys as they stand now.
//!
//! Invariants:
//! - `bytes` is the sum over all keys of what they are counted for.

use std::collections::BTreeMap;
use std::ops::Bound;

use holdfast_model::metadata::{Compare, KeyValue, Revision, Selector};

use crate::limits::KEY_OVERHEAD;

/// All keys, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    keys: BTreeMap<String, KeyValue>,
    bytes: usize,
}

/// What a key is counted for.
pub(super) fn key_value_bytes(key_value: &KeyValue) -> usize {
    key_value.key.len() + key_value.value.len() + KEY_OVERHEAD
}

impl Tree {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn find(&self, key: &str) -> Option<&KeyValue> {
        self.keys.get(key)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &KeyValue> {
        self.keys.values()
    }

    /// The keys that `selector` names, in their order.
    pub(super) fn select<'a>(
        &'a self,
        selector: &'a Selector,
    ) -> impl Iterator<Item = &'a KeyValue> {
        let (first, whole) = match selector {
            Selector::Key(key) => (key.as_str(), true),
            Selector::Prefix(prefix) => (prefix.as_str(), false),
        };
        self.keys
            .range::<str, _>((Bound::Included(first), Bound::Unbounded))
            .map(|(_, key_value)| key_value)
            .take_while(move |found| match whole {
                true => found.key == first,
                false => found.key.starts_with(first),
            })
    }

    pub(super) fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::ModRevision { key, equals } => {
                self.find(key)
                    .map_or(Revision(0), |found| found.mod_revision)
                    == *equals
            }
            Compare::Value { key, equals } => {
                self.find(key).is_some_and(|found| found.value == *equals)
            }
        }
    }

    pub(super) fn insert(&mut self, new: KeyValue) {
        self.bytes += key_value_bytes(&new);
        if let Some(old) = self.keys.insert(new.key.clone(), new) {
            self.bytes -= key_value_bytes(&old);
        }
    }

    pub(super) fn remove(&mut self, selector: &Selector) -> Vec<KeyValue> {
        let names: Vec<String> = self
            .select(selector)
            .map(|found| found.key.clone())
            .collect();
        names
            .into_iter()
            .map(|name| {
                let old = self
                    .keys
                    .remove(&name)
                    .expect("a selected key is in the tree");
                self.bytes -= key_value_bytes(&old);
                old
            })
            .collect()
    }

    pub(super) fn assert_invariants(&self, revision: Revision) {
        let bytes: usize = self.all().map(key_value_bytes).sum();
        assert_eq!(bytes, self.bytes, "the tree knows its size");
        for (key, value) in &self.keys {
            assert_eq!(key, &value.key, "a key is where it belongs");
            assert!(
                value.mod_revision <= revision,
                "no key is newer than the store"
            );
            assert!(
                value.create_revision <= value.mod_revision,
                "a key is made before it changes"
            );
            assert!(value.version > 0, "versions count from 1");
        }
    }
}
