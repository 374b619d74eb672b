//! Why a node is not the one that its configuration says: somebody else is, or nobody is any more.
//!
//! A number is a node's for as long as there is a record under it. Whoever comes with another store is that node
//! itself, with blank devices in place of those that it lost, only if it has its name and is reached where it was,
//! which either the machine's address says or the node's directory. With another name it is another machine, whose
//! configuration was copied; otherwise it may be either, and an operator has to say that the former machine is gone.
//!
//! Nothing here looks at links or answers: a machine that is cut off from others must not look dead.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
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
        /// This machine's devices were formatted under it.
        is_formatted: bool,
    },
    /// Its name is that of a node with another number.
    Name {
        /// The name.
        name: String,
        /// Whose it is.
        node: NodeId,
    },
    /// Its number and its name are those of a node with other devices, which is another machine, or was elsewhere.
    OtherMachine {
        /// The number.
        node: NodeId,
        /// Where other nodes reach that one, or did.
        peer: String,
        /// This machine's devices were formatted under it.
        is_formatted: bool,
    },
    /// Another machine has taken its number, and has yet to become the node.
    Taken {
        /// The number.
        node: NodeId,
        /// This machine's devices were formatted under it.
        is_formatted: bool,
    },
    /// It was part of the cluster, and was removed while it ran.
    Removed {
        /// Its name.
        name: String,
    },
}

impl Rejection {
    /// What stands in its way.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Number { node, name, .. } => {
                let number = node.0;
                format!("number {number} is node {name}'s, which has other devices")
            }
            Self::Name { name, node } => {
                let number = node.0;
                format!("the node of number {number} is called {name} already")
            }
            Self::OtherMachine { node, peer, .. } => format!(
                "number {} and this name are on record with other devices, reached at {peer}, and nothing says that \
                 this is the same machine: its address, or what was in its `directory`, is another",
                node.0
            ),
            Self::Taken { node, .. } => format!(
                "another machine has taken number {}, and has not registered yet",
                node.0
            ),
            Self::Removed { .. } => "the node was removed from the cluster".into(),
        }
    }

    /// What an operator may do: one of these.
    #[must_use]
    pub fn remedies(&self) -> Vec<String> {
        let remove = |name| {
            format!(
                "remove {name} (`holdfast node remove {name}`), if that one answers nobody any more (`holdfast node list`), and \
                 is gone for good"
            )
        };
        match self {
            Self::Number {
                name, is_formatted, ..
            } => {
                let same = format!(
                    "take the name {name} (`name`), if it is to be that node: where that is not certain then, it says \
                     how it takes its place"
                );
                let other = if_other("choose another number (`node`)", *is_formatted);
                vec![same, other, remove(name)]
            }
            Self::Name { name, .. } => {
                let other = "choose another name (`name` in this machine's configuration)";
                vec![other.into(), remove(name)]
            }
            Self::OtherMachine { is_formatted, .. } | Self::Taken { is_formatted, .. } => vec![
                "make an empty file `take-over` in this node's `directory`, and start it again, if that machine is gone \
                 for good and this one takes its place"
                    .into(),
                if_other("choose another number and name", *is_formatted),
            ],
            Self::Removed { name } => vec![
                "stop it".into(),
                format!(
                    "start it again, and admit it (`holdfast node add {name}`), to have it back"
                ),
            ],
        }
    }
}

/// What is done on this machine's side if it is another node.
fn if_other(what: &str, is_formatted: bool) -> String {
    let mut remedy = format!("{what} in this machine's configuration, if it is another node");
    if is_formatted {
        remedy += ", and overwrite the first 2 MiB of each of its devices, which were formatted under this number: \
                   that gives up what is on them";
    }
    remedy
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.reason())?;
        for (place, remedy) in self.remedies().iter().enumerate() {
            let or = if place > 0 { "; or " } else { "" };
            write!(formatter, "{or}{remedy}")?;
        }
        Ok(())
    }
}
