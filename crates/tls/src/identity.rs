//! Whose a certificate is: a node of a cluster, as a URI among its names.
//!
//! Invariant: there is one way to write an identity, and whatever is written in another one is none.

use std::fmt;
use std::str::FromStr;

use holdfast_model::{ClusterId, NodeId};

/// The number under which what runs a demo speaks to its nodes: it stands beside them, and no node has it.
pub const DEMO: NodeId = NodeId(0);

/// Hexadecimal digits of a cluster's id.
const CLUSTER_DIGITS: usize = 32;

/// A node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node's number; [`DEMO`] for what runs a demo.
    pub node: NodeId,
}

/// A text that names no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoIdentity;

impl fmt::Display for NodeIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node } = self;
        write!(formatter, "holdfast:{:032x}/node/{}", cluster.0, node.0)
    }
}

impl FromStr for NodeIdentity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let rest = text.strip_prefix("holdfast:").ok_or(NoIdentity)?;
        let (cluster, node) = rest.split_once("/node/").ok_or(NoIdentity)?;
        if cluster.len() != CLUSTER_DIGITS {
            return Err(NoIdentity);
        }
        let cluster = u128::from_str_radix(cluster, 16).map_err(|_| NoIdentity)?;
        let read = Self {
            cluster: ClusterId(cluster),
            node: NodeId(node.parse().map_err(|_| NoIdentity)?),
        };
        (read.to_string() == text).then_some(read).ok_or(NoIdentity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_written_in_one_way() {
        let identity = NodeIdentity {
            cluster: ClusterId(0xab),
            node: NodeId(7),
        };
        let text = "holdfast:000000000000000000000000000000ab/node/7";
        assert_eq!(identity.to_string(), text);
        assert_eq!(text.parse(), Ok(identity));
        for other in [
            "",
            "holdfast:ab/node/7",
            "holdfast:000000000000000000000000000000AB/node/7",
            "holdfast:+00000000000000000000000000000ab/node/7",
            "holdfast:000000000000000000000000000000ab/node/07",
            "holdfast:000000000000000000000000000000ab/node/70000",
            "holdfast:000000000000000000000000000000ab/node/7/",
            "https:000000000000000000000000000000ab/node/7",
        ] {
            assert_eq!(other.parse::<NodeIdentity>(), Err(NoIdentity), "{other}");
        }
    }
}
