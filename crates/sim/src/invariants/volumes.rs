//! What the metadata holds of volumes belongs together (`holdfast_control`: a volume is visible only when all of its slices
//! are; two plans never mix): one that is there has all its slices and its name; with one that is deleted goes all that is
//! about it, and nothing of that ever comes again, under whatever name.
//!
//! A scrub of it is over when each of its slices has said so; and where nobody orders rounds one over the other, each begins
//! when the one before is over.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_metadata::machine::StoreChange;
use holdfast_model::metadata::{KeyValue, WatchEvent};
use holdfast_model::record::{
    NAMES_PREFIX, NameRecord, Record, SCRUBBED_PREFIX, SCRUBS_PREFIX, SLICES_PREFIX, ScrubRecord,
    ScrubbedRecord, SliceRecord, VOLUMES_PREFIX, VolumeRecord, WISHES_PREFIX, WishRecord,
};
use holdfast_model::{SliceId, VolumeId};

use crate::failure::Failure;

/// A document that is about a volume.
#[derive(Clone, Debug)]
enum Document {
    Name(VolumeId),
    Volume(VolumeRecord),
    Slice(SliceId),
    Wish(SliceId),
    Scrub(ScrubRecord),
    Scrubbed(ScrubbedRecord),
}

impl Document {
    fn of(pair: &KeyValue) -> Option<Self> {
        fn read<R: Record>(pair: &KeyValue) -> R {
            R::decode(&pair.value).expect("our own records can be read")
        }
        let key = pair.key.as_str();
        let is = |prefix: &str| key.starts_with(prefix);
        Some(if is(NAMES_PREFIX) {
            Self::Name(read::<NameRecord>(pair).volume)
        } else if is(VOLUMES_PREFIX) {
            Self::Volume(read(pair))
        } else if is(SLICES_PREFIX) {
            Self::Slice(read::<SliceRecord>(pair).slice)
        } else if is(WISHES_PREFIX) {
            Self::Wish(read::<WishRecord>(pair).slice)
        } else if is(SCRUBS_PREFIX) {
            Self::Scrub(read(pair))
        } else if is(SCRUBBED_PREFIX) {
            Self::Scrubbed(read(pair))
        } else {
            return None;
        })
    }

    fn volume(&self) -> VolumeId {
        match self {
            Self::Name(volume) => *volume,
            Self::Volume(record) => record.volume,
            Self::Slice(slice) | Self::Wish(slice) => slice.volume,
            Self::Scrub(record) => record.volume,
            Self::Scrubbed(record) => record.slice.volume,
        }
    }
}

/// All of them, by key.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    documents: BTreeMap<String, Document>,
    /// Volumes that were deleted, or of which only what was left of their making was.
    gone: BTreeSet<VolumeId>,
    /// Rounds are begun one after the other.
    pub(super) has_rounds: bool,
    /// The metadata was exchanged for another one: what it holds is not known here.
    pub(super) is_blind: bool,
}

impl Volumes {
    /// The metadata has changed.
    pub(super) fn check(&mut self, changes: &[StoreChange]) -> Result<(), Failure> {
        if self.is_blind {
            return Ok(());
        }
        for change in changes {
            let StoreChange::Committed { events, .. } = change else {
                continue;
            };
            let mut changed = BTreeSet::new();
            for event in events {
                self.follow(event, &mut changed).map_err(broken)?;
            }
            for volume in changed {
                self.check_whole(volume).map_err(broken)?;
            }
        }
        Ok(())
    }

    /// Takes note of an event, and of the volumes that it is about.
    fn follow(
        &mut self,
        event: &WatchEvent,
        changed: &mut BTreeSet<VolumeId>,
    ) -> Result<(), String> {
        let pair = match event {
            WatchEvent::Put(pair) => pair,
            WatchEvent::Delete { key, .. } => {
                let Some(document) = self.documents.remove(key) else {
                    return Ok(());
                };
                let volume = document.volume();
                changed.insert(volume);
                // A name that goes takes its volume with it, be that finished or not.
                if matches!(document, Document::Volume(_) | Document::Name(_)) {
                    self.gone.insert(volume);
                }
                return Ok(());
            }
        };
        let Some(document) = Document::of(pair) else {
            return Ok(());
        };
        let volume = document.volume();
        changed.insert(volume);
        if self.gone.contains(&volume) {
            return Err(format!(
                "volume {volume} is gone, and there is {document:?}"
            ));
        }
        if let Document::Scrub(after) = &document {
            self.check_round(&pair.key, after)?;
        }
        let before = self.documents.insert(pair.key.clone(), document);
        // Whoever takes a name over does so from one that was not finished.
        if let Some(Document::Name(former)) = before
            && former != volume
        {
            self.gone.insert(former);
            changed.insert(former);
        }
        Ok(())
    }

    fn of(&self, volume: VolumeId) -> impl Iterator<Item = &Document> {
        let documents = self.documents.values();
        documents.filter(move |document| document.volume() == volume)
    }

    fn check_whole(&self, volume: VolumeId) -> Result<(), String> {
        if self.gone.contains(&volume) {
            return match self.of(volume).next() {
                Some(left) => Err(format!("volume {volume} is gone, and left is {left:?}")),
                None => Ok(()),
            };
        }
        let record = self.of(volume).find_map(|document| match document {
            Document::Volume(record) => Some(record),
            _ => None,
        });
        let Some(record) = record else {
            return Ok(());
        };
        let slices = self.of(volume);
        let slices = slices.filter(
            |it| matches!(it, Document::Slice(slice) if slice.index < record.slice_count()),
        );
        let (slices, expected) = (slices.count(), record.slice_count() as usize);
        if slices != expected {
            return Err(format!("volume {volume} has {slices} of {expected} slices"));
        }
        let name = self.documents.get(&NameRecord::key(&record.name));
        if !matches!(name, Some(Document::Name(named)) if *named == volume) {
            return Err(format!("volume {volume} has not its name: {name:?}"));
        }
        Ok(())
    }

    fn check_round(&self, key: &str, after: &ScrubRecord) -> Result<(), String> {
        let before = match self.documents.get(key) {
            Some(Document::Scrub(before)) => Some(before),
            _ => None,
        };
        if after.is_under_way() {
            let follows = before.map_or(1, |it| it.round + 1) == after.round;
            let was_over = before.is_none_or(|it| !it.is_under_way());
            if self.has_rounds && !(follows && was_over) {
                return Err(format!("{before:?} became {after:?}"));
            }
            return Ok(());
        }
        let documents = self.of(after.volume);
        let done = documents
            .filter(|it| matches!(it, Document::Scrubbed(part) if part.round >= after.round));
        let volume = self.documents.get(&VolumeRecord::key(after.volume));
        let slices = match volume {
            Some(Document::Volume(record)) => record.slice_count() as usize,
            _ => return Err(format!("{after:?} is about no volume")),
        };
        if done.count() < slices {
            return Err(format!(
                "not every slice has said that it is over: {after:?}"
            ));
        }
        Ok(())
    }
}

fn broken(what: String) -> Failure {
    Failure::Invariant {
        name: "volumes",
        what,
    }
}
