//! Better places for what is whole already, once nothing else is to be done: copies that share a failure domain move
//! apart, then those that share a site, and then what nodes hold, lead and do for hosts is evened out.
//!
//! Invariants:
//! - a replica moves apart only if its slice is in more failure domains after that, or in as many and on more sites, to a node
//!   whose site was told;
//! - another one moves only if the node that it leaves is heavier even after that than the other one
//!   becomes, and its slice is in no fewer domains, or in as many and on no fewer sites: every such move makes the nodes more
//!   equal;
//! - for hosts' sake a replica moves, or changes places with another one, only if that takes away of what one node does
//!   more than another, and leaves them as evenly filled as they were; and only after nothing has changed for long
//!   enough to know what nodes do where things are now;
//! - so moves end, as long as hosts do what they did, and none is undone;
//! - growth by empty nodes moves replicas to these only, no more than an equal share of all;
//! - nodes are evened out only where the settings say so; copies move apart in any case.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use holdfast_model::record::{SliceRecord, WishRecord};
use holdfast_model::{NodeId, SliceId};

use crate::placement::{Apart, Load, Shared, moves_apart, nodes_of, others_of, spread_after};
use crate::steer::Planner;

use self::work::WORK_KNOWN;

mod work;

/// Moves that are planned at a time: the next pass sees what came of them.
const MOVES_MAX: usize = 16;

/// The moves that are due: apart, or else of replicas, or else of the lead.
pub(crate) fn moves(planner: &Planner<'_>) -> Vec<(SliceId, WishRecord)> {
    let active = planner.inventory.nodes.keys();
    let active = active.filter(|node| planner.inventory.is_active(**node));
    let loads = active.filter_map(|node| Some((*node, *planner.load(*node)?)));
    let mut balance = Balance {
        planner,
        loads: loads.collect(),
        moved: BTreeMap::new(),
    };
    let evens = planner.inventory.settings.record.rebalance;
    for shared in [Shared::Domain, Shared::Site] {
        if balance.moved.is_empty() {
            balance.repeat(|balance| balance.move_apart(shared));
        }
    }
    if balance.moved.is_empty() && evens {
        balance.repeat(Balance::move_replica);
    }
    if balance.moved.is_empty() && evens {
        balance.repeat(Balance::move_lead);
    }
    if balance.moved.is_empty() && evens && planner.sight.unchanged >= WORK_KNOWN {
        balance.even_work();
    }
    balance.moved.into_iter().collect()
}

struct Balance<'a, 'b> {
    planner: &'a Planner<'b>,
    loads: BTreeMap<NodeId, Load>,
    moved: BTreeMap<SliceId, WishRecord>,
}

impl<'b> Balance<'_, 'b> {
    /// Makes the same kind of move as long as there are any.
    fn repeat(&mut self, mut make: impl FnMut(&mut Self) -> bool) {
        while self.moved.len() < MOVES_MAX && make(self) {}
    }

    /// Moves one replica away from another one of its slice with which it shares something; false if there is none, or
    /// nowhere to move it to.
    fn move_apart(&mut self, shared: Shared) -> bool {
        let slices = self.planner.slices().map(|(record, _)| record);
        let mut slices = slices.filter(|record| self.may_change(record));
        let found = slices.find_map(|record| Some((record, self.apart(record, shared)?)));
        match found {
            Some((record, Apart { from, to, .. })) => self.replace(record, from, to),
            None => false,
        }
    }

    /// The best move of one of a slice's replicas away from another one with which it shares something: from the node that can
    /// best do without it to the lightest one.
    fn apart(&self, record: &SliceRecord, shared: Shared) -> Option<Apart> {
        let nodes: Vec<NodeId> = nodes_of(record).collect();
        let fit = |node: NodeId| {
            let is_tight = |load: &Load| load.is_tight();
            !self.loads.get(&node).is_none_or(is_tight) && self.may_take(record, node)
        };
        let moves = moves_apart(self.planner.inventory, &nodes, fit).into_iter();
        moves.filter(|it| it.shared == shared).min_by_key(|it| {
            let weight = |node, more| {
                let load = self.loads.get(node);
                load.map_or(u128::MAX, |load| load.weight(load.replicas + more))
            };
            // One that is led elsewhere is moved with less ado.
            let leaves = (record.preferred == it.from, Reverse(weight(&it.from, 0)));
            let takes = (weight(&it.to, 1), it.to);
            (Reverse(it.spread), leaves, it.from, takes)
        })
    }

    /// Whether a slice may be given another place now.
    fn may_change(&self, record: &SliceRecord) -> bool {
        !self.moved.contains_key(&record.slice) && self.planner.may_move(record.primary)
    }

    /// Whether a node may be given one more replica, of a slice that it does not have.
    fn may_take(&self, record: &SliceRecord, node: NodeId) -> bool {
        record.replica(node).is_none()
            && self.planner.may_move(node)
            && self.planner.has_room(node, record.slice)
    }

    /// Moves one replica, from as heavy a node as there is to as light a one; false if there is none.
    fn move_replica(&mut self) -> bool {
        let mut pairs = Vec::new();
        for (from, heavy) in &self.loads {
            for (to, light) in &self.loads {
                let evens = heavy.replicas > 0
                    && heavy.weight(heavy.replicas - 1) >= light.weight(light.replicas + 1);
                if evens && !light.is_tight() {
                    let gain = heavy.weight(heavy.replicas) - light.weight(light.replicas);
                    pairs.push((Reverse(gain), *from, *to));
                }
            }
        }
        pairs.sort_unstable();
        pairs
            .into_iter()
            .any(|(_, from, to)| self.move_between(from, to))
    }

    /// The slices of which a replica may move between two nodes, and that are no closer together then.
    fn movable(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = &'b SliceRecord> {
        let inventory = self.planner.inventory;
        let fits = move |record: &&SliceRecord| {
            let spread = |to| spread_after(inventory, record, from, to);
            record.replica(from).is_some()
                && self.may_change(record)
                && self.may_take(record, to)
                && spread(to) >= spread(from)
        };
        let slices = self.planner.slices().map(|(record, _)| record);
        slices.filter(fits)
    }

    fn move_between(&mut self, from: NodeId, to: NodeId) -> bool {
        // One that is led elsewhere is moved with less ado.
        let found = self.movable(from, to).min_by_key(|record| {
            let leads = record.preferred == from;
            (leads, record.slice)
        });
        let Some(record) = found else {
            return false;
        };
        self.replace(record, from, to)
    }

    /// Lets one node have a replica in place of another one.
    fn replace(&mut self, record: &SliceRecord, from: NodeId, to: NodeId) -> bool {
        let mut nodes: Vec<NodeId> = others_of(record, from).collect();
        nodes.push(to);
        let primaries = |node: &NodeId| self.loads.get(node).map_or(u64::MAX, |it| it.primaries);
        let preferred = if record.preferred == from {
            *nodes
                .iter()
                .min_by_key(|node| primaries(node))
                .expect("it has copies")
        } else {
            record.preferred
        };
        self.note(record, nodes, preferred)
    }

    /// Lets one slice be led by another of its nodes; false if that evens nothing out.
    fn move_lead(&mut self) -> bool {
        let primaries = |node: NodeId| self.loads.get(&node).map(|load| load.primaries);
        let best = self
            .planner
            .slices()
            .map(|(record, _)| record)
            .filter(|record| !self.moved.contains_key(&record.slice))
            .flat_map(|record| {
                record
                    .replicas
                    .iter()
                    .map(move |replica| (record, replica.node))
            })
            .filter_map(|(record, to)| {
                let gap = primaries(record.preferred)?.checked_sub(primaries(to)?)?;
                (gap >= 2).then_some((Reverse(gap), record.slice, to))
            })
            .min();
        let Some((_, slice, to)) = best else {
            return false;
        };
        let record = &self.planner.inventory.slices[&slice];
        let nodes = nodes_of(record).collect();
        self.note(record, nodes, to)
    }

    fn note(&mut self, record: &SliceRecord, nodes: Vec<NodeId>, preferred: NodeId) -> bool {
        for replica in &record.replicas {
            if let Some(load) = self.loads.get_mut(&replica.node) {
                load.replicas -= 1;
                load.primaries -= u64::from(replica.node == record.preferred);
            }
        }
        for node in &nodes {
            if let Some(load) = self.loads.get_mut(node) {
                load.replicas += 1;
                load.primaries += u64::from(*node == preferred);
            }
        }
        let wish = self.planner.next_wish(record, nodes, preferred);
        let wish = wish.expect("a move is a change");
        self.moved.insert(record.slice, wish);
        true
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod work_tests;
