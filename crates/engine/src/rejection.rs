//! Why a node does not become the one that its configuration says: somebody else is.
//!
//! A number is a node's for as long as there is a record under it. Whoever comes with another store is that node
//! itself, with blank devices in place of those that it lost, only if it has its name and is reached where it was:
//! no two machines share an address. With another name it is another machine, whose configuration was copied; at
//! another address it may be either, and an operator has to say that the former machine is gone.
//!
//! Nothing here looks at links or answers: a machine that is cut off from others must not look dead.

use alloc::string::String;
use core::fmt;

use holdfast_model::NodeId;
use holdfast_stdx::Duration;

/// Between two looks whether a number or a name is free by now.
pub(crate) const REJECTED_RETRY: Duration = Duration::from_secs(2);

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
    /// Its number and its name are those of a node with other devices, at another address.
    Elsewhere {
        /// The number.
        node: NodeId,
        /// Where other nodes reach that one, or did.
        peer: String,
    },
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
            Self::Elsewhere { node, peer } => write!(
                formatter,
                "number {0} and this name are on record with other devices, reached at {peer}: if that is another \
                 machine, choose another number and name for this one; if that machine is gone for good and this one \
                 takes its place, make an empty file `take-over` in this node's `directory`, and start it again",
                node.0
            ),
        }
    }
}
