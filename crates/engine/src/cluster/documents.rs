//! The metadata's documents, as they come into the view and go.
//!
//! Invariants:
//! - a document that cannot be read changes nothing in the view, and is told of once.

use alloc::collections::BTreeSet;
use alloc::string::String;

use holdfast_model::metadata::KeyValue;
use holdfast_model::record::{
    IntentRecord, NodeRecord, Record, ScrubRecord, ScrubbedRecord, SettingsRecord, SliceRecord,
    VolumeRecord, WishRecord,
};

use super::key::Key;
use super::{Change, Cluster};

impl Cluster {
    /// Everything that is in the view.
    pub(super) fn keys(&self) -> BTreeSet<Key> {
        let nodes = self.nodes.keys().copied().map(Key::Node);
        let volumes = self.volumes.keys().copied().map(Key::Volume);
        let slices = self.slices.keys().copied().map(Key::Slice);
        let wishes = self.wishes.keys().copied().map(Key::Wish);
        let intents = self.intents.keys().copied().map(Key::Intent);
        let scrubs = self.scrubs.keys().copied().map(Key::Scrub);
        let scrubbed = self.scrubbed.keys().copied().map(Key::Scrubbed);
        let all = nodes.chain(volumes).chain(slices).chain(wishes);
        let all = all.chain(intents).chain(scrubs).chain(scrubbed);
        all.chain([Key::Settings]).collect()
    }

    /// Takes a key as it stands into the view.
    pub(super) fn put(&mut self, pair: &KeyValue, fresh: bool) -> Option<Key> {
        self.notes.note(pair);
        let key = Key::parse(&pair.key)?;
        let readable = match key {
            Key::Node(node) => NodeRecord::decode(&pair.value).map(|record| {
                if self.nodes.insert(node, record.clone()) != Some(record) {
                    self.changes.push_back(Change::Node(node));
                }
            }),
            Key::Volume(volume) => VolumeRecord::decode(&pair.value).map(|record| {
                self.volumes.insert(volume, record);
                self.changes.push_back(Change::Volume);
            }),
            Key::Slice(slice) => SliceRecord::decode(&pair.value).map(|record| {
                self.past.hold(slice.volume);
                let known = self.slices.get(&slice).map(|(_, revision)| *revision);
                if known.is_none_or(|known| known <= pair.mod_revision) {
                    self.slices.insert(slice, (record, pair.mod_revision));
                }
                self.changes.push_back(Change::Slice { slice, fresh });
            }),
            Key::Wish(slice) => WishRecord::decode(&pair.value).map(|record| {
                self.wishes.insert(slice, record);
                self.changes.push_back(Change::Wish(slice));
            }),
            Key::Intent(node) => IntentRecord::decode(&pair.value).map(|record| {
                if self.intents.insert(node, record.clone()) != Some(record) {
                    self.changes.push_back(Change::Intent);
                }
            }),
            Key::Settings => SettingsRecord::decode(&pair.value).map(|record| {
                self.settings = record;
                self.changes.push_back(Change::Settings);
            }),
            Key::Scrub(volume) => ScrubRecord::decode(&pair.value).map(|record| {
                self.scrubs.insert(volume, record);
                self.changes.push_back(Change::Scrub);
            }),
            Key::Scrubbed(slice) => ScrubbedRecord::decode(&pair.value).map(|record| {
                self.scrubbed.insert(slice, record.round);
            }),
        };
        match readable {
            Ok(()) => self.unreadable.remove(&pair.key),
            Err(_) => self.pass_over(pair.key.clone()),
        };
        Some(key)
    }

    /// A document cannot be read.
    pub(super) fn pass_over(&mut self, key: String) -> bool {
        let is_news = self.unreadable.insert(key.clone());
        if is_news {
            self.changes.push_back(Change::Unreadable(key));
        }
        is_news
    }

    pub(super) fn delete(&mut self, key: Key) {
        if let Some(place) = key.note() {
            self.notes.forget(place);
        }
        match key {
            Key::Node(node) => {
                self.nodes.remove(&node);
                self.changes.push_back(Change::Node(node));
            }
            Key::Volume(volume) => {
                self.volumes.remove(&volume);
                self.changes.push_back(Change::Volume);
            }
            Key::Slice(slice) => {
                self.slices.remove(&slice);
                self.changes.push_back(Change::Slice { slice, fresh: true });
            }
            Key::Wish(slice) => {
                self.wishes.remove(&slice);
                self.changes.push_back(Change::Wish(slice));
            }
            Key::Intent(node) => {
                self.intents.remove(&node);
                self.changes.push_back(Change::Intent);
            }
            Key::Settings => {
                self.settings = SettingsRecord::default();
                self.changes.push_back(Change::Settings);
            }
            Key::Scrub(volume) => {
                self.scrubs.remove(&volume);
                self.changes.push_back(Change::Scrub);
            }
            Key::Scrubbed(slice) => {
                self.scrubbed.remove(&slice);
            }
        }
    }
}
