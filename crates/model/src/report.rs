//! What a node's devices say of the metadata, for the day on which that is lost for good: notes of what
//! it held, and each replica's own record.
//!
//! A *note* is a document that a node keeps beside its slices, as the state of a slice of volume 0, which
//! no volume is. It says when the document was as it says: of two notes of the same thing the later one
//! counts.
//!
//! Invariants:
//! - unknown fields are refused: a newer schema is never half understood;
//! - every document has a place of its own among the notes, and the same one on every node.

use alloc::vec::Vec;

use holdfast_stdx::Bytes;
use serde::{Deserialize, Serialize};

use crate::metadata::Revision;
use crate::record::{
    BookmarkRecord, ClusterRecord, Head, IntentRecord, NodeRecord, RecordError, SettingsRecord,
    SliceRecord, VolumeRecord,
};
use crate::{ClusterId, Epoch, Incarnation, NodeId, Sequence, SliceId, StoreId, VolumeId};

/// The volume whose slices are a node's notes: volumes are counted from 1.
pub const NOTES: VolumeId = VolumeId::ZERO;

/// Numbers of each kind of note, at most: as many volumes as no cluster makes.
const NUMBERS: u32 = 1 << 28;

/// When a document of the metadata was as a note says. Later is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotedAt {
    /// How often the metadata had been lost: revisions begin anew then.
    pub recoveries: u64,
    /// Its revision.
    pub revision: Revision,
}

/// A document of the metadata, as a node keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Schema number, 1.
    pub schema: u32,
    /// The document was last changed then. Of the cluster's own note: everything that is noted, and that
    /// nothing else is there, was so then or later.
    pub at: NotedAt,
    /// What it says.
    pub document: NoteDocument,
}

/// What a note is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteDocument {
    /// The cluster; and the start of the node that keeps the note.
    Cluster(ClusterRecord, Incarnation),
    /// The settings.
    Settings(SettingsRecord),
    /// A node.
    Node(NodeRecord),
    /// What is wanted of a node.
    Intent(IntentRecord),
    /// A volume.
    Volume(VolumeRecord),
    /// The bookmark that the node itself has left in the metadata, as far as that was noted. The note says of which metadata: its
    /// revision counts for nothing. None: that there is no bookmark in it, or another one, says nothing.
    Bookmark(Option<BookmarkRecord>),
}

/// Which note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotePlace {
    /// That of the cluster.
    Cluster,
    /// That of the settings.
    Settings,
    /// That of a node.
    Node(NodeId),
    /// That of what is wanted of a node.
    Intent(NodeId),
    /// That of a volume.
    Volume(VolumeId),
    /// That of the node's own bookmark.
    Bookmark,
}

impl NotePlace {
    /// The slice whose state the note is. None for a volume beyond all that can be noted.
    #[must_use]
    pub fn slice(self) -> Option<SliceId> {
        let (kind, number) = match self {
            Self::Cluster => (0, 0),
            Self::Settings => (1, 0),
            Self::Node(node) => (2, u32::from(node.0)),
            Self::Intent(node) => (3, u32::from(node.0)),
            Self::Volume(volume) => (4, u32::try_from(volume.0).ok()?),
            Self::Bookmark => (5, 0),
        };
        (number < NUMBERS).then_some(SliceId {
            volume: NOTES,
            index: kind * NUMBERS + number,
        })
    }
}

impl NoteDocument {
    /// Where it is kept.
    #[must_use]
    pub fn place(&self) -> NotePlace {
        match self {
            Self::Cluster(..) => NotePlace::Cluster,
            Self::Settings(_) => NotePlace::Settings,
            Self::Node(record) => NotePlace::Node(record.node),
            Self::Intent(record) => NotePlace::Intent(record.node),
            Self::Volume(record) => NotePlace::Volume(record.volume),
            Self::Bookmark(_) => NotePlace::Bookmark,
        }
    }
}

impl Note {
    /// The only schema number that this code understands.
    pub const SCHEMA: u32 = 1;

    /// A note.
    #[must_use]
    pub fn new(at: NotedAt, document: NoteDocument) -> Self {
        Self {
            schema: Self::SCHEMA,
            at,
            document,
        }
    }

    /// The note as it is kept.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("a note is valid JSON"))
    }

    /// Reads what was kept.
    ///
    /// # Errors
    /// [`RecordError`] if it is no note, or one of another schema.
    pub fn decode(kept: &[u8]) -> Result<Self, RecordError> {
        let head: Head = serde_json::from_slice(kept).map_err(|_| RecordError::Malformed)?;
        if head.schema != Self::SCHEMA {
            return Err(RecordError::Schema(head.schema));
        }
        serde_json::from_slice(kept).map_err(|_| RecordError::Malformed)
    }
}

/// How far a replica's contents can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldStanding {
    /// They are those of one moment.
    Whole,
    /// They are in part those of a later moment: it was being brought up to date.
    Joining,
    /// A part is lost.
    Damaged,
}

/// A replica, as a node's devices hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldSlice {
    /// Of which slice.
    pub slice: SliceId,
    /// The newest epoch that has begun in it.
    pub epoch: Epoch,
    /// It has withdrawn from all epochs up to this one.
    pub withdrawn: Epoch,
    /// What it is worth.
    pub standing: HeldStanding,
    /// Whether nothing that was durable is missing of its journal. If not, it may have known more.
    pub intact: bool,
    /// Its committed point.
    pub committed: Sequence,
    /// The newest record that it knew; none if it was kept by a version that kept none.
    pub record: Option<SliceRecord>,
    /// As the primary of that record's epoch it had asked for this node's replica to be counted as in
    /// sync, and did not learn what became of it.
    pub admitting: Option<NodeId>,
}

/// What a node's devices hold that tells of the metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeReport {
    /// Whose devices they are.
    pub node: NodeId,
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// What its devices hold.
    pub store: StoreId,
    /// How often that was opened.
    pub uses: u64,
    /// The node's notes that can be read.
    pub notes: Vec<Note>,
    /// How many cannot.
    pub notes_unreadable: u64,
    /// Whether a part of its journal is missing: it may have known more.
    pub has_hole: bool,
    /// Its replicas.
    pub slices: Vec<HeldSlice>,
    /// The highest number of a node's start that its journal knows of.
    pub incarnation_max: Incarnation,
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;
    use crate::record::Bookmark;

    #[test]
    fn notes_are_read_for_ever() {
        let note = Note::new(
            NotedAt {
                recoveries: 1,
                revision: Revision(70),
            },
            NoteDocument::Settings(SettingsRecord::default()),
        );
        let text = br#"{"schema":1,"at":{"recoveries":1,"revision":70},"document":{"settings":{"schema":1,"repair_delay_seconds":3600,"rebalance":true,"background_slowdown_percent":10,"background_floor":16777216,"scrub_interval_seconds":604800,"scrub_rate":67108864}}}"#;
        assert_eq!(&note.encode()[..], &text[..]);
        assert_eq!(Note::decode(text), Ok(note.clone()));
        let cluster = ClusterRecord {
            schema: 1,
            cluster: ClusterId(5),
            next_volume: VolumeId(3),
            recoveries: 0,
            incarnation_floor: Incarnation::ZERO,
        };
        let document = NoteDocument::Cluster(cluster, Incarnation(4));
        let cluster = Note { document, ..note };
        let text = br#"{"schema":1,"at":{"recoveries":1,"revision":70},"document":{"cluster":[{"schema":1,"cluster":"00000000000000000000000000000005","next_volume":3},4]}}"#;
        assert_eq!(&cluster.encode()[..], &text[..]);
        assert_eq!(Note::decode(text), Ok(cluster));
        let text = br#"{"schema":1,"at":{"recoveries":1,"revision":70},"document":{"bookmark":{"schema":1,"node":3,"store":"0000000000000000000000000000000a","uses":7,"bookmark":{"use_id":5,"number":2}}}}"#;
        let left = BookmarkRecord {
            schema: 1,
            node: NodeId(3),
            store: StoreId(10),
            uses: 7,
            bookmark: Bookmark {
                use_id: 5,
                number: 2,
            },
        };
        let bookmark = Note {
            document: NoteDocument::Bookmark(Some(left)),
            ..note
        };
        assert_eq!(&bookmark.encode()[..], &text[..]);
        assert_eq!(Note::decode(text), Ok(bookmark));
        let none = Note {
            document: NoteDocument::Bookmark(None),
            ..note
        };
        assert_eq!(Note::decode(&none.encode()), Ok(none));
        let newer = Note { schema: 2, ..note };
        assert_eq!(Note::decode(&newer.encode()), Err(RecordError::Schema(2)));
        let newer = br#"{"schema":2,"documents":[]}"#;
        assert_eq!(Note::decode(newer), Err(RecordError::Schema(2)));
        assert_eq!(Note::decode(b"{}"), Err(RecordError::Malformed));
    }

    #[test]
    fn every_note_has_a_place_of_its_own() {
        let places = [
            NotePlace::Cluster,
            NotePlace::Settings,
            NotePlace::Node(NodeId(1)),
            NotePlace::Node(NodeId(u16::MAX)),
            NotePlace::Intent(NodeId(1)),
            NotePlace::Volume(VolumeId(1)),
            NotePlace::Volume(VolumeId((1 << 28) - 1)),
            NotePlace::Bookmark,
        ];
        let slices = places.map(|place| place.slice().unwrap());
        assert!(slices.iter().all(|slice| slice.volume == NOTES));
        assert_eq!(BTreeSet::from(slices).len(), places.len());
        for volume in [1 << 28, (1 << 32) + 1] {
            assert_eq!(NotePlace::Volume(VolumeId(volume)).slice(), None);
        }
    }
}
