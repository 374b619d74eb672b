//! The metadata's documents, as they come into the view and go.
//!
//! Invariants:
//! - a document that cannot be read changes nothing in the view, and is told of once; but a volume is for nobody as long as
//!   it cannot be read whom it is for, or who may do what with it;
//! - that a volume was deleted while this node was off is concluded from nothing that may have another reason.

use alloc::collections::BTreeSet;
use alloc::string::String;

use holdfast_model::VolumeId;
use holdfast_model::metadata::KeyValue;
use holdfast_model::record::{
    BookmarkRecord, DeletedRecord, ExportRecord, InitiatorRecord, IntentRecord, NodeRecord, Record,
    RecordError, ScrubRecord, ScrubbedRecord, SettingsRecord, SliceRecord, VolumeRecord,
    WishRecord,
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
        let left = self.left.keys().copied().map(Key::Bookmark);
        let access = self.access.keys().chain(self.closed.keys());
        let access = access.copied().map(Key::Access);
        let all = all.chain(left).chain(intents).chain(scrubs).chain(scrubbed);
        let initiators = self.initiators.keys().cloned().map(Key::Initiator);
        let exports = self.exports.keys().copied().map(Key::Export);
        let all = all.chain(initiators).chain(exports).chain(access);
        all.chain([Key::Settings]).collect()
    }

    /// Takes a key as it stands into the view.
    pub(super) fn put(&mut self, pair: &KeyValue, fresh: bool) -> Option<Key> {
        self.notes.note(pair);
        let key = Key::parse(&pair.key)?;
        if key.tells_of_data() {
            self.bookmarks.saw(pair.mod_revision);
        }
        let readable = match key.clone() {
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
            Key::Deleted => {
                DeletedRecord::decode(&pair.value).map(|record| self.note_deleted(record))
            }
            Key::Scrub(volume) => ScrubRecord::decode(&pair.value).map(|record| {
                self.scrubs.insert(volume, record);
                self.changes.push_back(Change::Scrub);
            }),
            Key::Bookmark(node) => BookmarkRecord::decode(&pair.value).map(|record| {
                self.left.insert(node, record.bookmark);
                self.changes.push_back(Change::Bookmark(node));
            }),
            Key::Scrubbed(slice) => ScrubbedRecord::decode(&pair.value).map(|record| {
                self.scrubbed.insert(slice, record.round);
            }),
            Key::Access(volume) => self.take_access(volume, &pair.value, pair.mod_revision),
            Key::Initiator(name) => InitiatorRecord::decode(&pair.value).map(|record| {
                if self.initiators.insert(name, record.clone()) != Some(record) {
                    self.changes.push_back(Change::Exports);
                }
            }),
            Key::Export(volume) => self.put_export(volume, &pair.value),
        };
        match readable {
            Ok(()) => self.unreadable.remove(&pair.key),
            Err(_) => self.pass_over(pair.key.clone()),
        };
        Some(key)
    }

    /// What cannot be read is no invitation: the volume is for nobody until it can be.
    fn put_export(&mut self, volume: VolumeId, value: &[u8]) -> Result<(), RecordError> {
        let read = ExportRecord::decode(value);
        let record = read.as_ref().cloned();
        let record = record.unwrap_or_else(|_| ExportRecord::nobody(volume));
        if self.exports.insert(volume, record.clone()) != Some(record) {
            self.changes.push_back(Change::Exports);
        }
        read.map(|_| ())
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
    /// what is deleted now.
    pub(super) fn tell_of_deleted(&mut self) {
        for slice in core::mem::take(&mut self.held) {
            if !self.slices.contains_key(&slice) && self.is_deleted(slice.volume) {
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
            // What was deleted stays so.
            Key::Deleted => {}
            Key::Bookmark(node) => drop(self.left.remove(&node)),
            Key::Scrub(volume) => {
                self.scrubs.remove(&volume);
                self.changes.push_back(Change::Scrub);
            }
            Key::Scrubbed(slice) => {
                self.scrubbed.remove(&slice);
            }
            Key::Access(volume) => self.forget_access(volume),
            Key::Initiator(name) => {
                self.initiators.remove(&name);
                self.changes.push_back(Change::Exports);
            }
            Key::Export(volume) => {
                self.exports.remove(&volume);
                self.changes.push_back(Change::Exports);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use holdfast_model::metadata::{
        LeaseId, MetadataAnswer, MetadataRequest, MetadataToken, Operation, OperationResult,
        Revision, Selector, TransactionOutcome, WatchEvent,
    };
    use holdfast_model::record::{
        AccessRecord, CLUSTER_KEY, ClusterRecord, DELETED_KEY, NodeStanding,
    };
    use holdfast_model::report::NotedAt;
    use holdfast_model::{ClusterId, Epoch, Incarnation, NodeId, Policy, SliceId, VolumeId};
    use holdfast_stdx::{Duration, Instant};

    use super::super::Purpose;
    use super::*;
    use crate::past::Past;
    use crate::{Astray, Lost};

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
            bytes: 2 * holdfast_model::SLICE_SIZE,
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

    fn deleted(volumes: &[u64]) -> KeyValue {
        let mut record = DeletedRecord::default();
        for volume in volumes {
            record.insert(VolumeId(*volume));
        }
        pair(DELETED_KEY.to_string(), &record)
    }

    /// A view of a node that holds the slice, has read everything, and found these documents.
    fn reads(view: &mut Cluster, found: Vec<KeyValue>) {
        let purpose = Purpose::List;
        view.take_changes();
        view.requests
            .insert(MetadataToken(77), (purpose, Revision(0)));
        let outcome = TransactionOutcome {
            succeeded: true,
            results: vec![OperationResult::Range(found)],
            revision: Revision(9),
        };
        let answer = MetadataAnswer::Transacted(outcome);
        view.handle_answer(Instant::ZERO, MetadataToken(77), answer);
    }

    fn holder() -> Cluster {
        Cluster {
            past: Past::new(ClusterId(5), [SLICE.volume].into(), NotedAt::default()),
            held: [SLICE].into(),
            ..Cluster::default()
        }
    }

    fn told_of_slice(view: &mut Cluster) -> bool {
        let is_it =
            |change: &Change| matches!(change, Change::Slice { slice, .. } if *slice == SLICE);
        view.take_changes().iter().any(is_it)
    }

    /// Whether the slice that the node holds is told to be deleted.
    fn is_dropped(view: &mut Cluster) -> bool {
        told_of_slice(view) && !view.slices.contains_key(&SLICE)
    }

    const LOST: Astray = Astray::Lacking(Lost::Volume(SLICE.volume));
    const LACKING: Option<Astray> = Some(LOST);

    #[test]
    fn what_was_deleted_while_the_node_was_off_is_told_once() {
        let mut view = holder();
        reads(&mut view, vec![cluster(0), deleted(&[1, 2])]);
        let changes = view.take_changes();
        let told = Change::Tell(Notice::VolumeDeleted(SLICE.volume));
        assert!(changes.contains(&told));
        let gone = Change::Slice {
            slice: SLICE,
            fresh: true,
        };
        assert_eq!(changes.iter().filter(|it| **it == gone).count(), 1);
        assert!(view.held.is_empty());
        reads(&mut view, vec![cluster(0), deleted(&[1, 2])]);
        let again = view.take_changes();
        assert!(!again.contains(&told) && !again.contains(&gone));
        let mut view = holder();
        let there = vec![cluster(0), volume(), slice(), deleted(&[1])];
        reads(&mut view, there);
        assert!(!is_dropped(&mut view) && !view.is_astray());
    }

    /// Somebody may have lost a right to it.
    #[test]
    fn a_volume_is_closed_where_its_access_cannot_be_read() {
        let volume = SLICE.volume;
        let mut access = pair(AccessRecord::key(volume), &AccessRecord::open(volume));
        let closes = |view: &Cluster| view.exports_now().get(&volume).cloned();
        let mut view = holder();
        reads(&mut view, vec![cluster(0), unreadable(access.clone())]);
        assert_eq!(closes(&view), Some(ExportRecord::nobody(volume)));
        assert!(view.take_changes().contains(&Change::Exports));
        reads(&mut view, vec![cluster(0), access.clone()]);
        assert_eq!(closes(&view), None);
        assert!(view.take_changes().contains(&Change::Exports));
        // What was read once is gone by.
        let mut later = unreadable(access.clone());
        later.mod_revision = Revision(2);
        reads(&mut view, vec![cluster(0), later.clone()]);
        assert_eq!(closes(&view), None);
        assert!(view.access(volume).is_some());
        // But nothing is decided by it, as long as it is there.
        let mut is_read = |found: Vec<KeyValue>| {
            let outcome = TransactionOutcome {
                succeeded: true,
                results: vec![OperationResult::Range(found)],
                revision: Revision(9),
            };
            view.access_read(volume, 7, &MetadataAnswer::Transacted(outcome));
            view.take_changes().contains(&Change::AccessRead(7, true))
        };
        assert!(!is_read(vec![later]));
        access.mod_revision = Revision(4);
        assert!(is_read(vec![access.clone()]));
        // With the volume, what could not be read of it is gone.
        access = unreadable(access);
        reads(&mut view, vec![cluster(0), access]);
        assert!(!view.unreadable.is_empty());
        reads(&mut view, vec![cluster(0), deleted(&[2])]);
        assert!(view.unreadable.is_empty() && !view.is_astray());
    }

    /// Another node may tell of it late.
    #[test]
    fn what_was_before_does_not_open_a_volume() {
        let volume = SLICE.volume;
        let record = AccessRecord::open(volume);
        let mut access = unreadable(pair(AccessRecord::key(volume), &record));
        access.mod_revision = Revision(3);
        let mut view = holder();
        reads(&mut view, vec![cluster(0), access]);
        for (revision, is_closed) in [(2, true), (4, false)] {
            view.hear_of_access(volume, &record.encode(), Revision(revision));
            assert_eq!(view.exports_now().contains_key(&volume), is_closed);
        }
        // Nor does another node's word close one.
        let mut view = holder();
        view.hear_of_access(volume, b"{}", Revision(5));
        assert!(view.exports_now().is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_not_lacking() {
        for found in [unreadable(slice()), slice()] {
            let mut view = holder();
            reads(&mut view, vec![cluster(0), unreadable(volume()), found]);
            assert!(!is_dropped(&mut view) && !view.is_astray());
        }
    }

    /// Of a node that starts, and of one that had read them before.
    #[test]
    fn documents_that_nobody_has_deleted_are_lacking() {
        let rests = [
            vec![],
            vec![volume()],
            vec![slice()],
            vec![deleted(&[1, 3])],
            vec![volume(), deleted(&[1])],
        ];
        for rest in rests {
            let rest: Vec<KeyValue> = [cluster(0)].into_iter().chain(rest).collect();
            let has_slice = rest.contains(&slice());
            let mut view = holder();
            reads(&mut view, rest.clone());
            // It has not seen the volume before: without its record it is being made, or was never finished.
            let expected = LACKING.filter(|_| rest.contains(&volume()) && !has_slice);
            assert_eq!(view.past.astray(), expected, "{rest:?}");
            assert!(!is_dropped(&mut view));
            let mut view = holder();
            reads(&mut view, vec![cluster(0), volume(), slice()]);
            assert!(!view.is_astray());
            reads(&mut view, rest.clone());
            assert_eq!(view.past.astray(), LACKING, "{rest:?}");
            assert!(view.volumes.contains_key(&SLICE.volume) && view.slices.contains_key(&SLICE));
            // They are put back, or the volume is deleted.
            let mut after = Vec::from([cluster(0), deleted(&[2])]);
            if has_slice {
                after.truncate(1);
                after.extend([volume(), slice()]);
            }
            reads(&mut view, after);
            assert!(!view.is_astray());
            assert_eq!(view.slices.contains_key(&SLICE), has_slice);
        }
    }

    fn gone(key: String) -> WatchEvent {
        WatchEvent::Delete {
            key,
            mod_revision: Revision(10),
        }
    }

    #[test]
    fn a_watch_that_tells_of_lost_documents_is_not_believed() {
        let everything = [
            gone(CLUSTER_KEY.to_string()),
            gone(SliceRecord::key(SLICE)),
            gone(VolumeRecord::key(SLICE.volume)),
        ];
        for (events, why) in [
            (&everything[..], Astray::NoCluster),
            (&everything[..1], Astray::NoCluster),
            (&everything[1..2], LOST),
            (&everything[2..], LOST),
        ] {
            let mut view = holder();
            reads(&mut view, vec![cluster(0), volume(), slice()]);
            view.take_changes();
            let watch = view.watch.expect("it is followed");
            let told = |events: Vec<WatchEvent>| MetadataAnswer::Watched {
                revision: Revision(10),
                events,
            };
            view.handle_answer(Instant::ZERO, watch, told(events.to_vec()));
            assert_eq!(view.past.astray(), Some(why), "{events:?}");
            assert!(view.slices.contains_key(&SLICE) && view.volumes.contains_key(&SLICE.volume));
            let told = Change::Tell(Notice::MetadataAstray(why));
            assert_eq!(view.take_changes(), [told]);
        }
    }

    /// It was left by a growth that was cut short, and whoever made the metadata again left it out.
    #[test]
    fn what_is_behind_a_volumes_end_is_not_lacking() {
        let behind = SliceId { index: 2, ..SLICE };
        for recoveries in [0, 1] {
            let mut view = Cluster {
                held: [SLICE, behind].into(),
                ..holder()
            };
            let all = vec![cluster(recoveries), volume(), slice()];
            reads(&mut view, all.clone());
            assert!(!view.is_astray());
            let notes = core::mem::take(&mut view.notes);
            let mut again = Cluster {
                held: [SLICE, behind].into(),
                notes,
                ..holder()
            };
            reads(&mut again, all);
            assert!(!again.is_astray() && !is_dropped(&mut again));
        }
    }

    /// Versions of before clear them away without a word.
    #[test]
    fn slices_of_a_volume_that_was_never_finished_are_not_lacking() {
        let mut view = holder();
        reads(&mut view, vec![cluster(0), slice()]);
        reads(&mut view, vec![cluster(0)]);
        assert!(!view.is_astray() && !view.slices.contains_key(&SLICE));
    }

    #[test]
    fn a_node_that_nobody_has_removed_is_lacking() {
        let record = NodeRecord {
            schema: 1,
            node: NodeId(2),
            name: "two".to_string(),
            store: holdfast_model::StoreId(2),
            uses: 1,
            use_id: 0,
            incarnation: Incarnation(1),
            portal: "192.0.2.2:3260".to_string(),
            peer: "192.0.2.2:7561".to_string(),
            api: "http://192.0.2.2:7460".to_string(),
        };
        let node = pair(NodeRecord::key(NodeId(2)), &record);
        let removed = IntentRecord {
            standing: NodeStanding::Removed,
            ..IntentRecord::active(NodeId(2))
        };
        let removed = pair(IntentRecord::key(NodeId(2)), &removed);
        let lost = Some(Astray::Lacking(Lost::Node(NodeId(2))));
        for (told, expected) in [(vec![], lost), (vec![removed], None)] {
            let mut view = holder();
            reads(&mut view, vec![cluster(0), node.clone()]);
            let watch = view.watch.expect("it is followed");
            let put = told.iter().cloned().map(WatchEvent::Put);
            let events = put.chain([gone(node.key.clone())]).collect();
            let revision = Revision(10);
            let told_so = MetadataAnswer::Watched { revision, events };
            view.handle_answer(Instant::ZERO, watch, told_so);
            assert_eq!(view.past.astray(), expected);
            assert_eq!(view.nodes.contains_key(&NodeId(2)), expected.is_some());
            let mut view = holder();
            reads(&mut view, vec![cluster(0), node.clone()]);
            let all = [cluster(0)].into_iter().chain(told).collect();
            reads(&mut view, all);
            assert_eq!(view.past.astray(), expected);
        }
    }

    /// However often somebody asks for something else meanwhile.
    #[test]
    fn damaged_metadata_is_read_again_before_long() {
        let mut view = holder();
        view.registered = true;
        reads(&mut view, vec![cluster(0), volume(), slice()]);
        reads(&mut view, vec![cluster(0), slice()]);
        assert!(view.is_astray());
        assert!(view.take_requests().count() > 0, "it is watched");
        let mut now = Instant::ZERO;
        let mut lists = 0;
        for _ in 0..20 {
            now += Duration::from_millis(100);
            view.handle_timeout(now);
            view.refresh(SLICE);
            let requests: Vec<_> = view.take_requests().collect();
            for (token, request) in requests {
                let MetadataRequest::Transact(transaction) = request else {
                    panic!("nothing is watched: {request:?}");
                };
                let everything = Operation::Range(Selector::Prefix("/holdfast/".into()));
                lists += u32::from(transaction.success == [everything]);
                let found = vec![slice(), cluster(0)];
                let outcome = TransactionOutcome {
                    succeeded: true,
                    results: vec![OperationResult::Range(found)],
                    revision: Revision(9),
                };
                let answer = MetadataAnswer::Transacted(outcome);
                view.handle_answer(now, token, answer);
            }
        }
        assert!(lists >= 5, "it was read {lists} times in two seconds");
    }

    #[test]
    fn a_watch_that_tells_of_a_deletion_is_believed() {
        let mut view = holder();
        reads(&mut view, vec![cluster(0), volume(), slice()]);
        view.take_changes();
        let watch = view.watch.expect("it is followed");
        let events = vec![
            WatchEvent::Put(deleted(&[2])),
            gone(VolumeRecord::key(SLICE.volume)),
            gone(SliceRecord::key(SLICE)),
        ];
        let revision = Revision(10);
        let told = MetadataAnswer::Watched { revision, events };
        view.handle_answer(Instant::ZERO, watch, told);
        assert!(!view.is_astray());
        assert!(is_dropped(&mut view));
    }

    /// A volume that was left out when the metadata was made again keeps its data, and nothing is lacking.
    #[test]
    fn metadata_that_was_made_again_has_what_it_had_since() {
        let mut view = holder();
        reads(&mut view, vec![cluster(1)]);
        assert!(!is_dropped(&mut view) && !view.is_astray());
        // It had been noted since.
        let mut view = holder();
        reads(&mut view, vec![cluster(1), volume(), slice()]);
        let mut again = Cluster {
            notes: core::mem::take(&mut view.notes),
            ..holder()
        };
        reads(&mut again, vec![cluster(1)]);
        assert_eq!(again.past.astray(), LACKING);
        // What was noted before that counts for nothing.
        let mut view = holder();
        reads(&mut view, vec![cluster(0), volume(), slice()]);
        let mut again = Cluster {
            notes: core::mem::take(&mut view.notes),
            ..holder()
        };
        reads(&mut again, vec![cluster(1)]);
        assert!(!is_dropped(&mut again) && !again.is_astray());
    }
}
