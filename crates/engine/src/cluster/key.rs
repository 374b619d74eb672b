//! What the metadata's keys name.

use alloc::string::String;

use holdfast_model::record::{
    ACCESS_PREFIX, BOOKMARKS_PREFIX, DELETED_KEY, EXPORTS_PREFIX, INITIATORS_PREFIX,
    INTENTS_PREFIX, NODES_PREFIX, SCRUBBED_PREFIX, SCRUBS_PREFIX, SETTINGS_KEY, SLICES_PREFIX,
    VOLUMES_PREFIX, WISHES_PREFIX,
};
use holdfast_model::report::NotePlace;
use holdfast_model::{NodeId, SliceId, VolumeId};

/// What a key names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Node(NodeId),
    Volume(VolumeId),
    Slice(SliceId),
    Wish(SliceId),
    Intent(NodeId),
    Settings,
    Deleted,
    Scrub(VolumeId),
    Scrubbed(SliceId),
    Bookmark(NodeId),
    Access(VolumeId),
    Initiator(String),
    Export(VolumeId),
}

impl Key {
    /// Where the node keeps a note of it, if it does.
    pub(super) fn note(&self) -> Option<NotePlace> {
        match self {
            Self::Node(node) => Some(NotePlace::Node(*node)),
            Self::Volume(volume) => Some(NotePlace::Volume(*volume)),
            Self::Intent(node) => Some(NotePlace::Intent(*node)),
            Self::Settings => Some(NotePlace::Settings),
            Self::Slice(_)
            | Self::Wish(_)
            | Self::Deleted
            | Self::Scrub(_)
            | Self::Scrubbed(_)
            | Self::Bookmark(_)
            | Self::Access(_)
            | Self::Initiator(_)
            | Self::Export(_) => None,
        }
    }

    /// Whether it says which data there is, who has it, and who may change it.
    pub(super) fn tells_of_data(&self) -> bool {
        match self {
            Self::Volume(_)
            | Self::Slice(_)
            | Self::Deleted
            | Self::Intent(_)
            | Self::Access(_) => true,
            Self::Node(_)
            | Self::Wish(_)
            | Self::Settings
            | Self::Scrub(_)
            | Self::Scrubbed(_)
            | Self::Bookmark(_)
            | Self::Initiator(_)
            | Self::Export(_) => false,
        }
    }

    pub(super) fn parse(key: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().map(NodeId);
        let volume_of = |text: &str| u64::from_str_radix(text, 16).ok().map(VolumeId);
        let slice_of = |text: &str| {
            let (volume, index) = text.split_once('/')?;
            Some(SliceId {
                volume: volume_of(volume)?,
                index: u32::from_str_radix(index, 16).ok()?,
            })
        };
        if key == SETTINGS_KEY {
            return Some(Self::Settings);
        }
        if key == DELETED_KEY {
            return Some(Self::Deleted);
        }
        if let Some(node) = key.strip_prefix(NODES_PREFIX) {
            return number(node).map(Self::Node);
        }
        if let Some(node) = key.strip_prefix(BOOKMARKS_PREFIX) {
            return number(node).map(Self::Bookmark);
        }
        if let Some(node) = key.strip_prefix(INTENTS_PREFIX) {
            return number(node).map(Self::Intent);
        }
        if let Some(volume) = key.strip_prefix(VOLUMES_PREFIX) {
            return volume_of(volume).map(Self::Volume);
        }
        if let Some(volume) = key.strip_prefix(ACCESS_PREFIX) {
            return volume_of(volume).map(Self::Access);
        }
        if let Some(volume) = key.strip_prefix(SCRUBS_PREFIX) {
            return volume_of(volume).map(Self::Scrub);
        }
        if let Some(name) = key.strip_prefix(INITIATORS_PREFIX) {
            return Some(Self::Initiator(name.into()));
        }
        if let Some(volume) = key.strip_prefix(EXPORTS_PREFIX) {
            return volume_of(volume).map(Self::Export);
        }
        if let Some(slice) = key.strip_prefix(SCRUBBED_PREFIX) {
            return slice_of(slice).map(Self::Scrubbed);
        }
        if let Some(slice) = key.strip_prefix(WISHES_PREFIX) {
            return slice_of(slice).map(Self::Wish);
        }
        slice_of(key.strip_prefix(SLICES_PREFIX)?).map(Self::Slice)
    }
}
