//! What a newer version kept in the journal: it is refused before anything is done, for what cannot be read
//! is taken for damage, and what is damaged is given up.
//!
//! It refuses nothing that is only bad: a store has its own ways for that.

use alloc::collections::BTreeMap;

use holdfast_model::SliceId;
use holdfast_model::record::RecordError;
use holdfast_model::report::{NOTES, Note};
use holdfast_store::RecoveredSlice;

/// Something in the journal is of a version that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal holds the state of slice {slice} in version {version}, this program reads up to \
     {known}\n\nhint: run the newer program that wrote it"
)]
pub struct NewerState {
    slice: SliceId,
    version: u32,
    known: u32,
}

impl NewerState {
    /// The first one among what an opening found.
    pub(crate) fn find(slices: &BTreeMap<SliceId, RecoveredSlice>) -> Option<Self> {
        slices.iter().find_map(|(slice, found)| {
            let state = found.state.as_ref()?;
            let (version, known) = if slice.volume == NOTES {
                match Note::decode(state) {
                    Err(RecordError::Schema(schema)) => (schema, Note::SCHEMA),
                    _ => return None,
                }
            } else {
                let version = holdfast_replica::newer_version(state)?;
                (version.into(), holdfast_replica::KEPT_VERSION.into())
            };
            Some(Self {
                slice: *slice,
                version,
                known,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use holdfast_model::VolumeId;
    use holdfast_stdx::Bytes;

    use super::*;
    use crate::notes::recovered;

    fn found(volume: u64, state: &'static [u8]) -> BTreeMap<SliceId, RecoveredSlice> {
        let slice = SliceId {
            volume: VolumeId(volume),
            index: 4,
        };
        let found = recovered(Bytes::from_static(state));
        [(slice, found)].into()
    }

    #[test]
    fn a_newer_state_and_a_newer_note_are_found() {
        for (volume, newer, version) in [
            (3, &b"\x03\0what it is"[..], 3),
            (3, b"\xff\xff", 65535),
            (0, br#"{"schema":2,"what":"it is"}"#, 2),
        ] {
            let newer = NewerState::find(&found(volume, newer)).unwrap();
            assert_eq!(newer.version, version);
            let text = newer.to_string();
            assert!(text.contains("hint: run the newer program"), "{text}");
        }
        // What is bad is the store's and the replica's business.
        for (volume, bad) in [
            (3, &b""[..]),
            (3, b"\0\0"),
            (3, b"\x02\0"),
            (0, b"{"),
            (0, b"{}"),
        ] {
            assert_eq!(NewerState::find(&found(volume, bad)), None);
        }
    }
}
