//! What a replica keeps beside its log, through restarts.
//!
//! Layout, version 1, little-endian: version (u16), standing (u8), clean (u8), epoch (u64),
//! withdrawn (u64), standing's stable point (u64), last sequence of a clean stop (u64), epoch in which
//! the sync began (u64).
//!
//! Invariants:
//! - `epoch` is the newest that began here; nothing of an older one is taken any more;
//! - from an epoch up to `withdrawn` no lease is granted and nothing is taken, restart or not.

use alloc::vec::Vec;

use holdfast_model::{Epoch, Sequence};
use holdfast_stdx::Bytes;

const VERSION: u16 = 1;
const STATE_BYTES: usize = 4 + 5 * 8;

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
}

impl State {
    /// The state of a replica that nothing has happened to.
    pub(crate) const NEW: State = State {
        epoch: Epoch(1),
        withdrawn: Epoch(0),
        standing: Standing::Whole,
        clean: None,
    };

    /// That of a replica of which nothing can be relied on.
    const DAMAGED: State = State {
        standing: Standing::Damaged {
            stable: Sequence::ZERO,
        },
        ..State::NEW
    };

    /// Reads what was kept. What cannot be read is nothing to rely on.
    pub(crate) fn of_kept(kept: &[u8]) -> Self {
        Self::decode(kept).unwrap_or(Self::DAMAGED)
    }

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

    pub(crate) fn encode(&self) -> Bytes {
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
        Bytes::from(bytes)
    }

    /// `None` if it is not that of this version.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STATE_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            u64::from_le_bytes(
                bytes[at..at + 8]
                    .try_into()
                    .expect("eight bytes are a word"),
            )
        };
        if u16::from_le_bytes([bytes[0], bytes[1]]) != VERSION {
            return None;
        }
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
        })
    }
}

/// What a replica is to keep instead of what it kept, when what its store holds is as of nobody knows when:
/// it joins anew.
#[must_use]
pub fn doubted(kept: Option<&Bytes>) -> Bytes {
    let kept = kept.map(|bytes| State::of_kept(bytes));
    State::after_loss(kept).encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_is_read_for_ever() {
        let state = State {
            epoch: Epoch(7),
            withdrawn: Epoch(6),
            standing: Standing::Joining {
                stable: Sequence(41),
                sync: Epoch(5),
            },
            clean: Some(Sequence(44)),
        };
        let bytes = b"\x01\0\x01\x01\x07\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\
            \x29\0\0\0\0\0\0\0\x2c\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        assert_eq!(state.encode(), &bytes[..]);
        assert_eq!(State::decode(bytes), Some(state));
        assert_eq!(State::decode(&State::NEW.encode()), Some(State::NEW));
    }

    #[test]
    fn what_is_not_a_state_is_refused() {
        let good = State::NEW.encode();
        for (at, value) in [(0, 2), (2, 3), (3, 2)] {
            let mut bytes = good.to_vec();
            bytes[at] = value;
            assert_eq!(State::decode(&bytes), None);
        }
        assert_eq!(State::decode(&good[1..]), None);
    }
}
