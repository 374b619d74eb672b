//! What cannot be known when metadata is made again, in words.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use holdfast_model::{NodeId, SliceId, VolumeId};

/// What cannot be known, or may not be what it seems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// A node of the cluster told nothing.
    NodeMissing(String),
    /// The devices of a node are older than what others know of them.
    OldDevices(NodeId),
    /// Some of a node's notes cannot be read.
    NotesUnreadable(NodeId, u64),
    /// A part of a node's journal is missing: it may have known more.
    HasHole(NodeId),
    /// Nobody knows the settings: they have their defaults again.
    NoSettings,
    /// A node that knows of later times does not know of the volume.
    MayBeDeleted {
        /// The volume's name.
        name: String,
        /// Who does not know of it.
        by: NodeId,
    },
    /// There are slices of a volume of which nothing else is known.
    NoVolume(VolumeId),
    /// There are slices behind a volume's end: it was about to be grown.
    BeyondEnd(SliceId),
    /// Nodes that told nothing may know more of a slice.
    Waits {
        /// The slice.
        slice: SliceId,
        /// Those nodes.
        nodes: Vec<NodeId>,
    },
    /// What lost nodes may have written alone is given up.
    GivenUp {
        /// The slice.
        slice: SliceId,
        /// Those nodes.
        nodes: Vec<NodeId>,
    },
    /// Only lost nodes had everything of a slice.
    OnlyLost {
        /// The slice.
        slice: SliceId,
        /// Those nodes.
        nodes: Vec<NodeId>,
    },
    /// All replicas that had everything of a slice are damaged.
    AllDamaged(SliceId),
    /// Nothing is known of a slice, and somebody was not heard.
    Unknown(SliceId),
    /// Nobody has anything of a slice: it was never led, or all that had it is lost.
    Emptied(SliceId),
    /// A slice's newest record is not known.
    NoRecord(SliceId),
    /// No node is there for a new slice.
    NoPlace(SliceId),
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeMissing(name) => write!(formatter, "there is no report of node {name}"),
            Self::OldDevices(node) => write!(
                formatter,
                "the devices of node {node} are older than what others know of them: what they say \
                 counts as not heard"
            ),
            Self::NotesUnreadable(node, count) => write!(
                formatter,
                "{count} of the notes of node {node} cannot be read by this version"
            ),
            Self::HasHole(node) => write!(
                formatter,
                "a part of the journal of node {node} is missing: it may have known more"
            ),
            Self::NoSettings => {
                formatter.write_str("nobody knows the cluster's settings: they have their defaults")
            }
            Self::MayBeDeleted { name, by } => write!(
                formatter,
                "volume {name} may have been deleted: node {by} knows of later times, and not of it"
            ),
            _ => self.fmt_slices(formatter),
        }
    }
}

impl Doubt {
    /// Those that are about slices.
    fn fmt_slices(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVolume(volume) => write!(
                formatter,
                "there are slices of volume {volume}, whose name and size nobody knows: it was being \
                 made, or was deleted; it is left out"
            ),
            Self::BeyondEnd(slice) => write!(
                formatter,
                "slice {slice} is beyond the end of its volume, which was being grown: it is left out"
            ),
            Self::Waits { slice, nodes } => write!(
                formatter,
                "slice {slice} waits for {}, which may know more of it",
                Nodes(nodes)
            ),
            Self::GivenUp { slice, nodes } => write!(
                formatter,
                "slice {slice}: what was written when only {} had it is given up, if there was anything",
                Nodes(nodes)
            ),
            Self::OnlyLost { slice, nodes } => write!(
                formatter,
                "slice {slice}: only {} had everything that was written; it waits",
                Nodes(nodes)
            ),
            Self::AllDamaged(slice) => write!(
                formatter,
                "slice {slice}: every replica that had everything is damaged, and it will not be served"
            ),
            Self::Unknown(slice) => write!(
                formatter,
                "slice {slice}: nothing is known of it as long as not all nodes are heard, and its \
                 volume will lack it"
            ),
            Self::Emptied(slice) => write!(
                formatter,
                "slice {slice}: nobody has anything of it, and it is made new, and empty; unless its volume \
                 had only just been made or grown, all of it is lost"
            ),
            Self::NoRecord(slice) => write!(
                formatter,
                "slice {slice}: nobody kept its newest record (an earlier version of this program \
                 keeps none), and its volume will lack it"
            ),
            Self::NoPlace(slice) => write!(
                formatter,
                "slice {slice} has never been written to, and there is no node for it"
            ),
            _ => unreachable!("the others are told of elsewhere"),
        }
    }
}

/// Nodes by their numbers.
struct Nodes<'a>(&'a [NodeId]);

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, node) in self.0.iter().enumerate() {
            let before = match place {
                0 => "",
                _ if place + 1 == self.0.len() => " and ",
                _ => ", ",
            };
            write!(formatter, "{before}{node}")?;
        }
        Ok(())
    }
}
