//! The node's notes of the metadata: what it would take to make it again, should it be lost for good.
//!
//! It refuses to note what can be found out again (wishes, scrubs, who steers), and slices' records: those
//! are with the replicas.
//!
//! Invariants:
//! - the cluster's note follows the others: as of what it says, all of them are there, and no others;
//! - a note that goes is gone, durably, before another takes its place.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use holdfast_model::metadata::{KeyValue, Revision};
use holdfast_model::record::{
    BookmarkRecord, CLUSTER_KEY, ClusterRecord, INTENTS_PREFIX, IntentRecord, NODES_PREFIX,
    NodeRecord, Record, SETTINGS_KEY, SettingsRecord, USES_PREFIX, UseRecord, VOLUMES_PREFIX,
    VolumeRecord,
};
use holdfast_model::report::{NOTES, NodeReport, Note, NoteDocument, NotePlace, NotedAt};
use holdfast_model::{ClusterId, CommandId, Incarnation, NodeId, SliceId, StoreId};
use holdfast_stdx::Bytes;
use holdfast_store::RecoveredSlice;

/// How far the metadata's revision may go on without being noted. Whoever makes the metadata again counts
/// nodes' starts from far beyond that.
const UNNOTED_MAX: u64 = 1_000_000;

/// What is kept, and what is to be.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: BTreeMap<SliceId, Bytes>,
    /// To be kept, or to go, in this order.
    changed: VecDeque<(SliceId, Option<Bytes>)>,
    /// Notes that are on their way out.
    going: BTreeSet<SliceId>,
    /// Notes that a list has not named yet.
    unlisted: BTreeSet<SliceId>,
    cluster: Option<ClusterRecord>,
    incarnation: Incarnation,
    /// Either is not what was noted.
    is_new: bool,
    /// Everything that was so then has been looked at.
    through: Revision,
    /// What the cluster's note says.
    noted: NotedAt,
}

impl Notes {
    /// Takes the notes out of what the store found.
    pub(crate) fn take_from(slices: &mut BTreeMap<SliceId, RecoveredSlice>) -> Self {
        let mut notes = Self::default();
        let others = slices.split_off(&SliceId {
            volume: NOTES.next(),
            index: 0,
        });
        for (slice, found) in core::mem::replace(slices, others) {
            match found.state {
                Some(state) if found.intact => {
                    if let Ok(Note { at, document, .. }) = Note::decode(&state)
                        && matches!(document, NoteDocument::Cluster(..))
                    {
                        notes.noted = at;
                    }
                    notes.kept.insert(slice, state);
                }
                // What is left may be an older one, and a part of a journal that is missing goes with it.
                _ => notes.changed.push_back((slice, None)),
            }
        }
        notes
    }

    /// Up to which revision everything has been told.
    pub(crate) fn through(&self) -> Revision {
        self.through
    }

    /// When the metadata was as the notes say.
    pub(crate) fn noted(&self) -> NotedAt {
        self.noted
    }

    /// Which start of the node this is.
    pub(crate) fn name(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
        self.is_new = true;
    }

    /// Everything is about to be told, beginning with the cluster.
    pub(crate) fn begin_list(&mut self, found: &[KeyValue]) {
        self.unlisted = self.kept.keys().copied().collect();
        self.unlisted.remove(&bookmark_place());
        let cluster = found.iter().find(|pair| pair.key == CLUSTER_KEY);
        if let Some(pair) = cluster {
            self.note(pair);
        }
    }

    /// Everything has been told, as of a revision.
    pub(crate) fn end_list(&mut self, revision: Revision) {
        for slice in core::mem::take(&mut self.unlisted) {
            self.change(slice, None);
        }
        self.followed(revision);
    }

    /// Everything up to a revision has been told.
    pub(crate) fn followed(&mut self, revision: Revision) {
        self.through = revision;
        let Some(cluster) = &self.cluster else { return };
        let recoveries = cluster.recoveries;
        let is_due = self.is_new
            || !self.kept.contains_key(&cluster_place())
            || self.through.0.saturating_sub(self.noted.revision.0) > UNNOTED_MAX;
        if is_due || !self.changed.is_empty() {
            self.is_new = false;
            self.noted = NotedAt {
                recoveries,
                revision,
            };
            let document = NoteDocument::Cluster(cluster.clone(), self.incarnation);
            self.change(
                cluster_place(),
                Some(Note::new(self.noted, document).encode()),
            );
        }
    }

    /// A key is as it is.
    pub(crate) fn note(&mut self, pair: &KeyValue) {
        let value = &pair.value;
        let key = pair.key.as_str();
        let document = if key == CLUSTER_KEY {
            // It follows the others.
            if let Ok(record) = ClusterRecord::decode(value) {
                self.is_new |= self.cluster.as_ref() != Some(&record);
                self.cluster = Some(record);
            }
            self.unlisted.remove(&cluster_place());
            return;
        } else if key == SETTINGS_KEY {
            SettingsRecord::decode(value).map(NoteDocument::Settings)
        } else if key.starts_with(NODES_PREFIX) {
            NodeRecord::decode(value).map(|record| NoteDocument::Node(self.with_use_id(record)))
        } else if key.starts_with(USES_PREFIX) {
            if let Ok(of_use) = UseRecord::decode(value) {
                self.note_use(&of_use);
            }
            return;
        } else if key.starts_with(INTENTS_PREFIX) {
            IntentRecord::decode(value).map(NoteDocument::Intent)
        } else if key.starts_with(VOLUMES_PREFIX) {
            VolumeRecord::decode(value).map(NoteDocument::Volume)
        } else {
            return;
        };
        let Ok(document) = document else { return };
        let Some(slice) = document.place().slice() else {
            return;
        };
        self.unlisted.remove(&slice);
        let at = NotedAt {
            recoveries: self.cluster.as_ref().map_or(0, |record| record.recoveries),
            revision: pair.mod_revision,
        };
        let note = Note::new(at, document).encode();
        if self.kept.get(&slice) != Some(&note) {
            self.change(slice, Some(note));
        }
    }

    /// A node's record with the id of the use that it tells of, if that is noted already.
    fn with_use_id(&self, record: NodeRecord) -> NodeRecord {
        let noted = self.noted_node(record.node);
        let noted = noted.filter(|(_, noted)| {
            record.use_id == 0 && (noted.store, noted.uses) == (record.store, record.uses)
        });
        let use_id = noted.map_or(record.use_id, |(_, noted)| noted.use_id);
        NodeRecord { use_id, ..record }
    }

    /// The id of a use of a node's store goes into the note of the node.
    fn note_use(&mut self, of_use: &UseRecord) {
        let noted = self.noted_node(of_use.node);
        let noted = noted.filter(|(_, record)| of_use.is_of(record));
        let Some((at, record)) = noted.filter(|(_, record)| record.use_id != of_use.use_id) else {
            return;
        };
        let record = NodeRecord {
            use_id: of_use.use_id,
            ..record
        };
        let note = Note::new(at, NoteDocument::Node(record)).encode();
        let slice = NotePlace::Node(of_use.node).slice();
        self.change(slice.expect("every node has a place"), Some(note));
    }

    /// This node's own bookmark as it is noted, in metadata that had been made again so often.
    pub(crate) fn bookmark(&self) -> (Option<BookmarkRecord>, u64) {
        let kept = self.kept.get(&bookmark_place());
        let note = kept.and_then(|kept| Note::decode(kept).ok());
        match note {
            Some(Note {
                at,
                document: NoteDocument::Bookmark(noted),
                ..
            }) => (noted, at.recoveries),
            _ => (None, 0),
        }
    }

    /// What is noted is of another history; the bookmark is left alone.
    pub(crate) fn forget_all(&mut self) {
        let mut places: Vec<SliceId> = self.kept.keys().copied().collect();
        places.retain(|place| *place != bookmark_place());
        for place in places {
            self.change(place, None);
        }
        self.noted = NotedAt::default();
    }

    /// A bookmark was left; or that there is none says nothing any more.
    pub(crate) fn keep_bookmark(&mut self, recoveries: u64, noted: Option<BookmarkRecord>) {
        let at = NotedAt {
            recoveries,
            revision: Revision(0),
        };
        let note = Note::new(at, NoteDocument::Bookmark(noted)).encode();
        self.change(bookmark_place(), Some(note));
    }

    /// What is noted of a node, and when it was so.
    fn noted_node(&self, node: NodeId) -> Option<(NotedAt, NodeRecord)> {
        let kept = self.kept.get(&NotePlace::Node(node).slice()?)?;
        let Note { at, document, .. } = Note::decode(kept).ok()?;
        match document {
            NoteDocument::Node(record) => Some((at, record)),
            _ => None,
        }
    }

    /// What was in the metadata since it was made again for that time.
    pub(crate) fn places(&self, recoveries: u64) -> impl Iterator<Item = NotePlace> {
        let notes = self
            .kept
            .values()
            .filter_map(|note| Note::decode(note).ok());
        let notes = notes.filter(move |note| note.at.recoveries == recoveries);
        notes.map(|note| note.document.place())
    }

    /// Something is not in the metadata any more.
    pub(crate) fn forget(&mut self, place: NotePlace) {
        if let Some(slice) = place.slice().filter(|slice| self.kept.contains_key(slice)) {
            self.change(slice, None);
        }
    }

    fn change(&mut self, slice: SliceId, note: Option<Bytes>) {
        match &note {
            Some(note) => drop(self.kept.insert(slice, note.clone())),
            None => drop(self.kept.remove(&slice)),
        }
        self.changed.push_back((slice, note));
    }

    /// The next note that is to be kept, or to go.
    pub(crate) fn next(&mut self) -> Option<(SliceId, Option<Bytes>)> {
        let (slice, _) = self.changed.front()?;
        if self.going.contains(slice) {
            return None;
        }
        let (slice, note) = self.changed.pop_front()?;
        if note.is_none() {
            self.going.insert(slice);
        }
        Some((slice, note))
    }

    /// How many notes are on their way out.
    pub(crate) fn going(&self) -> usize {
        let changed = self.changed.iter();
        self.going.len() + changed.filter(|(_, note)| note.is_none()).count()
    }

    /// A note is gone.
    pub(crate) fn gone(&mut self, slice: SliceId) {
        self.going.remove(&slice);
    }
}

pub(crate) fn bookmark_place() -> SliceId {
    let place = NotePlace::Bookmark.slice();
    place.expect("a node has one")
}

fn cluster_place() -> SliceId {
    let place = NotePlace::Cluster.slice();
    place.expect("there is one cluster")
}

/// What the store of a node tells of the metadata, to whoever makes it again. `slices` is what an opening
/// found, or would find.
#[must_use]
pub fn report(
    (cluster, node, store): (ClusterId, NodeId, StoreId),
    uses: u64,
    slices: &BTreeMap<SliceId, RecoveredSlice>,
) -> NodeReport {
    let mut report = NodeReport {
        node,
        cluster,
        store,
        uses,
        notes: alloc::vec![],
        notes_unreadable: 0,
        has_hole: false,
        slices: alloc::vec![],
        incarnation_max: Incarnation::ZERO,
    };
    for (slice, found) in slices {
        let state = found.state.as_ref();
        report.has_hole |= !found.intact;
        if slice.volume == NOTES {
            match state.map(|state| Note::decode(state)) {
                // They say nothing of what the metadata held, and a version of before does not know them.
                _ if *slice == bookmark_place() => {}
                Some(Ok(note)) => report.notes.push(note),
                Some(Err(_)) => report.notes_unreadable += 1,
                None => {}
            }
            continue;
        }
        let starts = found.commands.iter();
        let starts = starts.map(|(CommandId { incarnation, .. }, _)| *incarnation);
        report.incarnation_max = starts.fold(report.incarnation_max, Incarnation::max);
        let held = holdfast_replica::held(*slice, state, found.intact, found.committed);
        report.slices.push(held);
    }
    report
}

/// A slice of which a store has found this state, and nothing else.
#[cfg(test)]
pub(crate) fn recovered(state: Bytes) -> RecoveredSlice {
    RecoveredSlice {
        state: Some(state),
        prepared: Default::default(),
        committed: Default::default(),
        stable: Default::default(),
        intact: true,
        lacks: false,
        tail_suspect: false,
        commands: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use holdfast_model::metadata::LeaseId;
    use holdfast_model::{Policy, VolumeId};

    use super::*;

    fn pair(key: &str, value: Bytes, revision: u64) -> KeyValue {
        KeyValue {
            key: key.to_string(),
            value,
            create_revision: Revision(1),
            mod_revision: Revision(revision),
            version: 1,
            lease: LeaseId(0),
        }
    }

    fn cluster() -> KeyValue {
        let record = ClusterRecord {
            schema: 1,
            cluster: ClusterId(5),
            next_volume: VolumeId(3),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        pair(CLUSTER_KEY, record.encode(), 1)
    }

    fn volume(revision: u64) -> KeyValue {
        let record = VolumeRecord {
            schema: 1,
            volume: VolumeId(2),
            name: "data".to_string(),
            bytes: 4096 * revision,
            policy: Policy::Mirror2,
            target: "iqn".to_string(),
            lun: 0,
        };
        pair(&VolumeRecord::key(VolumeId(2)), record.encode(), revision)
    }

    fn list(notes: &mut Notes, found: &[KeyValue], revision: u64) {
        notes.begin_list(found);
        found.iter().for_each(|pair| notes.note(pair));
        notes.end_list(Revision(revision));
    }

    /// Which notes are to be kept, and which to go.
    fn changes(notes: &mut Notes) -> Vec<(SliceId, bool)> {
        core::iter::from_fn(|| notes.next())
            .map(|(slice, note)| (slice, note.is_some()))
            .collect()
    }

    fn place() -> SliceId {
        NotePlace::Volume(VolumeId(2)).slice().unwrap()
    }

    #[test]
    fn what_is_new_is_noted_and_the_cluster_after_it() {
        let mut notes = Notes::default();
        notes.name(Incarnation(4));
        list(&mut notes, &[cluster(), volume(7)], 9);
        assert_eq!(
            changes(&mut notes),
            [(place(), true), (cluster_place(), true)]
        );
        let note = Note::decode(&notes.kept[&cluster_place()]).unwrap();
        assert_eq!(note.at.revision, Revision(9));
        assert!(matches!(
            note.document,
            NoteDocument::Cluster(_, Incarnation(4))
        ));
        // Nothing has changed, and it is not long ago.
        notes.followed(Revision(500));
        assert_eq!(changes(&mut notes), []);
        notes.note(&volume(501));
        notes.followed(Revision(501));
        assert_eq!(
            changes(&mut notes),
            [(place(), true), (cluster_place(), true)]
        );
        notes.followed(Revision(502 + UNNOTED_MAX));
        assert_eq!(changes(&mut notes), [(cluster_place(), true)]);
    }

    /// What is made again of a lost metadata is to know old copies of devices, too.
    #[test]
    fn a_nodes_note_has_the_id_of_its_use() {
        let node = NodeRecord {
            schema: 1,
            node: NodeId(3),
            name: "n3".to_string(),
            store: StoreId(6),
            uses: 2,
            use_id: 0,
            incarnation: Incarnation(4),
            portal: "h:1".to_string(),
            peer: "h:2".to_string(),
            api: "http://h:3".to_string(),
        };
        let of_use = UseRecord {
            schema: 1,
            node: NodeId(3),
            store: StoreId(6),
            uses: 2,
            use_id: 70,
        };
        let told = |node: &NodeRecord| pair(&NodeRecord::key(node.node), node.encode(), 7);
        let told_use = |it: &UseRecord| pair(&UseRecord::key(it.node), it.encode(), 7);
        let noted = |notes: &Notes| notes.noted_node(NodeId(3)).unwrap().1;
        let mut notes = Notes::default();
        let found = [cluster(), told(&node), told_use(&of_use)];
        list(&mut notes, &found, 9);
        let with_id = NodeRecord {
            use_id: 70,
            ..node.clone()
        };
        assert_eq!(noted(&notes), with_id);
        assert!(!changes(&mut notes).is_empty());
        // The same once more is nothing new.
        list(&mut notes, &found, 9);
        assert_eq!(changes(&mut notes), []);
        // The next use is another one, until its id is told.
        let next = NodeRecord { uses: 3, ..node };
        notes.note(&told(&next));
        notes.note(&told_use(&of_use));
        assert_eq!(noted(&notes), next);
        let of_next = UseRecord {
            uses: 3,
            use_id: 71,
            ..of_use
        };
        notes.note(&told_use(&of_next));
        assert_eq!(noted(&notes).use_id, 71);
    }

    #[test]
    fn what_is_deleted_goes_before_it_may_come_again() {
        let mut notes = Notes::default();
        list(&mut notes, &[cluster(), volume(7)], 9);
        assert_eq!(changes(&mut notes).len(), 2);
        notes.forget(NotePlace::Volume(VolumeId(2)));
        notes.followed(Revision(10));
        notes.note(&volume(11));
        notes.followed(Revision(11));
        assert_eq!(
            changes(&mut notes),
            [(place(), false), (cluster_place(), true)]
        );
        assert_eq!(notes.going(), 1);
        notes.gone(place());
        assert_eq!(notes.going(), 0);
        assert_eq!(
            changes(&mut notes),
            [(place(), true), (cluster_place(), true)]
        );
        // Deleted while nobody looked.
        list(&mut notes, &[cluster()], 20);
        assert_eq!(
            changes(&mut notes),
            [(place(), false), (cluster_place(), true)]
        );
    }

    #[test]
    fn notes_are_found_again_and_told() {
        let mut notes = Notes::default();
        list(&mut notes, &[cluster(), volume(7)], 9);
        let found = notes.kept.iter();
        let found = found.map(|(slice, note)| (*slice, recovered(note.clone())));
        let mut found: BTreeMap<_, _> = found.collect();
        let told = report((ClusterId(5), NodeId(1), StoreId(1)), 3, &found);
        assert_eq!((told.notes.len(), told.slices.len()), (2, 0));
        found.get_mut(&place()).unwrap().intact = false;
        let mut again = Notes::take_from(&mut found);
        assert!(found.is_empty());
        assert_eq!(again.noted().revision, Revision(9));
        assert_eq!(changes(&mut again), [(place(), false)]);
        again.gone(place());
        list(&mut again, &[cluster(), volume(7)], 9);
        assert_eq!(
            changes(&mut again),
            [(place(), true), (cluster_place(), true)]
        );
    }
}
