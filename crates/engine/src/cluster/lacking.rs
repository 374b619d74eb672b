//! What the metadata lacks although nobody has deleted it.
//!
//! A volume is deleted by a change of the metadata that says so and takes its documents away (`holdfast_control`). Where
//! documents of a volume are gone and nothing says so, somebody has laid hands on the metadata: it is damaged, and who
//! believed it would drop the volume's data.
//!
//! It refuses to look for documents that are made again, or that no data depends on.
//!
//! Invariant: what a node holds of a volume is dropped only if the volume is on record as deleted.

use alloc::collections::BTreeSet;

use holdfast_model::metadata::{KeyValue, TransactionOutcome, WatchEvent};
use holdfast_model::record::{CLUSTER_KEY, ClusterRecord, DELETED_KEY, DeletedRecord, Record};
use holdfast_model::{SliceId, VolumeId};

use super::key::Key;
use super::{Change, Cluster, pairs};
use crate::Notice;

impl Cluster {
    /// Whether a volume is on record as deleted.
    pub(crate) fn is_deleted(&self, volume: VolumeId) -> bool {
        self.deleted.contains(volume)
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
    pub(super) fn look_for_lacking(&mut self, outcome: &TransactionOutcome) {
        let found: BTreeSet<Key> = pairs(outcome)
            .filter_map(|pair| Key::parse(&pair.key))
            .collect();
        let recoveries = pairs(outcome)
            .find(|pair| pair.key == CLUSTER_KEY)
            .and_then(|pair| ClusterRecord::decode(&pair.value).ok())
            .map_or(0, |cluster| cluster.recoveries);
        // Metadata that was made again lacks what nobody told of, and what was left out: it had what was noted since.
        let noted: BTreeSet<VolumeId> = self.notes.volumes(recoveries).collect();
        let was_there = |volume| recoveries == 0 || noted.contains(&volume);
        let held = self.held.iter().copied();
        let held = held.filter(|slice| was_there(slice.volume));
        let held = held.map(Key::Slice);
        let noted = noted.iter().copied().map(Key::Volume);
        let known = self.keys().into_iter().chain(noted).chain(held);
        let lacking = known.filter(|key| !found.contains(key));
        let said = said(pairs(outcome));
        let lacking = self.first_kept(lacking, said.as_ref());
        if outcome.revision < self.past.seen() {
            // A watch has overtaken it: what it lacks may be newer.
            self.is_to_list_again = lacking.is_some();
            return;
        }
        self.past.lack(lacking);
    }

    /// A slice's record has been read.
    pub(super) fn look_for_slice(&mut self, slice: SliceId, outcome: &TransactionOutcome) {
        let is_there = pairs(outcome).any(|pair| Key::parse(&pair.key) == Some(Key::Slice(slice)));
        let said = said(pairs(outcome));
        let lacking = self.first_kept((!is_there).then_some(Key::Slice(slice)), said.as_ref());
        if lacking.is_some() {
            self.past.lack(lacking);
        }
    }

    /// The first volume of which these events take documents away, and that is not deleted.
    pub(super) fn lacking_after(&self, events: &[WatchEvent]) -> Option<VolumeId> {
        let put = events.iter().filter_map(|event| match event {
            WatchEvent::Put(pair) => Some(pair),
            WatchEvent::Delete { .. } => None,
        });
        let said = said(put);
        let gone = events.iter().filter_map(|event| match event {
            WatchEvent::Delete { key, .. } => Key::parse(key),
            WatchEvent::Put(_) => None,
        });
        self.first_kept(gone, said.as_ref())
    }

    /// The volume of the first of these keys that has data, and that is not deleted: neither as is known, nor as is said now.
    fn first_kept(
        &self,
        keys: impl IntoIterator<Item = Key>,
        said: Option<&DeletedRecord>,
    ) -> Option<VolumeId> {
        let volumes = keys.into_iter().filter_map(Key::data);
        let mut kept = volumes.filter(|volume| {
            !self.is_deleted(*volume) && !said.is_some_and(|said| said.contains(*volume))
        });
        kept.next()
    }
}

/// The record of what was deleted, the last one of these.
fn said<'a>(pairs: impl Iterator<Item = &'a KeyValue>) -> Option<DeletedRecord> {
    let pair = pairs.filter(|pair| pair.key == DELETED_KEY).last()?;
    DeletedRecord::decode(&pair.value).ok()
}
