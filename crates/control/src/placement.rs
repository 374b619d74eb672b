//! Which nodes hold the replicas of a slice.
//!
//! Invariants:
//! - replicas of a slice are on different nodes, and on different sites as far as there are any;
//! - new slices have no two replicas in one failure domain;
//! - the same inputs give the same placement;
//! - new slices go where the least is, for the room that there is, and to full nodes last: after any
//!   number of them the counts of two nodes of the same size that were equal before differ by one at
//!   most, for replicas and, as far as those allow it, for primaries;
//! - where that leaves a choice they go where hosts have the replicas do the least.

use alloc::collections::{BTreeMap, BTreeSet};
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

    /// The best node for one more replica beside those chosen, among those that `fit`: one that shares a failure domain with
    /// none of them, if there is any.
    pub(crate) fn best(
        &self,
        inventory: &Inventory,
        fit: impl Fn(NodeId) -> bool,
        chosen: &[NodeId],
    ) -> Option<NodeId> {
        let fit = self.0.iter().filter(|(node, _)| fit(**node));
        let order = |node: NodeId, load: &Load| {
            let weight = load.weight(load.replicas);
            (
                meets(share_domain, inventory, chosen, node),
                load.is_tight(),
                meets(share_site, inventory, chosen, node),
                weight,
                load.work,
                load.primaries,
                node,
            )
        };
        let best = fit.map(|(node, load)| order(*node, load)).min()?;
        Some(best.6)
    }
}

/// Whether two nodes stand in the same site. One whose site nobody has told stands alone.
fn share_site(inventory: &Inventory, one: NodeId, other: NodeId) -> bool {
    let site = inventory.site_of(one);
    site.is_some() && site == inventory.site_of(other)
}

/// Whether two nodes are of the same failure domain. One that names none is one of its own.
fn share_domain(inventory: &Inventory, one: NodeId, other: NodeId) -> bool {
    let domain = inventory.domain_of(one);
    domain.is_some() && domain == inventory.domain_of(other)
}

/// Whether a node shares its site, or its failure domain, with one of some others.
fn meets(
    share: fn(&Inventory, NodeId, NodeId) -> bool,
    inventory: &Inventory,
    others: &[NodeId],
    node: NodeId,
) -> bool {
    others.iter().any(|it| share(inventory, *it, node))
}

/// In how many failure domains, and on how many sites, nodes are. The greater is better: domains come before sites, for
/// nodes of a domain are known to fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spread {
    pub(crate) domains: usize,
    sites: usize,
}

impl Spread {
    /// Of nodes that are different.
    pub(crate) fn of(inventory: &Inventory, nodes: &[NodeId]) -> Self {
        let mut spread = Self {
            domains: 0,
            sites: 0,
        };
        for (place, node) in nodes.iter().enumerate() {
            spread = spread.with(inventory, &nodes[..place], *node);
        }
        spread
    }

    /// Of nodes that are so, and one more.
    fn with(self, inventory: &Inventory, nodes: &[NodeId], node: NodeId) -> Self {
        let meets = |share| meets(share, inventory, nodes, node);
        Self {
            domains: self.domains + usize::from(!meets(share_domain)),
            sites: self.sites + usize::from(!meets(share_site)),
        }
    }
}

/// How a slice's copies are spread if one node has the place of another one among them.
pub(crate) fn spread_after(
    inventory: &Inventory,
    slice: &SliceRecord,
    from: NodeId,
    to: NodeId,
) -> Spread {
    let others: Vec<NodeId> = others_of(slice, from).collect();
    Spread::of(inventory, &others).with(inventory, &others, to)
}

pub(crate) fn nodes_of(slice: &SliceRecord) -> impl Iterator<Item = NodeId> + Clone {
    slice.replicas.iter().map(|replica| replica.node)
}

pub(crate) fn others_of(slice: &SliceRecord, node: NodeId) -> impl Iterator<Item = NodeId> {
    nodes_of(slice).filter(move |it| *it != node)
}

/// Whether a node may get a copy of a slice in the place of the one on another node. A good copy is not given up for one that is
/// in a failure domain with others; one that is lost is made again anywhere.
#[must_use]
pub fn may_replace(inventory: &Inventory, slice: &SliceRecord, from: NodeId, to: NodeId) -> bool {
    let is_good = slice.in_sync().any(|it| it == from);
    let others: Vec<NodeId> = others_of(slice, from).collect();
    let shares = |node| meets(share_domain, inventory, &others, node);
    !is_good || !shares(to) || shares(from)
}

/// What copies of a slice share that should not; the worse first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// A failure domain.
    Domain,
    /// A site, while another site has none.
    Site,
}

/// A move of one copy that brings its slice into one more failure domain, or else on one more site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Apart {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// How they are spread after that.
    pub(crate) spread: Spread,
    /// What they share less after that.
    pub(crate) shared: Shared,
}

/// The moves that bring copies on these nodes further apart, to active nodes that `fit`. To another site they go only where
/// that was told.
pub(crate) fn moves_apart(
    inventory: &Inventory,
    nodes: &[NodeId],
    fit: impl Fn(NodeId) -> bool,
) -> Vec<Apart> {
    let now = Spread::of(inventory, nodes);
    let mut found = Vec::new();
    if now.domains == nodes.len() && now.sites == nodes.len() {
        return found;
    }
    // Where every slice shares something, and there is nowhere to go, each is looked at in each pass: most nodes are ruled out
    // before they are tried in the place of every copy.
    let is_new = |share, to: NodeId| !meets(share, inventory, nodes, to);
    let is_better = |to: NodeId| {
        (now.domains < nodes.len() && is_new(share_domain, to))
            || (now.sites < nodes.len() && is_new(share_site, to))
    };
    let may_take =
        |it: &NodeId| is_better(*it) && inventory.is_active(*it) && !nodes.contains(it) && fit(*it);
    let targets: Vec<NodeId> = inventory.nodes.keys().copied().filter(may_take).collect();
    for from in nodes {
        let others: Vec<NodeId> = nodes.iter().copied().filter(|it| it != from).collect();
        let spread = Spread::of(inventory, &others);
        let moves = targets.iter().map(|to| {
            let spread = spread.with(inventory, &others, *to);
            let shared = if spread.domains > now.domains {
                Shared::Domain
            } else {
                Shared::Site
            };
            Apart {
                from: *from,
                to: *to,
                spread,
                shared,
            }
        });
        let is_told =
            |it: &Apart| it.shared == Shared::Domain || inventory.site_of(it.to).is_some();
        found.extend(moves.filter(|it| it.spread > now && is_told(it)));
    }
    found
}

/// What good copies of a slice share that they should not, and the nodes with which they would share less. None may be there
/// for a failure domain.
#[must_use]
pub fn crowded(inventory: &Inventory, slice: &SliceRecord) -> Option<(Shared, BTreeSet<NodeId>)> {
    let nodes: Vec<NodeId> = slice.in_sync().collect();
    let shares_domain = Spread::of(inventory, &nodes).domains < nodes.len();
    let shared = if shares_domain {
        Shared::Domain
    } else {
        Shared::Site
    };
    let moves = moves_apart(inventory, &nodes, |_| true).into_iter();
    let better = moves.filter(|it| it.shared == shared).map(|it| it.to);
    let better: BTreeSet<NodeId> = better.collect();
    (shares_domain || !better.is_empty()).then_some((shared, better))
}

/// The nodes to choose from, with what they have already.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    inventory: &'a Inventory,
    loads: Loads,
}

/// There are not as many nodes as a slice needs, or they are of too few failure domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewNodes {
    /// How many there are.
    pub available: usize,
    /// Of how many domains.
    pub domains: usize,
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
    /// [`TooFewNodes`] if there are fewer than `copies` nodes, or failure domains.
    pub fn place(&mut self, copies: usize) -> Result<(NodeId, Vec<ReplicaRecord>), TooFewNodes> {
        assert!(copies > 0, "a slice has a copy");
        let mut chosen: Vec<NodeId> = Vec::new();
        while chosen.len() < copies {
            let fit = |node: NodeId| {
                !chosen.contains(&node) && !meets(share_domain, self.inventory, &chosen, node)
            };
            let best = self.loads.best(self.inventory, fit, &chosen);
            chosen.push(best.ok_or_else(|| self.too_few())?);
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

    fn too_few(&self) -> TooFewNodes {
        let nodes: Vec<NodeId> = self.loads.0.keys().copied().collect();
        TooFewNodes {
            available: nodes.len(),
            domains: Spread::of(self.inventory, &nodes).domains,
        }
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
