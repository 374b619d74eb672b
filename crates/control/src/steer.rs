//! Where slices are to be: what is wished of each, from where it is, what the operator wants of the
//! nodes, and what the nodes say.
//!
//! A slice moves in two steps. First the wish names where it is to be, and keeps whoever holds it
//! now; when all who are to hold it do, and no block of it is known to be bad anywhere, the wish
//! keeps nobody any more, and the others go. When the record says what was wished the wish is deleted.
//!
//! Invariants:
//! - where nothing is to be done nothing is written: the same inputs, once the wishes are met, give no
//!   transaction;
//! - a replica on a node that may keep it stays, unless the slice has more than its copies: a decision
//!   is not taken back because another one would be a little better;
//! - a replica that was given up for dead and is in sync again, before the one that is to replace it, is
//!   taken back; where no replica was given up no move is undone;
//! - where there is no better place, a slice stays as it is;
//! - a copy that is missing is made in a failure domain of its own if one has room, else in another one's; a good copy is not
//!   given up for one that is closer to the others;
//! - a bounded number of replicas is on its way to a node, and from one, at a time; those that cannot go on, because
//!   somebody whom they need is away, do not count.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use holdfast_model::metadata::{Operation, Selector, Transaction};
use holdfast_model::record::{
    Membership, NodeStanding, REPLICAS_MAX, SliceRecord, VolumeRecord, WishRecord,
};
use holdfast_model::{NodeId, Sequence, SliceId};
use holdfast_stdx::Duration;

use crate::balance;
use crate::members::{Part, Sight};
use crate::placement::{Load, Loads, Spread};
use crate::writing::{as_found, put, still_at};
use crate::{Inventory, Versioned};

/// Replicas on their way to a node, and slices led by a node that are copied, at a time: a few keep
/// its network busy, and a node brings no more than 16 slices up to date anyway.
pub const MOVES_PER_NODE: usize = 4;
/// Transactions of one pass: the next looks again.
pub const STEPS_MAX: usize = 128;
/// A node that is to get a replica, and says nothing for so long before it is in sync, or is not active any more, is given
/// up for another one: it has nothing that would be lost.
pub const TARGET_PATIENCE: Duration = Duration::from_secs(30);

/// Plans the next steps. Each transaction holds only as long as its volume is as it was.
#[must_use]
pub fn steer(inventory: &Inventory, sight: &Sight) -> Vec<Transaction> {
    let mut planner = Planner::new(inventory, sight);
    planner.clear_strays();
    let mut slices: Vec<_> = planner.slices().collect();
    // Those with the fewest copies first.
    slices.sort_by_key(|(record, _)| (record.in_sync().count(), record.slice));
    for (record, volume) in slices {
        planner.consider(record, volume);
    }
    if planner.steps.is_empty() && planner.is_at_rest() {
        for (slice, wish) in balance::moves(&planner) {
            planner.wish(slice, Some(&wish));
        }
    }
    planner.steps
}

/// What a plan is made from, and what it has come to.
pub(crate) struct Planner<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) sight: &'a Sight,
    /// What the nodes hold, and lead, once every wish is met.
    pub(crate) loads: Loads,
    moving: BTreeMap<NodeId, usize>,
    /// Bytes of copies on their way to a node, at most: as if nothing of them was there yet.
    coming: BTreeMap<NodeId, u64>,
    steps: Vec<Transaction>,
}

impl<'a> Planner<'a> {
    fn new(inventory: &'a Inventory, sight: &'a Sight) -> Self {
        let mut loads = Loads::new(inventory, |node| {
            Some(sight.nodes.get(&node).copied().unwrap_or_default())
        });
        let mut moving = BTreeMap::new();
        for record in inventory.slices.values() {
            let wish = inventory.wishes.get(&record.slice).map(|wish| &wish.record);
            match wish {
                Some(wish) => loads.add(wish.preferred, wish.nodes.iter().copied()),
                None => loads.add(record.preferred, record.replicas.iter().map(|it| it.node)),
            }
            // What cannot go on keeps nobody busy: others would wait for it, for as long as a node is away.
            let movers = wish.map_or_else(Vec::new, |wish| movers(wish, record));
            if movers.iter().all(|node| sight.is_up(*node)) {
                for node in movers {
                    *moving.entry(node).or_default() += 1;
                }
            }
        }
        Self {
            inventory,
            sight,
            loads,
            moving,
            coming: coming(inventory, sight),
            steps: Vec::new(),
        }
    }

    /// The slices of volumes.
    pub(crate) fn slices(&self) -> impl Iterator<Item = (&'a SliceRecord, &'a VolumeRecord)> + 'a {
        let volumes = &self.inventory.volumes;
        let slices = self.inventory.slices.values();
        slices.filter_map(move |slice| Some((slice, &volumes.get(&slice.slice.volume)?.record)))
    }

    /// Wishes of slices that are no more.
    fn clear_strays(&mut self) {
        let inventory = self.inventory;
        for (slice, wish) in &inventory.wishes {
            let known = inventory.slices.contains_key(slice)
                && inventory.volumes.contains_key(&slice.volume);
            if !known && self.steps.len() < STEPS_MAX {
                let key = WishRecord::key(*slice);
                self.steps.push(Transaction {
                    compare: vec![still_at(key.clone(), wish.revision)],
                    success: vec![Operation::Delete(Selector::Key(key))],
                    failure: Vec::new(),
                });
            }
        }
    }

    fn consider(&mut self, record: &SliceRecord, volume: &VolumeRecord) {
        let wish = self.inventory.wishes.get(&record.slice);
        let wish = wish.map(|wish| &wish.record);
        let nodes = self.target(record, wish, volume.policy.copies());
        let preferred = self.preferred(record, wish, &nodes);
        let next = self.next_wish(record, nodes, preferred);
        if next.as_ref() != wish {
            self.wish(record.slice, next.as_ref());
        }
    }

    /// The wish that brings a slice to these nodes; none if it is there.
    pub(crate) fn next_wish(
        &self,
        record: &SliceRecord,
        mut nodes: Vec<NodeId>,
        preferred: NodeId,
    ) -> Option<WishRecord> {
        nodes.sort_unstable();
        let others = record.replicas.iter().map(|replica| replica.node);
        let others: Vec<NodeId> = others.filter(|node| !nodes.contains(node)).collect();
        let in_sync: BTreeSet<NodeId> = record.in_sync().collect();
        let arrived = nodes.iter().all(|node| in_sync.contains(node));
        let is_safe = arrived && !self.sight.bad.contains(&record.slice);
        let room = REPLICAS_MAX - nodes.len().min(REPLICAS_MAX);
        let kept = if is_safe { Vec::new() } else { others };
        let wish = WishRecord {
            schema: 1,
            slice: record.slice,
            nodes,
            kept: kept.into_iter().take(room).collect(),
            preferred,
        };
        (!wish.is_met_by(record)).then_some(wish)
    }

    /// Writes a wish, or deletes the one there is.
    fn wish(&mut self, slice: SliceId, wish: Option<&WishRecord>) {
        let inventory = self.inventory;
        let Some(record) = inventory.slices.get(&slice) else {
            return;
        };
        let before = inventory.wishes.get(&slice);
        let was_moving: Vec<NodeId> = before
            .iter()
            .flat_map(|before| movers(&before.record, record))
            .collect();
        let movers: Vec<NodeId> = wish.map_or_else(Vec::new, |wish| movers(wish, record));
        let begins = movers.iter().filter(|node| !was_moving.contains(node));
        let begins: Vec<NodeId> = begins.copied().collect();
        if self.steps.len() >= STEPS_MAX || begins.iter().any(|node| !self.may_move(*node)) {
            return;
        }
        for node in begins {
            *self.moving.entry(node).or_default() += 1;
        }
        let step = step(inventory, slice, before, wish);
        self.steps.extend(step);
    }

    pub(crate) fn may_move(&self, node: NodeId) -> bool {
        self.moving.get(&node).copied().unwrap_or(0) < MOVES_PER_NODE
    }

    /// Whether nothing is on its way, and nobody is missing.
    fn is_at_rest(&self) -> bool {
        let whole = |record: &SliceRecord, volume: &VolumeRecord| {
            record.in_sync().count() == record.replicas.len()
                && record.replicas.len() == volume.policy.copies()
        };
        let active = |node: &&NodeId| self.inventory.is_active(**node);
        let mut nodes = self.inventory.nodes.keys().filter(active);
        self.inventory.wishes.is_empty()
            && nodes.all(|node| self.sight.is_up(*node))
            && self.slices().all(|(record, volume)| whole(record, volume))
    }

    /// Where a slice is to be.
    fn target(
        &mut self,
        record: &SliceRecord,
        wish: Option<&WishRecord>,
        copies: usize,
    ) -> Vec<NodeId> {
        let named = || record.replicas.iter().map(|replica| replica.node);
        let in_sync = |node: &NodeId| record.in_sync().any(|other| other == *node);
        let mut wanted: Vec<NodeId> = wish.map_or_else(|| named().collect(), |it| it.nodes.clone());
        let given_up = |node: &NodeId| self.sight.given_up.contains(&(record.slice, *node));
        // A copy for which there turns out to be no room is not waited for where there is another place, or the
        // one that it was to replace may stay after all.
        let lacks_room = |node: &NodeId| {
            !in_sync(node) && self.sight.lacks_room.contains(&(record.slice, *node))
        };
        if !wanted.iter().all(in_sync) {
            let stuck = wanted.iter().any(lacks_room);
            let back = record.in_sync().filter(|node| stuck || given_up(node));
            let back: Vec<NodeId> = back.filter(|node| !wanted.contains(node)).collect();
            wanted.extend(back);
        }
        let mut nodes: Vec<NodeId> = wanted
            .iter()
            .copied()
            .filter(|node| self.may_hold(*node, record) && !lacks_room(node))
            .collect();
        // The best first: who has it, who leads it, who has begun to get it.
        let is_new = |node: &NodeId| record.replica(*node).is_none();
        let rank = |node: &NodeId| {
            (
                !in_sync(node),
                *node != record.preferred,
                is_new(node),
                *node,
            )
        };
        nodes.sort_by_key(rank);
        nodes.truncate(copies);
        // A drain that was called off, or a repair of a node that is back.
        let mut others: Vec<NodeId> = named().filter(|node| !nodes.contains(node)).collect();
        others.sort_by_key(rank);
        let stay = |node: &NodeId| self.may_hold(*node, record) && !lacks_room(node);
        let missing = copies - nodes.len();
        let back: Vec<NodeId> = others.iter().copied().filter(stay).take(missing).collect();
        nodes.extend(back);
        let good: Vec<NodeId> = others.iter().copied().filter(in_sync).collect();
        while nodes.len() < copies {
            let Some(node) = self.place(record, &nodes) else {
                break;
            };
            // Rather stays a good copy where it is than that as many are closer together.
            let stays = good.iter().copied().filter(|it| !nodes.contains(it));
            let stays: Vec<NodeId> = stays.take(copies - nodes.len()).collect();
            if nodes.len() + stays.len() == copies && self.is_closer(&nodes, node, stays[0]) {
                break;
            }
            self.loads.count_replica(node);
            let bytes = self.coming.entry(node).or_default();
            *bytes = bytes.saturating_add(self.sight.used(record.slice));
            nodes.push(node);
        }
        // Nowhere else: those who should go stay.
        let missing = copies - nodes.len();
        let rest: Vec<NodeId> = others
            .into_iter()
            .filter(|it| !nodes.contains(it))
            .collect();
        nodes.extend(rest.into_iter().take(missing));
        nodes
    }

    /// Whether one more node is in a failure domain of those chosen, and another one would not be.
    fn is_closer(&self, chosen: &[NodeId], node: NodeId, other: NodeId) -> bool {
        let domains = |node: NodeId| {
            let nodes: Vec<NodeId> = chosen.iter().copied().chain([node]).collect();
            Spread::of(self.inventory, &nodes).domains
        };
        domains(node) < domains(other)
    }

    /// Whether a node may keep, or be given, what it was chosen for.
    fn may_hold(&self, node: NodeId, record: &SliceRecord) -> bool {
        let delay = Duration::from_secs(self.inventory.settings.record.repair_delay_seconds);
        let silent = self.sight.silent(node);
        if !self.inventory.nodes.contains_key(&node) {
            return false;
        }
        let standing = match self.inventory.part_of(node) {
            Part::Of(standing @ (NodeStanding::Active | NodeStanding::Maintenance)) => standing,
            _ => return false,
        };
        match record.replica(node).map(|replica| replica.membership) {
            Some(Membership::InSync) => true,
            Some(_) if !self.is_newcomer(node, record) => {
                standing == NodeStanding::Maintenance || silent < delay
            }
            _ => standing == NodeStanding::Active && silent < TARGET_PATIENCE,
        }
    }

    /// Whether a replica was named for a move that is under way, and has nothing of its slice yet.
    fn is_newcomer(&self, node: NodeId, record: &SliceRecord) -> bool {
        let is_empty = record.replica(node).is_some_and(|it| match it.membership {
            Membership::InSync => false,
            Membership::Joining { stable } | Membership::Absent { stable } => {
                stable == Sequence::ZERO
            }
        });
        let wish = self.inventory.wishes.get(&record.slice);
        is_empty
            && wish.is_some_and(|wish| {
                let wished = |node| wish.record.nodes.contains(&node);
                wished(node) && record.replicas.iter().any(|it| !wished(it.node))
            })
    }

    /// Whether what a slice is known to hold fits on a node, beside what is on its way there.
    pub(crate) fn has_room(&self, node: NodeId, slice: SliceId) -> bool {
        let coming = self.coming.get(&node).copied().unwrap_or(0);
        let used = self.sight.used(slice);
        used == 0 || coming.saturating_add(used) <= self.sight.spare(node)
    }

    /// A node for one more replica, up and active: with room; of a failure domain that has none, if there is one, and of a site
    /// that has none; where the least is. A copy in the domain of another one is more than no copy: most of what fails is one
    /// node.
    fn place(&self, record: &SliceRecord, chosen: &[NodeId]) -> Option<NodeId> {
        if !self.may_move(record.primary) {
            return None;
        }
        let fit = |node: NodeId| {
            self.inventory.is_active(node)
                && self.sight.is_up(node)
                && !chosen.contains(&node)
                && record.replica(node).is_none()
                && self.has_room(node, record.slice)
        };
        // If the best one is busy the slice waits: another one would have to give it up again.
        let best = self.loads.best(self.inventory, fit, chosen);
        best.filter(|node| self.may_move(*node))
    }

    /// Who is to lead: the one who was to, if that is among them; else the one who is to lead least.
    fn preferred(
        &mut self,
        record: &SliceRecord,
        wish: Option<&WishRecord>,
        nodes: &[NodeId],
    ) -> NodeId {
        let now = wish.map_or(record.preferred, |wish| wish.preferred);
        if nodes.contains(&now) {
            return now;
        }
        // The one who was to follow it does not come.
        if nodes.contains(&record.preferred) {
            return record.preferred;
        }
        let in_sync = |node: &NodeId| record.in_sync().any(|other| other == *node);
        let load = |node: &NodeId| self.loads.get(*node).map_or(0, |load| load.primaries);
        let active = |node: &NodeId| self.inventory.is_active(*node);
        let best = nodes
            .iter()
            .min_by_key(|node| (!active(node), !in_sync(node), load(node), **node));
        let best = *best.unwrap_or(&record.preferred);
        self.loads.count_primary(best);
        best
    }

    pub(crate) fn load(&self, node: NodeId) -> Option<&Load> {
        self.loads.get(node)
    }
}

/// Bytes of copies on their way to each node, at most: as if nothing of them was there yet.
pub(crate) fn coming(inventory: &Inventory, sight: &Sight) -> BTreeMap<NodeId, u64> {
    let mut coming: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (slice, wish) in &inventory.wishes {
        let record = inventory.slices.get(slice);
        let nodes = record.map_or_else(Vec::new, |record| lacking(&wish.record, record));
        for node in nodes {
            let bytes = coming.entry(node).or_default();
            *bytes = bytes.saturating_add(sight.used(*slice));
        }
    }
    coming
}

/// The nodes that are to hold a slice, and are not in sync.
fn lacking(wish: &WishRecord, record: &SliceRecord) -> Vec<NodeId> {
    let in_sync = |node: &NodeId| record.in_sync().any(|other| other == *node);
    let nodes = wish.nodes.iter().copied();
    nodes.filter(|node| !in_sync(node)).collect()
}

/// The nodes that a wish keeps busy: those that get a replica, and the one that it is copied from.
fn movers(wish: &WishRecord, record: &SliceRecord) -> Vec<NodeId> {
    let mut movers = lacking(wish, record);
    if !movers.is_empty() {
        movers.push(record.primary);
    }
    movers
}

/// The transaction that replaces a wish.
fn step(
    inventory: &Inventory,
    slice: SliceId,
    before: Option<&Versioned<WishRecord>>,
    wish: Option<&WishRecord>,
) -> Option<Transaction> {
    let key = WishRecord::key(slice);
    let volume = inventory.volumes.get(&slice.volume)?;
    let compare = vec![
        as_found(key.clone(), before),
        still_at(VolumeRecord::key(slice.volume), volume.revision),
    ];
    let operation = match wish {
        Some(wish) => put(key, wish),
        None => Operation::Delete(Selector::Key(key)),
    };
    Some(Transaction {
        compare,
        success: vec![operation],
        failure: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
