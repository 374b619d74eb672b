//! Whether an order about a node may be obeyed: what is lost by it, and whether the others have places for what it holds.
//!
//! Invariants:
//! - whatever is refused is refused for volumes that are named, or for bytes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use holdfast_model::record::{NodeStanding, SliceRecord};
use holdfast_model::{NodeId, SliceId};

use super::{Part, Refusal, Sight, is_draining};
use crate::placement::Spread;
use crate::steer::coming;
use crate::{Inventory, may_replace};

/// The names of the volumes of slices for which something holds.
fn volumes_where<'a>(
    inventory: &'a Inventory,
    node: NodeId,
    holds: impl Fn(&SliceRecord) -> bool + 'a,
) -> Vec<String> {
    let slices = inventory.slices_on(node).filter(|slice| holds(slice));
    let names: BTreeSet<String> = slices.map(|it| inventory.volume_name(it.slice)).collect();
    names.into_iter().collect()
}

pub(super) fn check_drain(
    inventory: &Inventory,
    sight: &Sight,
    node: NodeId,
) -> Result<(), Refusal> {
    let others = inventory
        .nodes
        .keys()
        .filter(|other| **other != node && inventory.is_active(**other) && sight.is_up(**other));
    let others: Vec<NodeId> = others.copied().collect();
    let copies = |slice: &SliceRecord| {
        let volume = inventory.volumes.get(&slice.slice.volume);
        volume.map_or(0, |volume| volume.record.policy.copies())
    };
    let lacking = volumes_where(inventory, node, |slice| copies(slice) > others.len());
    if !lacking.is_empty() {
        return Err(Refusal::TooFewNodes(lacking));
    }
    // What shares a domain already is not refused to share one elsewhere, nor is what is lost.
    let with_it: Vec<NodeId> = others.iter().copied().chain([node]).collect();
    let now = Spread::of(inventory, &with_it).domains;
    let then = Spread::of(inventory, &others).domains;
    let lacking = volumes_where(inventory, node, |slice| {
        let is_good = slice.in_sync().any(|it| it == node);
        is_good && copies(slice).min(now) > then
    });
    if !lacking.is_empty() {
        return Err(Refusal::TooFewDomains(lacking));
    }
    check_room(inventory, sight, node, &others)
}

/// There is room on the others for all that a node holds, and each slice fits on one of them that does not
/// hold it. What a node that does not answer holds is known by the other copies.
fn check_room(
    inventory: &Inventory,
    sight: &Sight,
    node: NodeId,
    others: &[NodeId],
) -> Result<(), Refusal> {
    let seen = |node: &NodeId| sight.nodes.get(node).copied().unwrap_or_default();
    let slices: Vec<&SliceRecord> = inventory.slices_on(node).collect();
    if slices.is_empty() {
        return Ok(());
    }
    let copies = slices.iter().map(|slice| sight.used(slice.slice));
    let copies = copies.fold(0, u64::saturating_add);
    let full = seen(&node).bytes - seen(&node).free_bytes.min(seen(&node).bytes);
    let needed = copies.max(full);
    let free = others.iter().map(|other| seen(other).free_bytes);
    let free = free.fold(0, u64::saturating_add);
    if needed > free {
        return Err(Refusal::NoRoom { needed, free });
    }
    let mut room = RoomLeft::new(inventory, sight, others);
    // What other drains need is theirs, also where it will turn out to be too little.
    let draining = |other: &&NodeId| **other != node && is_draining(inventory, **other);
    for other in inventory.nodes.keys().filter(draining) {
        for (bytes, slice) in leaving(inventory, sight, *other) {
            let _ = room.take(bytes, slice, *other);
        }
    }
    for (bytes, slice) in leaving(inventory, sight, node) {
        room.take(bytes, slice, node)
            .map_err(|left| Refusal::NoRoomFor {
                volume: inventory.volume_name(slice.slice),
                bytes,
                left,
            })?;
    }
    Ok(())
}

/// What of a node has no other place yet, the largest first.
fn leaving<'a>(
    inventory: &'a Inventory,
    sight: &Sight,
    node: NodeId,
) -> Vec<(u64, &'a SliceRecord)> {
    let stays = |slice: &&SliceRecord| {
        let wish = inventory.wishes.get(&slice.slice);
        wish.is_none_or(|wish| wish.record.nodes.contains(&node))
    };
    let slices = inventory.slices_on(node).filter(stays);
    let mut slices: Vec<_> = slices
        .map(|slice| (sight.used(slice.slice), slice))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    slices.sort_by_key(|(bytes, slice)| (core::cmp::Reverse(*bytes), slice.slice));
    slices
}

/// What is left on nodes for slices that move, besides what is on its way to them.
struct RoomLeft<'a> {
    inventory: &'a Inventory,
    bytes: BTreeMap<NodeId, u64>,
    taken: BTreeSet<(SliceId, NodeId)>,
}

impl<'a> RoomLeft<'a> {
    fn new(inventory: &'a Inventory, sight: &Sight, nodes: &[NodeId]) -> Self {
        let coming = coming(inventory, sight);
        let left = |node: &NodeId| {
            let coming = coming.get(node).copied().unwrap_or(0);
            sight.spare(*node).saturating_sub(coming)
        };
        Self {
            inventory,
            bytes: nodes.iter().map(|node| (*node, left(node))).collect(),
            taken: BTreeSet::new(),
        }
    }

    /// Takes room for a slice's copy that leaves a node, where the most is left.
    ///
    /// # Errors
    /// What is left there, if that is too little.
    fn take(&mut self, bytes: u64, slice: &SliceRecord, from: NodeId) -> Result<(), u64> {
        let Self {
            inventory,
            bytes: room,
            taken,
        } = self;
        let places = room.iter_mut().filter(|(node, _)| {
            slice.replica(**node).is_none()
                && !taken.contains(&(slice.slice, **node))
                && may_replace(inventory, slice, from, **node)
        });
        let best = places.max_by_key(|(node, left)| (**left, core::cmp::Reverse(**node)));
        let (node, left) = best.ok_or(0u64)?;
        if *left < bytes {
            return Err(*left);
        }
        *left -= bytes;
        taken.insert((slice.slice, *node));
        Ok(())
    }
}

/// Every slice of the node keeps as many good copies that answer as writes need, and one at least.
pub(super) fn check_maintenance(
    inventory: &Inventory,
    sight: &Sight,
    node: NodeId,
) -> Result<(), Refusal> {
    let stays = |other: &NodeId| {
        let part = inventory.part_of(*other);
        let aside = part == Part::Of(NodeStanding::Maintenance);
        *other != node && sight.is_up(*other) && !aside
    };
    let lacking = volumes_where(inventory, node, |slice| {
        let needed = usize::from(slice.copies_min).max(1);
        let good = slice.in_sync().filter(stays).count();
        // Of one good copy that has bad blocks the node may hold the only good ones.
        good < needed || (good == 1 && sight.bad.contains(&slice.slice))
    });
    if lacking.is_empty() {
        Ok(())
    } else {
        Err(Refusal::LastCopies(lacking))
    }
}

pub(super) fn check_remove(inventory: &Inventory, node: NodeId) -> Result<(), Refusal> {
    let held = inventory.held_by(node);
    if held.is_empty() {
        return Ok(());
    }
    let volumes = held.iter().map(|slice| inventory.volume_name(*slice));
    let volumes: BTreeSet<String> = volumes.collect();
    Err(Refusal::Holds {
        slices: held.len(),
        volumes: volumes.into_iter().collect(),
    })
}
