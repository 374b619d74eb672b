//! Which nodes hold the replicas of a slice.
//!
//! Invariants:
//! - replicas of a slice are on different nodes, and on different sites as far as there are any;
//! - the same inputs give the same placement;
//! - new slices go where the least is, for the room that there is, and to full nodes last: after any
//!   number of them the counts of two nodes of the same size that were equal before differ by one at
//!   most, for replicas and, as far as those allow it, for primaries;
//! - where that leaves a choice they go where hosts have the replicas do the least.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::record::{Membership, ReplicaRecord, SliceRecord};
use holdfast_model::{NodeId, StoreId};

use crate::{Inventory, Seen};

/// A node is tight if less than one part in so many of its room is free.
const TIGHT_SHARE: u64 = 10;
/// What one replica weighs on a node of so many bytes is this over the bytes: fine enough to tell
/// nodes of many terabytes apart.
const WEIGHT_SCALE: u128 = 1 << 64;

/// How much a node has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    store: StoreId,
    pub(crate) bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) replicas: u64,
    pub(crate) primaries: u64,
    pub(crate) work: u64,
}

impl Load {
    /// How heavy so many replicas are for the node: what two nodes of the same size hold in the same
    /// number is equally heavy.
    pub(crate) fn weight(&self, replicas: u64) -> u128 {
        u128::from(replicas) * (WEIGHT_SCALE / u128::from(self.bytes.max(1)))
    }

    pub(crate) fn is_tight(&self) -> bool {
        is_tight(self.bytes, self.free_bytes)
    }
}

/// Whether so little of a node's bytes is free that it is given nothing while others have more.
pub(crate) const fn is_tight(bytes: u64, free_bytes: u64) -> bool {
    free_bytes < bytes / TIGHT_SHARE
}

/// What nodes hold, and lead.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads(BTreeMap<NodeId, Load>);

impl Loads {
    /// The nodes of the inventory that are `seen`.
    pub(crate) fn new(inventory: &Inventory, seen: impl Fn(NodeId) -> Option<Seen>) -> Self {
        let nodes = inventory.nodes.values();
        let loads = nodes.filter_map(|node| {
            let seen = seen(node.node)?;
            let load = Load {
                store: node.store,
                bytes: seen.bytes,
                free_bytes: seen.free_bytes,
                replicas: 0,
                primaries: 0,
                work: seen.work,
            };
            Some((node.node, load))
        });
        Self(loads.collect())
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Load> {
        self.0.get(&node)
    }

    pub(crate) fn count_replica(&mut self, node: NodeId) {
        if let Some(load) = self.0.get_mut(&node) {
            load.replicas += 1;
        }
    }

    pub(crate) fn count_primary(&mut self, node: NodeId) {
        if let Some(load) = self.0.get_mut(&node) {
            load.primaries += 1;
        }
    }

    pub(crate) fn add(&mut self, primary: NodeId, replicas: impl Iterator<Item = NodeId>) {
        for node in replicas {
            self.count_replica(node);
            if node == primary {
                self.count_primary(node);
            }
        }
    }

    /// The best node for one more replica beside those chosen, among those that `fit`.
    pub(crate) fn best(
        &self,
        inventory: &Inventory,
        fit: impl Fn(NodeId) -> bool,
        chosen: &[NodeId],
    ) -> Option<NodeId> {
        let fit = self.0.iter().filter(|(node, _)| fit(**node));
        let order = |node: NodeId, load: &Load| {
            let meets = chosen.iter().any(|it| share_site(inventory, *it, node));
            let weight = load.weight(load.replicas);
            (
                load.is_tight(),
                meets,
                weight,
                load.work,
                load.primaries,
                node,
            )
        };
        let best = fit.map(|(node, load)| order(*node, load)).min()?;
        Some(best.5)
    }
}

/// Whether two nodes stand in the same site. One whose site nobody has told stands alone.
pub(crate) fn share_site(inventory: &Inventory, one: NodeId, other: NodeId) -> bool {
    let site = inventory.site_of(one);
    site.is_some() && site == inventory.site_of(other)
}

/// The nodes with which a slice would be on one more site: active, and in a site that was told where none of its
/// replicas is. None if no two of its replicas share a site.
#[must_use]
pub fn on_more_sites(inventory: &Inventory, slice: &SliceRecord) -> Vec<NodeId> {
    let replicas = || slice.replicas.iter().map(|replica| replica.node);
    let shares = |one: NodeId| {
        let mut others = replicas().filter(|it| *it != one);
        others.any(|it| share_site(inventory, it, one))
    };
    if !replicas().any(shares) {
        return Vec::new();
    }
    let adds = |node: &NodeId| {
        inventory.is_active(*node)
            && inventory.site_of(*node).is_some()
            && !replicas().any(|it| share_site(inventory, it, *node))
    };
    inventory.nodes.keys().copied().filter(adds).collect()
}

/// The nodes to choose from, with what they have already.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    inventory: &'a Inventory,
    loads: Loads,
}

/// There are not as many nodes as a slice needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewNodes {
    /// How many there are.
    pub available: usize,
}

impl<'a> Placement<'a> {
    /// Chooses among those nodes of the inventory that belong to the cluster, and are `seen`.
    #[must_use]
    pub fn new(inventory: &'a Inventory, seen: impl Fn(NodeId) -> Option<Seen>) -> Self {
        let active = |node| inventory.is_active(node).then(|| seen(node)).flatten();
        let mut placement = Self {
            inventory,
            loads: Loads::new(inventory, active),
        };
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
        let mut chosen: Vec<NodeId> = Vec::new();
        while chosen.len() < copies {
            let fit = |node: NodeId| !chosen.contains(&node);
            let best = self.loads.best(self.inventory, fit, &chosen);
            let available = self.loads.0.len();
            chosen.push(best.ok_or(TooFewNodes { available })?);
        }
        chosen.sort_unstable();
        let load = |node: &NodeId| self.loads.0[node];
        let primary = *chosen
            .iter()
            .min_by_key(|node| (load(node).primaries, load(node).work))
            .expect("at least one node is chosen");
        let replicas = chosen.iter().map(|node| ReplicaRecord {
            node: *node,
            store: load(node).store,
            membership: Membership::InSync,
        });
        let replicas: Vec<_> = replicas.collect();
        self.loads.add(primary, chosen.into_iter());
        Ok((primary, replicas))
    }

    fn count(&mut self, slice: &SliceRecord) {
        // Not where it happens to be, and who happens to lead: where it is meant to be.
        match self.inventory.wishes.get(&slice.slice) {
            Some(wish) => {
                let wish = &wish.record;
                self.loads.add(wish.preferred, wish.nodes.iter().copied());
            }
            None => {
                let nodes = slice.replicas.iter().map(|replica| replica.node);
                self.loads.add(slice.preferred, nodes);
            }
        }
    }
}
