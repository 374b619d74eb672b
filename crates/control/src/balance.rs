//! Evening out what nodes hold and lead, once nothing else is to be done.
//!
//! Invariants:
//! - a replica moves only if the node that it leaves is heavier even after that than the other one
//!   becomes: every move makes the nodes more equal, so that moves end, and none is undone;
//! - so growth by empty nodes moves replicas to these only, no more than an equal share of all;
//! - a move puts no two copies in one site that were in two.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use holdfast_model::record::{SliceRecord, WishRecord};
use holdfast_model::{NodeId, SliceId};

use crate::placement::{Load, share_site};
use crate::steer::Planner;

/// Moves that are planned at a time: the next pass sees what came of them.
const MOVES_MAX: usize = 16;

/// The moves that are due: of replicas, or else of the lead.
pub(crate) fn moves(planner: &Planner<'_>) -> Vec<(SliceId, WishRecord)> {
    let active = planner.inventory.nodes.keys();
    let active = active.filter(|node| planner.inventory.is_active(**node));
    let loads = active.filter_map(|node| Some((*node, *planner.load(*node)?)));
    let mut balance = Balance {
        planner,
        loads: loads.collect(),
        moved: BTreeMap::new(),
    };
    while balance.moved.len() < MOVES_MAX && balance.move_replica() {}
    if balance.moved.is_empty() {
        while balance.moved.len() < MOVES_MAX && balance.move_lead() {}
    }
    balance.moved.into_iter().collect()
}

struct Balance<'a, 'b> {
    planner: &'a Planner<'b>,
    loads: BTreeMap<NodeId, Load>,
    moved: BTreeMap<SliceId, WishRecord>,
}

impl Balance<'_, '_> {
    /// Moves one replica, from as heavy a node as there is to as light a one; false if there is none.
    fn move_replica(&mut self) -> bool {
        let mut pairs = Vec::new();
        for (from, heavy) in &self.loads {
            for (to, light) in &self.loads {
                let evens = heavy.replicas > 0
                    && heavy.weight(heavy.replicas - 1) >= light.weight(light.replicas + 1);
                if evens && !light.is_tight() {
                    let gain = heavy.weight(heavy.replicas) - light.weight(light.replicas);
                    pairs.push((core::cmp::Reverse(gain), *from, *to));
                }
            }
        }
        pairs.sort_unstable();
        pairs
            .into_iter()
            .any(|(_, from, to)| self.move_between(from, to))
    }

    fn move_between(&mut self, from: NodeId, to: NodeId) -> bool {
        let fits = |record: &&SliceRecord| {
            let others = || {
                record
                    .replicas
                    .iter()
                    .map(|it| it.node)
                    .filter(|it| *it != from)
            };
            let meets = |node| others().any(|it| share_site(self.planner.inventory, it, node));
            record.replica(from).is_some()
                && record.replica(to).is_none()
                && (!meets(to) || meets(from))
                && !self.moved.contains_key(&record.slice)
                && self.planner.may_move(record.primary)
                && self.planner.may_move(to)
                && self.planner.has_room(to, record.slice)
        };
        let slices = self.planner.slices().map(|(record, _)| record);
        // One that is led elsewhere is moved with less ado.
        let found = slices.filter(fits).min_by_key(|record| {
            let leads = record.preferred == from;
            (leads, record.slice)
        });
        let Some(record) = found else {
            return false;
        };
        let nodes = record.replicas.iter().map(|replica| replica.node);
        let mut nodes: Vec<NodeId> = nodes.filter(|node| *node != from).collect();
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
                (gap >= 2).then_some((core::cmp::Reverse(gap), record.slice, to))
            })
            .min();
        let Some((_, slice, to)) = best else {
            return false;
        };
        let record = &self.planner.inventory.slices[&slice];
        let nodes = record.replicas.iter().map(|replica| replica.node).collect();
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
