//! What the metadata lacks although nobody has deleted it.
//!
//! A volume is deleted, and a node removed, by a change of the metadata that says so and takes its documents away
//! (`holdfast_control`). Where documents are gone and nothing says so, somebody has laid hands on the metadata: it is
//! damaged, and who believed it would drop the volume's data, or the links to the node.
//!
//! It refuses to look for documents that are made again, or whose lack harms no data: names, what is wanted of nodes, settings.
//!
//! Invariant: what a node holds of a volume is dropped only if the volume is on record as deleted.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use holdfast_model::metadata::{KeyValue, OperationResult, TransactionOutcome, WatchEvent};
use holdfast_model::record::{
    CLUSTER_KEY, ClusterRecord, DeletedRecord, IntentRecord, NodeStanding, Record, SLICES_PREFIX,
    SliceRecord, VolumeRecord,
};
use holdfast_model::report::NotePlace;
use holdfast_model::{NodeId, SliceId, VolumeId};

use super::bookmark::Found;
use super::key::Key;
use super::{Change, Cluster};
use crate::Lost;
use crate::Notice;

impl Cluster {
    /// Whether a volume was made in another history, which counts for nothing.
    pub(crate) fn is_of_another_history(&self, volume: VolumeId) -> bool {
        self.of_another_history.contains(&volume)
    }

    /// Whether a volume is on record as deleted, or was made in another history.
    pub(crate) fn is_deleted(&self, volume: VolumeId) -> bool {
        self.deleted.contains(volume) || self.is_of_another_history(volume)
    }

    /// Volumes were deleted; of those that slices are known of it is told.
    pub(super) fn note_deleted(&mut self, record: DeletedRecord) {
        let known = self.slices.keys().chain(&self.held);
        let volumes = known.map(|slice| slice.volume);
        let is_news = |volume: &VolumeId| record.contains(*volume) && !self.is_deleted(*volume);
        let news: BTreeSet<VolumeId> = volumes.filter(is_news).collect();
        let notices = news.into_iter().map(Notice::VolumeDeleted);
        self.changes.extend(notices.map(Change::Tell));
        self.deleted = record;
    }

    /// Everything has been read: documents are looked for that were there, as this node knows, or has noted.
    pub(super) fn look_for_lacking(&mut self, outcome: &TransactionOutcome, is_overtaken: bool) {
        let found: BTreeSet<Key> = pairs(outcome)
            .filter_map(|pair| Key::parse(&pair.key))
            .collect();
        let noted = self.noted(pairs(outcome));
        let whole = pairs(outcome).filter_map(|pair| VolumeRecord::decode(&pair.value).ok());
        let whole: BTreeMap<VolumeId, u32> = whole
            .map(|volume| (volume.volume, volume.slice_count()))
            .collect();
        // What is behind a volume's end was left by a growth that was cut short, or is of metadata from before.
        let is_part = |slice: &SliceId| {
            whole
                .get(&slice.volume)
                .is_some_and(|count| slice.index < *count)
        };
        let held = self.held.iter().copied().filter(is_part);
        let noted = noted.into_iter().chain(held.map(Key::Slice));
        let known = self.keys().into_iter().chain(noted);
        let gone = known.filter(|key| !found.contains(key));
        let lacking = self.first_lost(gone, &Told::of(pairs(outcome)));
        let lacking = self.lost_bookmark(outcome, lacking);
        let lacking = lacking.or_else(|| self.lost_epoch(outcome));
        if is_overtaken {
            self.is_to_list_again = lacking.is_some();
            return;
        }
        self.past.lack(lacking);
    }

    /// A slice whose record is of before an epoch that has begun here. A change of the metadata precedes each epoch.
    fn lost_epoch(&self, outcome: &TransactionOutcome) -> Option<Lost> {
        if self.begins_anew() || self.begun.is_empty() {
            return None;
        }
        slice_records(outcome).find_map(|record| {
            let (slice, epoch) = (record.slice, record.epoch);
            let begun = *self.begun.get(&slice).filter(|begun| epoch < **begun)?;
            Some(Lost::Epoch {
                slice,
                epoch,
                begun,
            })
        })
    }

    /// What tells whether the bookmark is there has been read.
    pub(super) fn look_for_own_bookmark(&mut self, outcome: &TransactionOutcome) {
        if let Some(lost) = self.lost_bookmark(outcome, None) {
            self.past.lack(Some(lost));
        }
    }

    /// What is lacking, the bookmark included: where there is another one this is not what the node has followed, whatever else it
    /// lacks; where there is none, documents may have been deleted.
    fn lost_bookmark(
        &mut self,
        outcome: &TransactionOutcome,
        lacking: Option<Lost>,
    ) -> Option<Lost> {
        let Some(own) = self.registration.as_ref().filter(|own| !own.begins_anew()) else {
            return lacking;
        };
        let key = own.bookmark_key();
        let pair = pairs(outcome).find(|pair| pair.key == key);
        let recoveries = self.recoveries(pairs(outcome));
        let lost = match self.bookmarks.look(recoveries, pair, own) {
            Found::Own => return lacking,
            Found::Other => Lost::Bookmark { is_other: true },
            Found::Nothing => lacking.unwrap_or(Lost::Bookmark { is_other: false }),
        };
        if !own.may_begin_anew() || !self.is_of_this_cluster(outcome) {
            return Some(lost);
        }
        let sole = self.sole_in_sync(own.node(), outcome);
        if sole.is_none() {
            self.begin_anew(outcome);
        }
        sole.map(Lost::Sole)
    }

    /// Whether there is a record of this cluster, which has been made again as often as this node knows.
    fn is_of_this_cluster(&self, outcome: &TransactionOutcome) -> bool {
        cluster_record(pairs(outcome)).is_some_and(|record| {
            record.cluster == self.past.cluster() && record.recoveries == self.past.recoveries()
        })
    }

    /// A slice of which the metadata says that this node, and no other, has everything.
    fn sole_in_sync(&self, own: NodeId, outcome: &TransactionOutcome) -> Option<SliceId> {
        let is_sole = |record: &SliceRecord| record.in_sync().eq([own]);
        let sole = slice_records(outcome).find(|it| is_sole(it) && self.held.contains(&it.slice));
        sole.map(|record| record.slice)
    }

    /// What this node knows is of another history, and counts for nothing. What it holds of volumes that the metadata has yet to make
    /// goes.
    fn begin_anew(&mut self, outcome: &TransactionOutcome) {
        self.own().begin_anew();
        let cluster = cluster_record(pairs(outcome));
        let next = cluster.map_or(VolumeId(u64::MAX), |cluster| cluster.next_volume);
        let volumes = self.held.iter().map(|slice| slice.volume);
        self.of_another_history = volumes.filter(|volume| *volume >= next).collect();
        self.past.begin_anew();
        self.notes.forget_all();
    }

    /// How often the metadata was made again, as these say.
    fn recoveries<'a>(&self, pairs: impl Iterator<Item = &'a KeyValue>) -> u64 {
        cluster_record(pairs).map_or(self.past.recoveries(), |cluster| cluster.recoveries)
    }

    /// What was noted since the metadata was made again, as often as these say: it lacks what nobody told of then, and what
    /// was left out.
    fn noted<'a>(&self, pairs: impl Iterator<Item = &'a KeyValue>) -> Vec<Key> {
        let places = self.notes.places(self.recoveries(pairs));
        places
            .filter_map(|place| match place {
                NotePlace::Volume(volume) => Some(Key::Volume(volume)),
                NotePlace::Node(node) => Some(Key::Node(node)),
                _ => None,
            })
            .collect()
    }

    /// A slice's record has been read.
    pub(super) fn look_for_slice(&mut self, slice: SliceId, outcome: &TransactionOutcome) {
        let is_there = pairs(outcome).any(|pair| Key::parse(&pair.key) == Some(Key::Slice(slice)));
        let gone = (!is_there).then_some(Key::Slice(slice));
        let lacking = self.first_lost(gone, &Told::of(pairs(outcome)));
        if lacking.is_some() {
            self.past.lack(lacking);
        }
    }

    /// What these events take away first although nobody has deleted it.
    pub(super) fn lacking_after(&self, events: &[WatchEvent]) -> Option<Lost> {
        let put = events.iter().filter_map(|event| match event {
            WatchEvent::Put(pair) => Some(pair),
            WatchEvent::Delete { .. } => None,
        });
        let gone = events.iter().filter_map(|event| match event {
            WatchEvent::Delete { key, .. } => Key::parse(key),
            WatchEvent::Put(_) => None,
        });
        self.first_lost(gone, &Told::of(put))
    }

    /// Whether a document that is not there is to go from the view.
    pub(super) fn may_go(&self, key: &Key) -> bool {
        self.lost(key, &Told::default()).is_none()
    }

    /// What is lost with the first of these keys that goes without a word.
    fn first_lost(&self, gone: impl IntoIterator<Item = Key>, told: &Told) -> Option<Lost> {
        gone.into_iter().find_map(|key| self.lost(&key, told))
    }

    fn lost(&self, key: &Key, told: &Told) -> Option<Lost> {
        match *key {
            Key::Volume(volume) | Key::Access(volume) => self.lost_volume(volume, told),
            // Of one that was never there, because its making was cut short, nobody has written anything.
            Key::Slice(SliceId { volume, .. })
                if self.volumes.contains_key(&volume) || told.volumes.contains(&volume) =>
            {
                self.lost_volume(volume, told)
            }
            Key::Node(node) => {
                let known = self.intents.get(&node).map(|intent| intent.standing);
                let is_removed = known == Some(NodeStanding::Removed);
                (!is_removed && !told.removed.contains(&node)).then_some(Lost::Node(node))
            }
            _ => None,
        }
    }

    fn lost_volume(&self, volume: VolumeId, told: &Told) -> Option<Lost> {
        let is_deleted = self.is_deleted(volume) || told.deleted.contains(volume);
        (!is_deleted).then_some(Lost::Volume(volume))
    }
}

/// What documents say of others that are not there.
#[derive(Default)]
struct Told {
    deleted: DeletedRecord,
    volumes: BTreeSet<VolumeId>,
    removed: BTreeSet<NodeId>,
}

impl Told {
    fn of<'a>(pairs: impl Iterator<Item = &'a KeyValue>) -> Self {
        let mut told = Self::default();
        for pair in pairs {
            match Key::parse(&pair.key) {
                Some(Key::Deleted) => {
                    told.deleted = DeletedRecord::decode(&pair.value).unwrap_or_default();
                }
                Some(Key::Volume(volume)) => drop(told.volumes.insert(volume)),
                Some(Key::Intent(node))
                    if IntentRecord::decode(&pair.value)
                        .is_ok_and(|intent| intent.standing == NodeStanding::Removed) =>
                {
                    told.removed.insert(node);
                }
                _ => {}
            }
        }
        told
    }
}

/// Everything that was read.
pub(super) fn pairs(outcome: &TransactionOutcome) -> impl Iterator<Item = &KeyValue> {
    outcome.results.iter().flat_map(|result| match result {
        OperationResult::Range(found) => found.as_slice(),
        _ => &[],
    })
}

/// The record of the cluster, if it is among these and can be read.
pub(super) fn cluster_record<'a>(
    mut pairs: impl Iterator<Item = &'a KeyValue>,
) -> Option<ClusterRecord> {
    let cluster = pairs.find(|pair| pair.key == CLUSTER_KEY)?;
    ClusterRecord::decode(&cluster.value).ok()
}

/// The slices' records that can be read.
fn slice_records(outcome: &TransactionOutcome) -> impl Iterator<Item = SliceRecord> {
    let records = pairs(outcome).filter(|pair| pair.key.starts_with(SLICES_PREFIX));
    records.filter_map(|pair| SliceRecord::decode(&pair.value).ok())
}
