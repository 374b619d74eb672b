//! Commands on their way to a slice's primary, and back; and how they are given up.

use holdfast_model::{BlockIndex, BlockRange, CommandId, Fence, SliceId, VolumeId};
use holdfast_stdx::{Bytes, Instant};

use super::Contents;

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
    /// Writes at an offset within the slice what is somewhere else. Since version 8.
    Copy {
        /// Offset in the slice, in bytes.
        offset: u64,
        /// What is to be written there.
        source: CopySource,
    },
}

/// Bytes of a slice, this one or another, that are to be read and written elsewhere: here and there of no more blocks than an entry
/// holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The slice.
    pub slice: SliceId,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
    /// By which access to its volume they may be read.
    pub fence: Fence,
}

impl ForwardKind {
    /// The version of the protocol that a peer must speak to be asked this.
    const fn version(&self) -> u16 {
        match self {
            Self::Write { .. } | Self::Clear(_) | Self::Read(_) => 1,
            Self::CompareAndWrite { .. } | Self::Or { .. } => 7,
            Self::Copy { .. } => 8,
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

impl Forward {
    /// The version of the protocol that a peer must speak to read it.
    #[must_use]
    pub const fn version(&self) -> u16 {
        let kind = self.kind.version();
        if self.fence.0 > 0 && kind < FENCED_SINCE {
            FENCED_SINCE
        } else {
            kind
        }
    }
}

/// The version of the protocol since which forwards have fences.
const FENCED_SINCE: u16 = 7;

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
    /// What was to be copied could not be read: not done. Since version 8, and only said to who has asked for a copy.
    Unread(Unread),
}

/// Why the source of a copy could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Nobody served it in time.
    NotReady,
    /// No good copy is left of a block.
    Lost {
        /// The first such block, of the source's slice.
        block: BlockIndex,
    },
    /// The receiver knows of a newer access to its volume than the sender went by.
    Fenced,
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
    pub contents: Contents,
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
