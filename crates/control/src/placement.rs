//! Which nodes hold the replicas of a new slice.
//!
//! Invariants:
//! - replicas of a slice are on different nodes;
//! - the same inputs give the same placement;
//! - new slices go where the fewest are: after any number of them the counts of two nodes that were
//!   equal before differ by one at most, for replicas and, as far as those allow it, for primaries.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::record::{Membership, ReplicaRecord, SliceRecord};
use holdfast_model::{NodeId, StoreId};

use crate::Inventory;

/// How much a node has to do.
#[derive(Clone, Copy, Debug)]
struct Load {
    store: StoreId,
    replicas: u64,
    primaries: u64,
}

/// The nodes to choose from, with what they have already.
#[derive(Clone, Debug)]
pub struct Placement {
    loads: BTreeMap<NodeId, Load>,
}

/// There are not as many nodes as a slice needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewNodes {
    /// How many there are.
    pub available: usize,
}

impl Placement {
    /// Chooses among those nodes of the inventory that are `available`.
    #[must_use]
    pub fn new(inventory: &Inventory, available: impl Fn(NodeId) -> bool) -> Self {
        let nodes = inventory.nodes.values().filter(|node| available(node.node));
        let loads = nodes
            .map(|node| {
                (
                    node.node,
                    Load {
                        store: node.store,
                        replicas: 0,
                        primaries: 0,
                    },
                )
            })
            .collect();
        let mut placement = Self { loads };
        for slice in inventory.slices.values() {
            placement.count(slice);
        }
        placement
    }

    /// The replicas of one more slice, by node, and its primary.
    ///
    /// # Errors
    /// [`TooFewNodes`] if there are fewer than `copies` nodes.
    pub fn place(&mut self, copies: usize) -> Result<(NodeId, Vec<ReplicaRecord>), TooFewNodes> {
        assert!(copies > 0, "a slice has a copy");
        if self.loads.len() < copies {
            return Err(TooFewNodes {
                available: self.loads.len(),
            });
        }
        let mut order: Vec<_> = self
            .loads
            .iter()
            .map(|(node, load)| (load.replicas, load.primaries, *node))
            .collect();
        order.sort_unstable();
        let mut chosen: Vec<_> = order[..copies].iter().map(|(_, _, node)| *node).collect();
        chosen.sort_unstable();
        let primary = *chosen
            .iter()
            .min_by_key(|node| self.loads[node].primaries)
            .expect("at least one node is chosen");
        let replicas: Vec<_> = chosen
            .into_iter()
            .map(|node| ReplicaRecord {
                node,
                store: self.loads[&node].store,
                membership: Membership::InSync,
            })
            .collect();
        self.add(primary, replicas.iter().map(|replica| replica.node));
        Ok((primary, replicas))
    }

    fn count(&mut self, slice: &SliceRecord) {
        // Not who happens to lead: the slice goes back to whom it was meant for.
        self.add(
            slice.preferred,
            slice.replicas.iter().map(|replica| replica.node),
        );
    }

    fn add(&mut self, primary: NodeId, replicas: impl Iterator<Item = NodeId>) {
        for node in replicas {
            if let Some(load) = self.loads.get_mut(&node) {
                load.replicas += 1;
                load.primaries += u64::from(node == primary);
            }
        }
    }
}
