//! What an engine wants people to read.

use alloc::string::String;
use core::fmt;

use holdfast_model::record::ScrubFindings;
use holdfast_model::{DiskId, Epoch, NodeId, SliceId, VolumeId};
use holdfast_store::{Absence, RottenSegment, Stray};

use crate::{Astray, Rejection};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It went as it should.
    Info,
    /// It went wrong, and is being mended.
    Warning,
    /// A human must look.
    Error,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A peer can be spoken to.
    PeerUp(NodeId),
    /// A peer cannot be spoken to.
    PeerDown(NodeId),
    /// This node stood still for longer than its leases last: it has dropped every session.
    StoodStill {
        /// For how long, in milliseconds.
        milliseconds: u64,
    },
    /// This node leads a slice from this epoch on.
    Leads(SliceId, Epoch),
    /// Another node leads a slice that this one led.
    Deposed(SliceId, Epoch),
    /// A replica was taken out of the in-sync set.
    Removed {
        /// The slice.
        slice: SliceId,
        /// The replica.
        node: NodeId,
        /// It answers, but its disk takes too long.
        slow: bool,
    },
    /// This node hands a slice over.
    HandedOver {
        /// The slice.
        slice: SliceId,
        /// To whom.
        node: NodeId,
        /// The disk here takes too long; else the slice is meant to be led there.
        slow: bool,
    },
    /// A replica is being brought up to date: all of it, or what changed.
    Joining {
        /// The slice.
        slice: SliceId,
        /// The replica.
        node: NodeId,
        /// Whether all that is allocated is copied.
        full: bool,
    },
    /// A replica is in sync again.
    InSync(SliceId, NodeId),
    /// A node is to hold a replica, with nothing in it yet.
    Named(SliceId, NodeId),
    /// A replica is not wanted any more.
    Released(SliceId, NodeId),
    /// So many blocks of a slice were found to be bad when the store was opened.
    Spoiled(SliceId, u64),
    /// A block that failed its checksum was replaced by another replica's.
    Repaired(SliceId, u32),
    /// A block fails its checksum, and no other replica can mend it.
    Lost(SliceId, u32),
    /// A block was sound here, and not what other replicas have: it is what they have now.
    Corrected(SliceId, u32),
    /// All of a slice was read, and its replicas were compared.
    Scrubbed {
        /// The slice.
        slice: SliceId,
        /// What was found.
        findings: ScrubFindings,
    },
    /// Something durable in the journal here was found bad while it is in memory still: it is written again elsewhere.
    JournalRotten(RottenSegment),
    /// The metadata knows of a use of this node's devices that they do not: somebody has brought back an
    /// old copy of them.
    StoreBehind,
    /// This node's replica is not what the record says it is (an emptied, replaced or damaged
    /// store): it joins anew.
    NotThatReplica(SliceId),
    /// The metadata names an epoch older than one that the replica here was part of: it has gone back,
    /// and nothing is done by it.
    MetadataBehind(SliceId, Epoch),
    /// The metadata was lost, and the slice's record, of this epoch, made again without what the replica
    /// here knows: nothing is done by it.
    NotKnownOf(SliceId, Epoch),
    /// The metadata is another cluster's, has gone back, or lacks something: nothing is believed of it, and nothing
    /// changed in it, until that is over.
    MetadataAstray(Astray),
    /// The metadata's document at this key cannot be read, and is passed over: a newer version wrote it.
    Unreadable(String),
    /// The right metadata is back.
    MetadataFollowed,
    /// A volume was deleted: what this node holds of it is dropped.
    VolumeDeleted(VolumeId),
    /// This node is not registered: somebody else has its number, its name, or both; or it was removed.
    Rejected(Rejection),
    /// This node has taken the place of one on record with other devices: its own former self, or another machine.
    Replaced {
        /// Where other nodes reached that.
        peer: String,
    },
    /// The metadata says that another process is this node, with other devices: this one ends.
    Displaced {
        /// Where other nodes reach it.
        peer: String,
    },
    /// It could not be said in the metadata that this node ends because it was told to.
    Unsaid,
    /// A device that was given is none of the store's.
    Stray(DiskId, Stray),
    /// A device has left the store.
    DeviceLeft(u16),
    /// The store is used without a device of this number.
    DeviceAbsent(u16, Absence),
    /// A device failed; every replica of this node is out.
    DeviceFailed(DiskId),
}

impl Notice {
    /// How much it matters.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Scrubbed { findings, .. } => match findings {
                ScrubFindings { unmended: 1.., .. } => Severity::Error,
                ScrubFindings {
                    bad: 0,
                    differing: 0,
                    ..
                } => Severity::Info,
                _ => Severity::Warning,
            },
            Self::PeerUp(_)
            | Self::Leads(..)
            | Self::Joining { .. }
            | Self::InSync(..)
            | Self::Named(..)
            | Self::Released(..)
            | Self::MetadataFollowed
            | Self::VolumeDeleted(_)
            | Self::DeviceLeft(_)
            | Self::HandedOver { slow: false, .. } => Severity::Info,
            Self::PeerDown(_)
            | Self::StoodStill { .. }
            | Self::Deposed(..)
            | Self::Spoiled(..)
            | Self::Removed { .. }
            | Self::HandedOver { .. }
            | Self::Repaired(..)
            | Self::Corrected(..)
            | Self::JournalRotten(_)
            | Self::StoreBehind
            | Self::Replaced { .. }
            | Self::Unsaid
            | Self::Stray(..)
            | Self::NotThatReplica(_) => Severity::Warning,
            Self::Lost(..)
            | Self::MetadataBehind(..)
            | Self::NotKnownOf(..)
            | Self::MetadataAstray(_)
            | Self::Rejected(_)
            | Self::Displaced { .. }
            | Self::Unreadable(_)
            | Self::DeviceAbsent(..)
            | Self::DeviceFailed(..) => Severity::Error,
        }
    }
}

/// Why a replica is left out though its node answers.
const TOO_SLOW: &str = ": its disk takes too long";
/// Why a slice is handed over.
const HERE_TOO_SLOW: &str = "because the disk here takes too long";
const MEANT: &str = "which is to lead it";

/// The store was brought back from the past.
const STORE_BEHIND: &str =
    "the devices are an old copy of themselves: all replicas on them join anew";

/// The metadata is not followed.
const ASTRAY: &str = "the metadata is not believed, and nothing is deleted or changed";

/// A record was made again from what others knew.
const UNKNOWING: &str = "was made again without what this node knows: nothing is done with what is here; \
                         recover the metadata once more, with this node's report";

impl Notice {
    /// What is about the metadata.
    fn fmt_metadata(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MetadataBehind(slice, epoch) => write!(
                formatter,
                "the metadata has gone back: it says epoch {epoch} of slice {slice}, of which this \
                 node has seen a later one"
            ),
            Self::NotKnownOf(slice, epoch) => write!(
                formatter,
                "the record of slice {slice}, epoch {epoch}, {UNKNOWING}"
            ),
            Self::MetadataAstray(why) => {
                let remedies = why.remedies("this node").join("; or ");
                write!(formatter, "{ASTRAY}: {why}; {remedies}")
            }
            Self::Unreadable(key) => write!(
                formatter,
                "the metadata's document {key} cannot be read by this version, and is passed over: was it \
                 written by a newer one? Update this node"
            ),
            Self::MetadataFollowed => formatter.write_str("the metadata is the right one again"),
            Self::VolumeDeleted(volume) => write!(
                formatter,
                "volume {volume} was deleted: what is here of it is dropped"
            ),
            Self::Rejected(rejection) => write!(formatter, "not registered: {rejection}"),
            Self::Replaced { peer } => write!(
                formatter,
                "registered in the place of the node of this number with other devices, which was reached at {peer}"
            ),
            Self::Displaced { peer } => write!(
                formatter,
                "another machine, reached at {peer}, has taken this node's place, with other devices: this one ends"
            ),
            Self::Unsaid => formatter.write_str(
                "the metadata was not told that this node stops: others take it for lost",
            ),
            _ => unreachable!("the others are told of elsewhere"),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerUp(peer) => write!(formatter, "connected to {peer}"),
            Self::PeerDown(peer) => write!(formatter, "lost the connection to {peer}"),
            Self::StoodStill { milliseconds } => write!(
                formatter,
                "this node stood still for {milliseconds} ms and has dropped every session"
            ),
            Self::Leads(slice, epoch) => write!(formatter, "leads slice {slice} in epoch {epoch}"),
            Self::Deposed(slice, epoch) => {
                write!(
                    formatter,
                    "no longer leads slice {slice}, which is in epoch {epoch}"
                )
            }
            Self::Removed { slice, node, slow } => {
                let why = if *slow { TOO_SLOW } else { "" };
                write!(
                    formatter,
                    "took {node} out of the in-sync replicas of slice {slice}{why}"
                )
            }
            Self::HandedOver { slice, node, slow } => {
                let why = if *slow { HERE_TOO_SLOW } else { MEANT };
                write!(formatter, "hands slice {slice} over to {node}, {why}")
            }
            Self::Joining { slice, node, full } => {
                let what = if *full { "all of" } else { "what changed in" };
                write!(formatter, "copies {what} slice {slice} to {node}")
            }
            Self::InSync(slice, node) => write!(formatter, "{node} is in sync on slice {slice}"),
            Self::Named(slice, node) => write!(formatter, "{node} is to hold slice {slice}"),
            Self::Released(slice, node) => write!(formatter, "{node} has let slice {slice} go"),
            Self::Spoiled(slice, blocks) => {
                write!(formatter, "slice {slice}: {blocks} blocks here are bad")
            }
            Self::Repaired(slice, block) => write!(
                formatter,
                "repaired block {block} of slice {slice} from another replica"
            ),
            Self::Corrected(slice, block) => write!(
                formatter,
                "block {block} of slice {slice} was not what the other replicas have: corrected"
            ),
            Self::Scrubbed { slice, findings } => {
                write!(formatter, "scrubbed slice {slice}: {findings}")
            }
            Self::Lost(slice, block) => write!(
                formatter,
                "block {block} of slice {slice} fails its checksum, and no other replica can mend it"
            ),
            other => other.fmt_of_node(formatter),
        }
    }
}

impl Notice {
    /// What is said of the node and its devices, and of the metadata.
    fn fmt_of_node(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoreBehind => formatter.write_str(STORE_BEHIND),
            Self::NotThatReplica(slice) => write!(
                formatter,
                "the replica of slice {slice} here is not the one on record and joins anew"
            ),
            Self::MetadataBehind(..)
            | Self::NotKnownOf(..)
            | Self::MetadataAstray(_)
            | Self::Unreadable(_)
            | Self::MetadataFollowed
            | Self::VolumeDeleted(_)
            | Self::Rejected(_)
            | Self::Replaced { .. }
            | Self::Displaced { .. }
            | Self::Unsaid => self.fmt_metadata(formatter),
            Self::JournalRotten(rotten) => write!(
                formatter,
                "the journal on device {} is bad at byte {}, in segment {}, from group {} of partition {} on: what is \
                 there is written again elsewhere",
                rotten.disk.0, rotten.offset, rotten.index, rotten.group.0, rotten.partition
            ),
            Self::DeviceFailed(disk) => write!(
                formatter,
                "device {} failed: every replica of this node is out",
                disk.0
            ),
            Self::Stray(disk, stray) => {
                write!(formatter, "device {} is not used: {stray}", disk.0)
            }
            Self::DeviceAbsent(ordinal, Absence { is_lost, .. }) => {
                let how = if *is_lost { "has failed" } else { "is missing" };
                write!(
                    formatter,
                    "device {ordinal} {how}: what was on it is brought by other nodes where they have it"
                )
            }
            Self::DeviceLeft(ordinal) => {
                write!(formatter, "device {ordinal} has left this node's store")
            }
            _ => unreachable!("what is about slices and peers is said before"),
        }
    }
}
