//! Whose a certificate is: a node of a cluster, as a URI among its names.
//!
//! Invariant: there is one way to write an identity, and whatever is written in another one is none.

use std::fmt;
use std::str::FromStr;

use holdfast_model::{ClusterId, NodeId};

/// The number under which what runs a demo speaks to its nodes: it stands beside them, and no node has it.
pub const DEMO: NodeId = NodeId(0);

/// The number under which a witness has its certificate: it is no node, and may do nothing that nodes may.
pub const WITNESS: NodeId = NodeId(u16::MAX);

/// What stands for it in an identity.
const WITNESS_PLACE: &str = "witness";

/// Hexadecimal digits of a cluster's id.
const CLUSTER_DIGITS: usize = 32;

/// A node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node's number; [`DEMO`] for what runs a demo, [`WITNESS`] for a witness.
    pub node: NodeId,
}

/// A text that names no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoIdentity;

impl fmt::Display for NodeIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node } = self;
        if *node == WITNESS {
            return write!(formatter, "holdfast:{:032x}/{WITNESS_PLACE}", cluster.0);
        }
        write!(formatter, "holdfast:{:032x}/node/{}", cluster.0, node.0)
    }
}

impl FromStr for NodeIdentity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let rest = text.strip_prefix("holdfast:").ok_or(NoIdentity)?;
        let (cluster, place) = rest.split_once('/').ok_or(NoIdentity)?;
        if cluster.len() != CLUSTER_DIGITS {
            return Err(NoIdentity);
        }
        let cluster = u128::from_str_radix(cluster, 16).map_err(|_| NoIdentity)?;
        let node = match place.strip_prefix("node/") {
            Some(node) => NodeId(node.parse().map_err(|_| NoIdentity)?),
            None if place == WITNESS_PLACE => WITNESS,
            None => return Err(NoIdentity),
        };
        let read = Self {
            cluster: ClusterId(cluster),
            node,
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
        let witness = NodeIdentity {
            node: WITNESS,
            ..identity
        };
        let text = "holdfast:000000000000000000000000000000ab/witness";
        assert_eq!(witness.to_string(), text);
        assert_eq!(text.parse(), Ok(witness));
        for other in [
            "",
            "holdfast:000000000000000000000000000000ab/node/65535",
            "holdfast:000000000000000000000000000000ab/witness/",
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
