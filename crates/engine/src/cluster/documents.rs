//! The metadata's documents, as they come into the view and go.
//!
//! Invariants:
//! - a document that cannot be read changes nothing in the view, and is told of once;
//! - that a volume was deleted while this node was off is concluded from nothing that may have another reason.

use alloc::collections::BTreeSet;
use alloc::string::String;

use holdfast_model::metadata::KeyValue;
use holdfast_model::record::{
    IntentRecord, NodeRecord, Record, ScrubRecord, ScrubbedRecord, SettingsRecord, SliceRecord,
    VolumeRecord, WishRecord,
};

use super::key::Key;
use super::{Change, Cluster};
use crate::Notice;

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
            let notice = Notice::Unreadable(key);
            self.changes.push_back(Change::Tell(notice));
        }
        is_news
    }

    /// Everything has been read: what the store holds of volumes that were deleted while this node was off is told of like
    /// what is deleted now. Metadata that was made again lacks what nobody told of, and what was left out: of such a volume
    /// all stays as it is.
    pub(super) fn tell_of_deleted(&mut self) {
        for slice in core::mem::take(&mut self.held) {
            let keys = [SliceRecord::key(slice), VolumeRecord::key(slice.volume)];
            let is_there = self.slices.contains_key(&slice)
                || self.volumes.contains_key(&slice.volume)
                || keys.iter().any(|key| self.unreadable.contains(key));
            if !is_there && self.notes.would_miss(slice.volume) {
                self.changes.push_back(Change::Slice { slice, fresh: true });
            }
        }
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

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use holdfast_model::metadata::{LeaseId, OperationResult, Revision, TransactionOutcome};
    use holdfast_model::record::{CLUSTER_KEY, ClusterRecord};
    use holdfast_model::{ClusterId, Epoch, Incarnation, NodeId, Policy, SliceId, VolumeId};

    use super::*;

    const SLICE: SliceId = SliceId {
        volume: VolumeId(2),
        index: 1,
    };

    fn pair(key: String, record: &impl Record) -> KeyValue {
        KeyValue {
            key,
            value: record.encode(),
            create_revision: Revision(1),
            mod_revision: Revision(1),
            version: 1,
            lease: LeaseId(0),
        }
    }

    /// The record of a cluster whose metadata was made again so often.
    fn cluster(recoveries: u64) -> KeyValue {
        let record = ClusterRecord {
            schema: 1,
            cluster: ClusterId(5),
            next_volume: VolumeId(3),
            recoveries,
            incarnation_floor: Incarnation::ZERO,
        };
        pair(CLUSTER_KEY.to_string(), &record)
    }

    fn volume() -> KeyValue {
        let record = VolumeRecord {
            schema: 1,
            volume: SLICE.volume,
            name: "data".to_string(),
            bytes: 4096,
            policy: Policy::Mirror2,
            target: "iqn".to_string(),
            lun: 0,
        };
        pair(VolumeRecord::key(SLICE.volume), &record)
    }

    fn slice() -> KeyValue {
        let record = SliceRecord {
            schema: 1,
            slice: SLICE,
            epoch: Epoch(1),
            primary: NodeId(1),
            preferred: NodeId(1),
            replicas: Vec::new(),
            copies_min: 1,
            bytes_moved: 0,
            proposer: (NodeId(0), Incarnation::ZERO),
            nonce: 0,
            recovery: None,
        };
        pair(SliceRecord::key(SLICE), &record)
    }

    fn unreadable(mut pair: KeyValue) -> KeyValue {
        pair.value = br#"{"schema":9}"#.as_slice().into();
        pair
    }

    /// Whether a slice that the store holds is told to be deleted when these are all the documents there are.
    fn is_deleted(view: &mut Cluster, found: Vec<KeyValue>) -> bool {
        view.held = [SLICE].into();
        view.take_changes();
        view.listed(TransactionOutcome {
            succeeded: true,
            results: vec![OperationResult::Range(found)],
            revision: Revision(9),
        });
        let changes = view.take_changes();
        let is_it =
            |change: &Change| matches!(change, Change::Slice { slice, .. } if *slice == SLICE);
        changes.iter().any(is_it) && !view.slices.contains_key(&SLICE)
    }

    #[test]
    fn what_was_deleted_while_the_node_was_off_is_told_once() {
        let mut view = Cluster::default();
        assert!(is_deleted(&mut view, vec![cluster(0)]));
        assert!(view.held.is_empty());
        assert!(!is_deleted(
            &mut Cluster::default(),
            vec![cluster(0), slice()]
        ));
    }

    #[test]
    fn what_cannot_be_read_or_is_not_whole_is_not_deleted() {
        for found in [unreadable(slice()), unreadable(volume()), volume()] {
            assert!(!is_deleted(
                &mut Cluster::default(),
                vec![cluster(0), found]
            ));
        }
    }

    /// A volume that was left out when the metadata was made again keeps its data; one that was deleted since does not.
    #[test]
    fn metadata_that_was_made_again_tells_only_of_what_it_had() {
        let mut view = Cluster::default();
        assert!(!is_deleted(&mut view, vec![cluster(1)]));
        assert!(!is_deleted(&mut view, vec![cluster(1), volume(), slice()]));
        // Its records go from the view, as they do at a start.
        view.slices.clear();
        view.volumes.clear();
        assert!(is_deleted(&mut view, vec![cluster(1)]));
        // What was noted of it before the metadata was made again counts for nothing.
        let mut view = Cluster::default();
        assert!(!is_deleted(&mut view, vec![cluster(0), volume(), slice()]));
        view.slices.clear();
        view.volumes.clear();
        assert!(!is_deleted(&mut view, vec![cluster(1)]));
    }
}
