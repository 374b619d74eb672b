//! Why a node does not become the one that its configuration says: somebody else is.
//!
//! A number is a node's for as long as there is a record under it. Whoever comes with another store is that node
//! itself, with blank devices in place of those that it lost, only if it has its name and is reached where it was:
//! no two machines share an address. With another name it is another machine, whose configuration was copied; at
//! another address it may be either, and an operator has to say that the former machine is gone.
//!
//! Nothing here looks at links or answers: a machine that is cut off from others must not look dead.

use alloc::format;
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

impl Rejection {
    /// What stands in its way.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Number { node, name } => {
                let number = node.0;
                format!("number {number} is node {name}'s, which has other devices")
            }
            Self::Name { name, node } => {
                let number = node.0;
                format!("the node of number {number} is called {name} already")
            }
            Self::Elsewhere { node, peer } => format!(
                "number {} and this name are on record with other devices, reached at {peer}",
                node.0
            ),
        }
    }

    /// What an operator may do: one of these.
    #[must_use]
    pub fn remedies(&self) -> [String; 2] {
        let remove = |name| format!("remove {name} (`holdfast node remove {name}`)");
        match self {
            Self::Number { name, .. } => {
                let number = "choose another number (`node` in this machine's configuration)";
                [number.into(), remove(name)]
            }
            Self::Name { name, .. } => {
                let other = "choose another name (`name` in this machine's configuration)";
                [other.into(), remove(name)]
            }
            Self::Elsewhere { .. } => [
                "choose another number and name for this machine, if that is another one".into(),
                "make an empty file `take-over` in this node's `directory`, and start it again, if that machine is gone \
                 for good and this one takes its place"
                    .into(),
            ],
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.remedies();
        write!(formatter, "{}: {one}; or {other}", self.reason())
    }
}
