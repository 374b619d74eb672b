//! Why a node does not become the one that its configuration says: somebody else is.
//!
//! A number is a node's for as long as there is a record under it. Whoever comes with another store *and*
//! another name is another machine, whose configuration was copied: nothing is registered. With the same name
//! it may be the node itself, with blank devices in place of those that it lost, or a copy of it beside it. So
//! it puts a bid into the metadata: a process that runs under that number sees it, and deletes it; a bid
//! that stands for [`BID_TIME`] was not objected to, and the node is replaced in the transaction that finds
//! it standing. A process that could not object, because it stood still or did not reach the metadata, ends
//! when it sees that its number is another's, and is the one that is rejected when it starts again.
//!
//! Nothing here looks at links or answers: a machine that is cut off from others must not look dead.

use alloc::string::String;
use core::fmt;

use holdfast_model::NodeId;
use holdfast_stdx::Duration;

/// How long a bid stands before it counts: longer than a client of the metadata takes to leave a member that
/// does not answer.
pub(crate) const BID_TIME: Duration = Duration::from_secs(3);
/// How long one that somebody else has left is waited for, before it is taken for that of a process that ended.
pub(crate) const BID_LEFT: Duration = Duration::from_secs(6);
/// Between two attempts to be a node that runs elsewhere: each costs two revisions of the metadata.
pub(crate) const RUNNING_RETRY: Duration = Duration::from_secs(10);
/// Between two looks whether a number or a name is free by now.
pub(crate) const TAKEN_RETRY: Duration = Duration::from_secs(2);

/// Why this node is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Its number is that of a node with another name, and other devices.
    Number {
        /// The number.
        node: NodeId,
        /// Whose it is.
        name: String,
    },
    /// Its name is that of a node with another number.
    Name {
        /// The name.
        name: String,
        /// Whose it is.
        node: NodeId,
    },
    /// A process runs under its number and its name, with other devices.
    Running {
        /// The number.
        node: NodeId,
        /// Where other nodes reach that process.
        peer: String,
    },
    /// Whether one does is being found out.
    InQuestion {
        /// The number.
        node: NodeId,
        /// Where other nodes reach it, if so.
        peer: String,
    },
}

impl Rejection {
    /// How long it lasts before it is asked again.
    pub(crate) fn retry(&self) -> Duration {
        match self {
            Self::Number { .. } | Self::Name { .. } => TAKEN_RETRY,
            Self::Running { .. } => RUNNING_RETRY,
            Self::InQuestion { .. } => BID_TIME,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { node, name } => write!(
                formatter,
                "number {0} is node {name}'s, which has other devices: choose another number (`node` in this \
                 machine's configuration), or remove {name} first (`holdfast node remove {name}`)",
                node.0
            ),
            Self::Name { name, node } => write!(
                formatter,
                "the node of number {} is called {name} already: choose another name (`name` in this machine's \
                 configuration), or remove that node first (`holdfast node remove {name}`)",
                node.0
            ),
            Self::Running { node, peer } => write!(
                formatter,
                "another process runs as number {0}, under the same name and with other devices, and is reached \
                 at {peer}: stop it, or choose another number and name for this one",
                node.0
            ),
            Self::InQuestion { node, peer } => write!(
                formatter,
                "number {0} is on record with other devices, reached at {peer}: waits {1} s, in case a \
                 process still runs with them",
                node.0,
                BID_TIME.as_millis() / 1000
            ),
        }
    }
}
