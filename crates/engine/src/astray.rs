//! Why the metadata is not followed, in words, and what an operator may do about it.
//!
//! It refuses to judge: see `past`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use holdfast_model::metadata::Revision;
use holdfast_model::record::RecordError;
use holdfast_model::{ClusterId, Epoch, NodeId, SliceId, VolumeId};

/// What documents that somebody has deleted were of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A volume that is not on record as deleted.
    Volume(VolumeId),
    /// A node that is not on record as removed.
    Node(NodeId),
    /// The bookmark that this node has left.
    Bookmark {
        /// It has another one of this node, or none.
        is_other: bool,
    },
    /// An epoch of a slice in which this node has taken part: the slice's record is of one before.
    Epoch {
        /// The slice.
        slice: SliceId,
        /// That of the record.
        epoch: Epoch,
        /// That in which this node has taken part.
        begun: Epoch,
    },
    /// The bookmark, and what an operator says would have this node give up the only copy of a slice that is in sync.
    Sole(SliceId),
}

/// Why the metadata is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Astray {
    /// Its revision is lower than one that was seen before.
    Behind {
        /// What it says.
        revision: Revision,
        /// What was seen.
        seen: Revision,
    },
    /// It has no record of the cluster, and there are slices here.
    NoCluster,
    /// It has one that cannot be read.
    Unreadable(RecordError),
    /// It is another cluster's.
    OtherCluster(ClusterId),
    /// This node holds slices of a volume that it has yet to make.
    Unborn(VolumeId),
    /// It lacks documents that nobody has deleted.
    Lacking(Lost),
    /// Others do not find the bookmark of this node in theirs, as this one says: it is a copy that has gone on by itself.
    Disowned(NodeId),
    /// It is not what others have followed, as this one says in it: it may be a backup from before.
    Denied(NodeId),
    /// It was lost and made again more often, or less often, than what this node follows.
    MadeAgain {
        /// How often, as it says.
        recoveries: u64,
        /// What was seen.
        seen: u64,
    },
}

impl Astray {
    /// What an operator may do: one of these. `node` is what the node is called that says it.
    #[must_use]
    pub fn remedies(&self, node: &str) -> Vec<String> {
        match self {
            Self::MadeAgain { recoveries, seen } if recoveries > seen => {
                vec![format!("start {node} again")]
            }
            Self::Unreadable(RecordError::Schema(_)) => vec![format!("update {node}")],
            Self::Unreadable(RecordError::Malformed) => {
                let update = format!("update {node}, if other nodes are of a later version");
                let mut remedies = vec![update];
                remedies.extend(undo_by_hand("changed"));
                remedies
            }
            Self::Lacking(Lost::Sole(_)) => vec![
                see_addresses(node),
                format!("bring back the metadata that {node} has followed: {node} goes on by itself then"),
                format!("if that is lost for good, {AGAIN} ({CHAPTER})"),
            ],
            Self::Lacking(Lost::Bookmark { is_other: false }) => {
                let mut remedies = Self::Lacking(Lost::Bookmark { is_other: true }).remedies(node);
                remedies.push(format!("if keys were deleted by hand, {AGAIN}, with `--replace` ({CHAPTER})"));
                remedies
            }
            Self::Lacking(Lost::Bookmark { is_other: true }) => vec![
                see_addresses(node),
                format!("bring back the metadata that {node} has followed, if that is the right one: {node} goes on by itself then"),
                format!(
                    "if this is the right one, and other nodes have whole copies of what {node} holds: make an empty file \
                     `take-over` in the `directory` of {node}, and start it again. What it holds then counts for nothing, until it \
                     has been compared with theirs, and brought up to date"
                ),
                format!("if all nodes say so, {AGAIN}, with `--replace` ({CHAPTER})"),
            ],
            Self::MadeAgain { .. }
            | Self::Lacking(Lost::Epoch { .. })
            | Self::Behind { .. }
            | Self::Unborn(_)
            | Self::NoCluster
            | Self::OtherCluster(_) => vec![
                see_addresses(node),
                "bring back the newest state of the metadata, if an older one, or an empty one, is in its place: nodes go on \
                 by themselves then"
                    .into(),
                format!("if it is lost for good, {AGAIN} ({CHAPTER})"),
            ],
            Self::Lacking(_) => undo_by_hand("deleted").into(),
            Self::Disowned(by) => vec![
                see_addresses(node),
                format!("see that {by} has not come to a copy of the metadata itself; {node} goes on by itself then"),
            ],
            Self::Denied(by) => vec![
                "bring back the newest state of the metadata, if an older one is in its place: whoever has followed nothing else \
                 goes on by itself then, and others say what they need"
                    .into(),
                format!(
                    "if this is the newest one, do what {by} advises about its own: {node} goes on by itself then. If {by} is gone for good: \
                     make an empty file `take-over` in the `directory` of {node}, and start it again"
                ),
                format!("if the newest one is lost for good, {AGAIN}, with `--replace` ({CHAPTER})"),
            ],
        }
    }
}

fn see_addresses(node: &str) -> String {
    format!("see that the addresses of the metadata in the configuration of {node} are right")
}

/// What is done where the metadata is lost.
const AGAIN: &str = "make it again from the nodes' devices: `holdfast recover`";
/// Where that is described.
const CHAPTER: &str = "\"When the metadata is lost for good\" in docs/deployment.md";

/// What is done where somebody has `done` something to keys of the metadata, which works.
fn undo_by_hand(done: &str) -> [String; 2] {
    [
        format!(
            "keys were {done} by hand: bring back a backup of the metadata, if nothing has changed since it was made"
        ),
        format!("else {AGAIN}, with `--replace` ({CHAPTER})"),
    ]
}

impl fmt::Display for Astray {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { revision, seen } => write!(
                formatter,
                "it is at revision {}, and was at {} before",
                revision.0, seen.0
            ),
            Self::NoCluster => formatter.write_str("it has no record of the cluster"),
            Self::Unreadable(RecordError::Schema(schema)) => write!(
                formatter,
                "its record of the cluster is of schema {schema}, which this version does not know"
            ),
            Self::Unreadable(RecordError::Malformed) => {
                formatter.write_str("its record of the cluster cannot be read")
            }
            Self::OtherCluster(cluster) => write!(formatter, "it is of cluster {cluster}"),
            Self::Unborn(volume) => write!(
                formatter,
                "it has not made volume {volume} yet, of which this node holds slices"
            ),
            Self::Lacking(Lost::Volume(volume)) => write!(
                formatter,
                "it has lost documents of volume {volume}, which nobody has deleted"
            ),
            Self::Lacking(Lost::Node(node)) => write!(
                formatter,
                "it has lost the record of {node}, which nobody has removed"
            ),
            Self::Lacking(Lost::Bookmark { is_other: true }) => formatter.write_str(
                "it is not the one that this node has followed: it has another bookmark of this node than that",
            ),
            Self::Lacking(Lost::Bookmark { is_other: false }) => formatter.write_str(
                "it is not the one that this node has followed, or keys were deleted: it lacks the bookmark that this node left in that",
            ),
            Self::Lacking(Lost::Epoch {
                slice,
                epoch,
                begun,
            }) => write!(
                formatter,
                "it is older than what this node has seen: it has slice {slice} in epoch {epoch}, and this node has taken part in {begun}"
            ),
            Self::Lacking(Lost::Sole(slice)) => write!(
                formatter,
                "it is not the one that this node has followed, and `take-over` would give up the only copy in sync of slice {slice}"
            ),
            Self::Disowned(by) => write!(
                formatter,
                "{by} follows another copy of it, in which there is nothing of what this node has left in this one"
            ),
            Self::Denied(by) => write!(
                formatter,
                "it is not what {by} has followed, as {by} says in it: an older one may be in the place of the newest"
            ),
            Self::MadeAgain { recoveries, seen } if recoveries > seen => {
                formatter.write_str("it was made again while this node ran")
            }
            Self::MadeAgain { .. } => {
                formatter.write_str("it is of the time before it was made again")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that is lost need be brought back where a start, or an update, is all that it takes; and where keys are gone,
    /// the addresses are right.
    #[test]
    fn what_helps_depends_on_why_it_is_not_believed() {
        let made_again = |recoveries| Astray::MadeAgain {
            recoveries,
            seen: 2,
        };
        let update = Astray::Unreadable(RecordError::Schema(2));
        assert_eq!(made_again(3).remedies("n1"), ["start n1 again"]);
        assert_eq!(update.remedies("n1"), ["update n1"]);
        let (revision, seen) = (Revision(8), Revision(9));
        for lost in [
            made_again(1),
            Astray::Behind { revision, seen },
            Astray::Unborn(VolumeId(1)),
            Astray::NoCluster,
            Astray::OtherCluster(ClusterId(6)),
        ] {
            let remedies = lost.remedies("n1");
            let [look, bring, recover] = &remedies[..] else {
                panic!("three remedies: {remedies:?}");
            };
            assert!(look.contains("addresses of the metadata in the configuration of n1"));
            assert!(bring.starts_with("bring back the newest state"));
            assert!(recover.contains("lost for good") && recover.contains("`holdfast recover`"));
            assert!(!recover.contains("--replace"), "{recover}");
        }
        let malformed = Astray::Unreadable(RecordError::Malformed);
        assert!(malformed.remedies("n1")[0].starts_with("update n1, if"));
        for by_hand in [Astray::Lacking(Lost::Volume(VolumeId(1))), malformed] {
            let remedies = by_hand.remedies("n1");
            let [.., backup, recover] = &remedies[..] else {
                panic!("two remedies at least: {remedies:?}");
            };
            assert!(backup.contains("if nothing has changed since"), "{backup}");
            assert!(recover.contains("`--replace`"), "{recover}");
            assert!(!remedies.iter().any(|it| it.contains("addresses")));
        }
    }
}
