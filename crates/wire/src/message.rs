//! What nodes say to each other. The order in which it may be said is `docs/replication.md`.

mod access;
mod body;
mod compare;
mod content;
mod forward;
mod held;
mod space;
mod supply;
mod vouch;

use alloc::vec::Vec;

use holdfast_model::{BlockRange, Entry, Epoch, Fence, Sequence, SliceId, StoreId};
use holdfast_stdx::{Bytes, Instant};

pub use access::{Enforce, Enforced};
use body::{Body, Payload};
pub use compare::{BlockDigest, Correct, Digest, Digests, Holdings, Verified, Verify};
pub use content::{BlockContent, Content, Contents};
pub use forward::{
    CopySource, EndTasks, Forward, ForwardKind, Forwarded, OutcomeCode, Settle, TasksEnded, Unread,
};
pub use held::PrepareHeld;
pub use space::{SPACE_VOLUMES_MAX, Space};
pub use supply::{Supplied, Supply, SupplyOutcome};
pub use vouch::{Camp, Stance, Vouch, Vouched};

use crate::WireError;
use crate::codec::{Reader, Writer};
use crate::hello::Lane;

/// A slice that the sender leads, with the receiver in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which the sender leads it.
    pub epoch: Epoch,
    /// How long the receiver may serve reads of it, in microseconds, counted from the heartbeat of
    /// its own that this one echoes. Zero: not at all.
    pub read_lease_us: u32,
}

/// A slice that the receiver leads, for which the sender grants it the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The slice.
    pub slice: SliceId,
    /// The epoch for which the lease is granted.
    pub epoch: Epoch,
}

/// Sent by every node to every other all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// When it was sent, by the sender's clock.
    pub sent: Instant,
    /// `sent` of the receiver's newest heartbeat that had arrived; zero before the first.
    pub echo: Instant,
    /// How long the sender's oldest append has been waiting for its disk, in milliseconds.
    pub append_age_ms: u32,
    /// What the sender leads.
    pub claims: Vec<Claim>,
    /// What the sender grants.
    pub grants: Vec<Grant>,
}

/// What a replica is to be in the epoch that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In sync.
    InSync,
    /// Joining, and keeping what it has: what changed since its stable point will be copied.
    JoiningFast,
    /// Joining with nothing: it drops what it has, all that is allocated will be copied.
    JoiningFull,
    /// Joining, and keeping what it has, of which nobody knows exactly what has changed: it says which
    /// pages it has, and is asked for the digests of blocks. Since version 2.
    JoiningCompared,
}

/// Begins an epoch at a replica, or begins again on a new link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// What the receiver is in it.
    pub role: Role,
    /// The primary's committed point.
    pub committed: Sequence,
    /// What the primary holds above it: runs of entries numbered in the same epoch, each with its
    /// last sequence, in order. The receiver keeps what it holds as far as that agrees, and
    /// gives up the rest; its answer says up to where it agreed.
    pub tail: Vec<(Epoch, Sequence)>,
    /// The lowest stable point among the in-sync replicas.
    pub stable: Sequence,
    /// For a joining replica: the epoch in which it began to be brought up to date, from nothing or
    /// from what it had. It says so when it offers itself again; zero for others.
    pub sync: Epoch,
    /// The slice's record, as the metadata has it.
    pub record: Bytes,
    /// The fence by which the primary goes.
    pub fence: Fence,
}

/// An entry to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which it is sent; the entry keeps the one in which it was numbered.
    pub epoch: Epoch,
    /// The entry.
    pub entry: Entry,
    /// The primary's committed point.
    pub committed: Sequence,
    /// The lowest stable point among the in-sync replicas.
    pub stable: Sequence,
}

/// What a replica has durably appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// Everything up to here is durable at the sender.
    pub through: Sequence,
    /// The sender's stable point.
    pub stable: Sequence,
}

/// The committed point moved while no prepare was there to carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The primary's committed point.
    pub committed: Sequence,
    /// The lowest stable point among the in-sync replicas.
    pub stable: Sequence,
}

/// Why a replica does not take what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It knows a later epoch, or has withdrawn from this one.
    StaleEpoch,
    /// It is not what the record says: another store, or a damaged one.
    NotThatReplica,
    /// Its store has failed.
    Failed,
}

/// A replica does not take what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The slice.
    pub slice: SliceId,
    /// The epoch that is refused.
    pub epoch: Epoch,
    /// Why.
    pub refusal: Refusal,
}

/// A candidate asks how far the others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The slice.
    pub slice: SliceId,
    /// The epoch that the candidate has withdrawn from.
    pub epoch: Epoch,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryReply {
    /// The slice.
    pub slice: SliceId,
    /// The epoch of the query.
    pub epoch: Epoch,
    /// Whether the sender is an intact in-sync replica of that epoch.
    pub in_sync: bool,
    /// Under what the sender's last entry was numbered.
    pub prepared: (Epoch, Sequence),
    /// Up to where the sender knows its entries to be committed.
    pub committed: Sequence,
}

/// The sender gives up the lease that it held for this epoch, or its claim to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resign {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
}

/// The sender leads the slice no more, and the receiver does from this epoch on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The slice.
    pub slice: SliceId,
    /// The receiver's epoch.
    pub epoch: Epoch,
    /// The slice's record, as the metadata has it.
    pub record: Bytes,
    /// The sender's disk takes too long.
    pub slow: bool,
}

/// A replica that is not in sync offers itself to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// The slice.
    pub slice: SliceId,
    /// The contents of the sender's devices.
    pub store: StoreId,
    /// The sender's stable point.
    pub stable: Sequence,
    /// Whether the sender's copy is that of one point in time, undamaged: else all is copied.
    pub usable: bool,
    /// The epoch in which an interrupted sync of it began, if nothing durable of that is lost; else
    /// zero.
    pub sync: Epoch,
}

/// Blocks for a joining replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// Names the copy in its answer.
    pub number: u64,
    /// The committed point as of which the blocks were read.
    pub as_of: Sequence,
    /// The blocks.
    pub contents: Contents,
}

/// A copy is durable at the joining replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The copy.
    pub number: u64,
}

/// The primary asks for room before it numbers a write to pages that may be new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// Names the question in its answer.
    pub number: u64,
    /// The blocks that will be written.
    pub range: BlockRange,
}

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The question.
    pub number: u64,
    /// Whether every page of the range has its place now.
    pub granted: bool,
}

/// A replica whose block is bad asks another for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The slice.
    pub slice: SliceId,
    /// The epoch in which both are in sync.
    pub epoch: Epoch,
    /// Names the question in its answer.
    pub number: u64,
    /// The blocks.
    pub range: BlockRange,
}

/// The blocks that were asked for; none if the receiver cannot tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
    /// The question.
    pub number: u64,
    /// The committed point as of which they were read.
    pub as_of: Sequence,
    /// The blocks.
    pub contents: Contents,
}

/// The messages and their opcodes. An opcode, once given, is never given to another message.
macro_rules! messages {
    ($($(#[$meta:meta])* $opcode:literal $name:ident),* $(,)?) => {
        /// Everything that nodes say once they have greeted each other.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Message {
            $($(#[$meta])* $name($name),)*
        }

        $(impl From<$name> for Message {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        })*

        impl Message {
            pub(crate) const fn opcode(&self) -> u16 {
                match self {
                    $(Self::$name(_) => $opcode,)*
                }
            }

            pub(crate) fn write(&self, body: &mut Writer, payload: &mut Vec<Bytes>) {
                match self {
                    $(Self::$name(message) => message.write(body, payload),)*
                }
            }

            pub(crate) fn read(
                opcode: u16,
                body: &mut Reader<'_>,
                payload: Bytes,
            ) -> Result<Self, WireError> {
                let mut payload = Payload(payload);
                let message = match opcode {
                    $($opcode => Self::$name($name::read(body, &mut payload)?),)*
                    _ => return Err(WireError::Malformed),
                };
                if payload.0.is_empty() { Ok(message) } else { Err(WireError::Malformed) }
            }
        }
    };
}

messages! {
    /// Leases.
    1 Heartbeat,
    /// An epoch begins.
    2 Begin,
    /// An entry.
    3 Prepare,
    /// Entries are durable.
    4 Prepared,
    /// The committed point.
    5 Commit,
    /// No.
    6 Refused,
    /// How far are you?
    7 Query,
    /// So far.
    8 QueryReply,
    /// A lease is given up.
    9 Resign,
    /// Take me in.
    10 JoinRequest,
    /// Blocks to catch up with.
    11 Copy,
    /// They are durable.
    12 Copied,
    /// Is there room?
    13 Reserve,
    /// There is, or not.
    14 Reserved,
    /// A command for the primary.
    15 Forward,
    /// Its end.
    16 Forwarded,
    /// Blocks for repair, please.
    17 Fetch,
    /// Here they are.
    18 Fetched,
    /// What became of a command?
    19 Settle,
    /// End the commands of a unit.
    20 EndTasks,
    /// They are over.
    21 TasksEnded,
    /// Lead.
    22 HandOver,
    /// What a joining replica has.
    23 Holdings,
    /// What is in these blocks?
    24 Digest,
    /// This.
    25 Digests,
    /// Is this page as it is here?
    26 Verify,
    /// It is so.
    27 Verified,
    /// These blocks are to be so.
    28 Correct,
    /// Copy these blocks to whoever joins.
    29 Supply,
    /// They are on their way, or not.
    30 Supplied,
    /// Is this in your metadata?
    31 Vouch,
    /// It is, or not.
    32 Vouched,
    /// So many follow it with the sender, who goes on or does not.
    33 Camp,
    /// Go by this access to a volume.
    34 Enforce,
    /// The sender does.
    35 Enforced,
    /// The sender has so much room.
    36 Space,
    /// An entry whose data the receiver has.
    37 PrepareHeld,
}

impl Message {
    /// The lane that the message travels on.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        match self {
            Self::Heartbeat(_) | Self::Query(_) | Self::QueryReply(_) | Self::Resign(_) => {
                Lane::Control
            }
            _ => Lane::Data,
        }
    }

    /// The version of the protocol that a peer must speak to read it.
    #[must_use]
    pub const fn version(&self) -> u16 {
        match self {
            Self::Begin(begin) if begin.fence.0 > 0 => 7,
            Self::Begin(Begin {
                role: Role::JoiningCompared,
                ..
            })
            | Self::Holdings(_)
            | Self::Digest(_)
            | Self::Digests(_) => 2,
            Self::Verify(_) | Self::Verified(_) | Self::Correct(_) => 3,
            Self::Supply(_) | Self::Supplied(_) => 4,
            Self::Vouch(_) | Self::Vouched(_) => 5,
            Self::Camp(_) => 6,
            Self::Enforce(_) | Self::Enforced(_) | Self::Space(_) => 7,
            Self::PrepareHeld(_) => 9,
            Self::Forward(forward) => forward.version(),
            Self::Forwarded(Forwarded {
                outcome: OutcomeCode::Miscompare { .. } | OutcomeCode::Fenced,
                ..
            }) => 7,
            Self::Forwarded(Forwarded {
                outcome: OutcomeCode::Unread(_),
                ..
            }) => 8,
            _ => 1,
        }
    }

    /// Whether every byte of the payload is covered by a block's checksum in the body.
    pub(crate) const fn payload_has_checksums(&self) -> bool {
        !matches!(self, Self::Forward(_))
    }
}
