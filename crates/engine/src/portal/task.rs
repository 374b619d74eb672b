//! A command under way, from its CDB until its last part has ended.

use holdfast_iscsi::target::SessionId;
use holdfast_model::VolumeId;
use holdfast_scsi::reservation::Need;
use holdfast_scsi::{Continuation, Copy, MediumData, MediumError};
use holdfast_stdx::Instant;

use crate::operation::Operation;
use crate::stall::Left;
use crate::usage::Counted;

/// A command under way.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) session: SessionId,
    pub(super) volume: VolumeId,
    /// The unit's number.
    pub(super) unit: u16,
    /// The volume's size when the command arrived.
    pub(super) volume_bytes: u64,
    /// Since when it lives: not later than it arrived.
    pub(super) arrived: Instant,
    /// Since when this node has it in hand: what it takes is counted from there.
    pub(super) received: Instant,
    /// What it has to be permitted.
    pub(super) need: Need,
    pub(super) work: Work,
    /// What it is counted as, if it reaches the medium.
    pub(super) counted: Option<Counted>,
    pub(super) aborted: bool,
    /// The access to the volume does not permit it any more.
    pub(super) forbidden: bool,
    /// Every part that has ended is known to be committed or refused for good.
    pub(super) settled: bool,
}

/// What is done for a command.
#[derive(Debug)]
pub(super) enum Work {
    /// Something on the medium, and what then.
    Medium {
        continuation: Continuation,
        operation: Operation,
    },
    /// Something on the medium of this volume or another, and what then. What it writes lives from `since` on.
    Copy {
        copy: Copy,
        operation: Operation,
        since: Instant,
    },
    /// Something about the access to the volume.
    Access,
}

impl Task {
    /// What it has to be permitted of a volume.
    pub(super) fn need_of(&self, volume: VolumeId) -> Need {
        match &self.work {
            Work::Copy { copy, .. } if copy.need_of(volume) != Need::Nothing => {
                copy.need_of(volume)
            }
            Work::Copy { .. } | Work::Medium { .. } if self.volume == volume => self.need,
            // What is about access is decided on the access itself.
            Work::Copy { .. } | Work::Medium { .. } | Work::Access => Need::Nothing,
        }
    }
}

/// What an operation's end is to whoever waited for it.
pub(super) fn left(result: &Result<MediumData, MediumError>) -> Left {
    match result {
        Ok(_) | Err(MediumError::Miscompare { .. }) => Left::Served,
        Err(MediumError::NotReady | MediumError::Busy | MediumError::Aborted) => Left::Refused,
        Err(
            MediumError::Lost { .. }
            | MediumError::Write
            | MediumError::NoSpace
            | MediumError::Internal,
        ) => Left::Failed,
    }
}
