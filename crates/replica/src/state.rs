//! What a replica keeps beside its log, through restarts.
//!
//! Layout, version 2, little-endian: version (u16), standing (u8), clean (u8), epoch (u64),
//! withdrawn (u64), standing's stable point (u64), last sequence of a clean stop (u64), epoch in which
//! the sync began (u64), node that is about to be counted as in sync (u16), zeros (u16), and the newest
//! record to the end, as it is in the metadata. Version 1 ends before the node.
//!
//! Invariants:
//! - `epoch` is the newest that began here; nothing of an older one is taken any more;
//! - from an epoch up to `withdrawn` no lease is granted and nothing is taken, restart or not.

use alloc::vec::Vec;

use holdfast_model::record::{Record, SliceRecord};
use holdfast_model::report::{HeldSlice, HeldStanding};
use holdfast_model::{Epoch, NodeId, Sequence, SliceId};
use holdfast_stdx::Bytes;

const VERSION: u16 = 2;
/// The only bytes of version 1, and the first ones since.
const FIRST_BYTES: usize = 4 + 5 * 8;
/// Where the record begins.
const STATE_BYTES: usize = FIRST_BYTES + 4;

/// How far the contents here can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// They are those of the log's committed point.
    Whole,
    /// They were those of `stable`; since then some blocks have been brought up to date.
    Joining {
        /// Where the mark begins that names the others.
        stable: Sequence,
        /// The epoch in which that began; zero if something durable was lost since.
        sync: Epoch,
    },
    /// A part of the log is lost: they are those of `stable`, or later.
    Damaged {
        /// Where the mark begins that brings back what is lost.
        stable: Sequence,
    },
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) epoch: Epoch,
    pub(crate) withdrawn: Epoch,
    pub(crate) standing: Standing,
    /// The replica led this epoch and stopped cleanly after this sequence, everything committed.
    pub(crate) clean: Option<Sequence>,
    /// The replica leads this epoch, and asks for this node's to be counted as in sync. If the metadata is
    /// lost, that one may have gone on alone.
    pub(crate) admitting: Option<NodeId>,
}

/// What is kept, and the record beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) state: State,
    /// The newest record that was followed, as it is in the metadata; empty if none was kept.
    pub(crate) record: Bytes,
}

impl Kept {
    /// Reads what was kept. What cannot be read is nothing to rely on.
    pub(crate) fn of(kept: &Bytes) -> Self {
        let state = State::decode(kept).unwrap_or(State::DAMAGED);
        let record = kept.get(STATE_BYTES..).map(Bytes::copy_from_slice);
        Self {
            state,
            record: record.unwrap_or_default(),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = self.state.encode();
        bytes.extend_from_slice(&self.record);
        Bytes::from(bytes)
    }
}

impl State {
    /// The state of a replica that nothing has happened to.
    pub(crate) const NEW: State = State {
        epoch: Epoch(1),
        withdrawn: Epoch(0),
        standing: Standing::Whole,
        clean: None,
        admitting: None,
    };

    /// That of a replica of which nothing can be relied on.
    const DAMAGED: State = State {
        standing: Standing::Damaged {
            stable: Sequence::ZERO,
        },
        ..State::NEW
    };

    /// What is left of what was kept when something durable is lost. There may be contents all the same.
    pub(crate) fn after_loss(kept: Option<Self>) -> Self {
        let kept = kept.unwrap_or(Self::DAMAGED);
        let standing = match kept.standing {
            // Copies may be lost, and what was sent meanwhile, and what was there before.
            Standing::Joining { .. } => Standing::Joining {
                stable: Sequence::ZERO,
                sync: Epoch::ZERO,
            },
            // Copies that were brought long ago may be among what is lost, and no sequence tells.
            Standing::Whole | Standing::Damaged { .. } => Self::DAMAGED.standing,
        };
        Self { standing, ..kept }
    }

    /// Whether something durable was lost, so that the contents are nobody's.
    pub(crate) fn is_damaged(&self) -> bool {
        match self.standing {
            Standing::Whole => false,
            Standing::Joining { sync, .. } => sync == Epoch::ZERO,
            Standing::Damaged { .. } => true,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (standing, stable, sync) = match self.standing {
            Standing::Whole => (0, Sequence::ZERO, Epoch::ZERO),
            Standing::Joining { stable, sync } => (1, stable, sync),
            Standing::Damaged { stable } => (2, stable, Epoch::ZERO),
        };
        let mut bytes = Vec::with_capacity(STATE_BYTES);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.push(standing);
        bytes.push(u8::from(self.clean.is_some()));
        bytes.extend_from_slice(&self.epoch.0.to_le_bytes());
        bytes.extend_from_slice(&self.withdrawn.0.to_le_bytes());
        bytes.extend_from_slice(&stable.0.to_le_bytes());
        bytes.extend_from_slice(&self.clean.unwrap_or_default().0.to_le_bytes());
        bytes.extend_from_slice(&sync.0.to_le_bytes());
        let admitting = self.admitting.map_or(0, |node| node.0);
        bytes.extend_from_slice(&admitting.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes
    }

    /// `None` if it is not that of a version that is known.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let version = u16::from_le_bytes(*bytes.first_chunk()?);
        let admitting = match version {
            1 if bytes.len() == FIRST_BYTES => None,
            VERSION => {
                let [low, high, 0, 0] = *bytes.get(FIRST_BYTES..)?.first_chunk()? else {
                    return None;
                };
                Some(NodeId(u16::from_le_bytes([low, high]))).filter(|node| node.0 != 0)
            }
            _ => return None,
        };
        let word = |at: usize| {
            u64::from_le_bytes(
                bytes[at..at + 8]
                    .try_into()
                    .expect("eight bytes are a word"),
            )
        };
        let stable = Sequence(word(20));
        let standing = match bytes[2] {
            0 => Standing::Whole,
            1 => Standing::Joining {
                stable,
                sync: Epoch(word(36)),
            },
            2 => Standing::Damaged { stable },
            _ => return None,
        };
        let clean = match bytes[3] {
            0 => None,
            1 => Some(Sequence(word(28))),
            _ => return None,
        };
        Some(Self {
            epoch: Epoch(word(4)),
            withdrawn: Epoch(word(12)),
            standing,
            clean,
            admitting,
        })
    }
}

/// The version of what a replica kept, if it is newer than any that this code knows: it is not lost, and
/// must not be taken for it.
#[must_use]
pub fn newer_version(kept: &Bytes) -> Option<u16> {
    let version = kept.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    version.filter(|version| *version > VERSION)
}

/// The newest version of what replicas keep that this code knows.
pub const KEPT_VERSION: u16 = VERSION;

/// What a replica is to keep instead of what it kept, when what its store holds is as of nobody knows when:
/// it joins anew.
#[must_use]
pub fn doubted(kept: Option<&Bytes>) -> Bytes {
    let kept = kept.map(Kept::of);
    let record = kept.as_ref().map(|kept| kept.record.clone());
    let doubted = Kept {
        state: State::after_loss(kept.map(|kept| kept.state)),
        record: record.unwrap_or_default(),
    };
    doubted.encode()
}

/// What a replica's state tells of it, for whoever has nothing but the devices. `intact` and the committed
/// point are the store's findings.
#[must_use]
pub fn held(slice: SliceId, kept: Option<&Bytes>, intact: bool, committed: Sequence) -> HeldSlice {
    let kept = kept.map(Kept::of);
    let lost = Kept {
        state: State::DAMAGED,
        record: Bytes::new(),
    };
    let Kept { state, record } = kept.unwrap_or(lost);
    let standing = match state.standing {
        _ if state.is_damaged() || !intact => HeldStanding::Damaged,
        Standing::Joining { .. } => HeldStanding::Joining,
        Standing::Whole | Standing::Damaged { .. } => HeldStanding::Whole,
    };
    HeldSlice {
        slice,
        epoch: state.epoch,
        withdrawn: state.withdrawn,
        standing,
        intact,
        committed,
        record: SliceRecord::decode(&record)
            .ok()
            .filter(|record| record.slice == slice),
        admitting: state.admitting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_versions_are_read_for_ever() {
        let first = State {
            epoch: Epoch(7),
            withdrawn: Epoch(6),
            standing: Standing::Joining {
                stable: Sequence(41),
                sync: Epoch(5),
            },
            clean: Some(Sequence(44)),
            admitting: None,
        };
        let bytes = b"\x01\0\x01\x01\x07\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\
            \x29\0\0\0\0\0\0\0\x2c\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        assert_eq!(State::decode(bytes), Some(first));
        let kept = Kept {
            state: State {
                admitting: Some(NodeId(3)),
                ..first
            },
            record: Bytes::from_static(b"{}"),
        };
        let mut second = bytes.to_vec();
        second[0] = 2;
        second.extend_from_slice(b"\x03\0\0\0{}");
        assert_eq!(kept.encode(), &second[..]);
        assert_eq!(Kept::of(&Bytes::from(second)), kept);
        assert_eq!(State::decode(&State::NEW.encode()), Some(State::NEW));
    }

    #[test]
    fn what_is_not_a_state_is_refused() {
        let good = State::NEW.encode();
        for (at, value) in [(0, 3), (2, 3), (3, 2), (46, 1), (47, 1)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(State::decode(&bytes), None);
        }
        assert_eq!(State::decode(&good[1..]), None);
        assert_eq!(State::decode(&good[..FIRST_BYTES]), None);
    }

    #[test]
    fn a_newer_state_is_told_from_a_bad_one() {
        let good = Bytes::from(State::NEW.encode());
        assert_eq!(newer_version(&good), None);
        let mut newer = good.to_vec();
        newer[0] = 3;
        newer.extend_from_slice(b"more");
        assert_eq!(newer_version(&Bytes::from(newer)), Some(3));
        assert_eq!(newer_version(&Bytes::from_static(b"\x03")), None);
        assert_eq!(newer_version(&Bytes::from_static(b"\x00\x00")), None);
    }

    #[test]
    fn what_is_doubted_keeps_its_record() {
        let kept = Kept {
            state: State {
                epoch: Epoch(7),
                ..State::NEW
            },
            record: Bytes::from_static(b"{}"),
        };
        let doubted = Kept::of(&doubted(Some(&kept.encode())));
        assert_eq!(doubted.record, kept.record);
        assert_eq!(doubted.state.epoch, Epoch(7));
        assert!(doubted.state.is_damaged());
    }
}
