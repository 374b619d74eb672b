//! Commands on their way to a slice's primary, and back; and how they are given up.

use alloc::vec::Vec;

use holdfast_model::{BlockRange, CommandId, Fence, SliceId, VolumeId};
use holdfast_stdx::{Bytes, Instant};

use super::Content;

/// What a portal asks of a slice's primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// Writes bytes at an offset within the slice; whole sectors, not necessarily whole blocks.
    Write {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Makes whole blocks zeros.
    Clear(BlockRange),
    /// Reads whole blocks.
    Read(BlockRange),
    /// Writes bytes at an offset within the slice if they are what is expected. Since version 7.
    CompareAndWrite {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// What is to be there: at most a block's worth.
        expected: Bytes,
        /// As many bytes.
        data: Bytes,
    },
    /// Sets the bits that are set in bytes at an offset within the slice. Since version 7.
    Or {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
}

impl ForwardKind {
    /// The version of the protocol that a peer must speak to be asked this.
    #[must_use]
    pub const fn version(&self) -> u16 {
        match self {
            Self::Write { .. } | Self::Clear(_) | Self::Read(_) => 1,
            Self::CompareAndWrite { .. } | Self::Or { .. } => 7,
        }
    }
}

/// A command, or a part of one, on its way to the slice's primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The slice.
    pub slice: SliceId,
    /// Which command: a repeated write bears the same.
    pub command: CommandId,
    /// `sent` of the newest heartbeat that the sender has from the receiver: the forward's age is
    /// counted from it, by the receiver's clock.
    pub heartbeat: Instant,
    /// Somebody may have been asked before, who has not said how it ended.
    pub repeated: bool,
    /// By which access to the volume it is permitted: by a newer one it may not be.
    pub fence: Fence,
    /// What to do.
    pub kind: ForwardKind,
}

/// How a forward ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeCode {
    /// Done; a write is committed.
    Done,
    /// The receiver does not lead the slice: this sending of the command came to nothing.
    NotPrimary,
    /// It came too late: not done, and never will be.
    Expired,
    /// Too few copies are in sync: not done.
    NotReady,
    /// No room on some in-sync replica: not done.
    NoSpace,
    /// Too much is waiting: not done.
    Busy,
    /// A block of which a part was to be written cannot be read anywhere: not done.
    MediumError,
    /// It was numbered, and the receiver leads no more: whether it is committed is for the next
    /// primary to say, under the same id.
    Deposed,
    /// The receiver knows of a newer access to the volume than the sender went by: not done. Since version 7.
    Fenced,
    /// What was expected is not there: not done. What was compared with is committed. Since version 7,
    /// and only said to who has asked for a comparison.
    Miscompare {
        /// Bytes before the first that differs, counted from the command's offset.
        position: u32,
    },
}

/// A forward's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The slice.
    pub slice: SliceId,
    /// The forward's id.
    pub command: CommandId,
    /// How it ended.
    pub outcome: OutcomeCode,
    /// What was read.
    pub contents: Vec<Content>,
}

/// Asks a slice's primary what became of a command that is given up, or of all that anybody sent
/// it before. Answered by [`Forwarded`]: done; or, when everything numbered until then is
/// committed, [`OutcomeCode::Expired`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The slice.
    pub slice: SliceId,
    /// The command: if it has no number yet, it gets none.
    pub command: CommandId,
}

/// Asks a portal to end all commands that it has for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTasks {
    /// Names the question in its answer.
    pub number: u64,
    /// The volume.
    pub volume: VolumeId,
    /// Whether the unit is reset; else its task set is cleared.
    pub reset: bool,
}

/// The commands that a portal was asked to end are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TasksEnded {
    /// The question.
    pub number: u64,
    /// Whether each is known to be committed or refused for good.
    pub settled: bool,
}
