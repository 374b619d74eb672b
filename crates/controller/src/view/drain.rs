//! What keeps the drain of a node from going on.
//!
//! It repeats what `control` plans by, for people: a plan is made by whoever steers. A drain that goes on by
//! itself, slice after slice, is told nothing of here.
//!
//! Invariants:
//! - a slice that is on its way to another node is not said to be stuck;
//! - what a slice holds is looked at by itself: what other slices take on their way is not counted.

use std::collections::BTreeMap;

use holdfast_api::documents::{Remedy, Wait};
use holdfast_control::{Inventory, may_replace};
use holdfast_model::NodeId;
use holdfast_model::record::SliceRecord;

use super::device_findings::quantity;
use super::explain::{add_elsewhere, add_node, remedy, wait};
use super::{is_served, last, name, slice_used_bytes};
use crate::reports::Reports;

/// Why a slice cannot leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// Nothing on the node is relied on, and no other node that is there has a good copy.
    LastCopy,
    /// Nobody serves it: there is nothing to copy from, and the copy here may be the last good one.
    NotServed,
    /// Every node that is up and takes replicas has one of it, or there is none.
    TooFew,
    /// Every other one that has none is in the failure domain of one that has one.
    TooFewDomains,
    /// None of the nodes that could have it has room for it.
    NoRoom,
}

/// Slices with the same obstacle, of which the one that holds most is told.
struct Stuck {
    slices: u32,
    volume: String,
    index: u32,
    bytes: u64,
    /// What copies may take where that is most, of the nodes that could have the slice.
    free: u64,
}

/// What a drain waits for that does not come by itself, and what an operator may do about it.
pub(crate) fn obstacles(
    inventory: &Inventory,
    reports: &Reports,
    node: NodeId,
) -> (Vec<Wait>, Vec<Remedy>) {
    let mut found: BTreeMap<Obstacle, Stuck> = BTreeMap::new();
    for record in inventory.slices_on(node) {
        let Some((obstacle, free)) = obstacle(inventory, reports, record, node) else {
            continue;
        };
        let stuck = Stuck {
            slices: 1,
            volume: volume_name(inventory, record),
            index: record.slice.index,
            bytes: slice_used_bytes(reports, record).unwrap_or(0),
            free,
        };
        match found.get_mut(&obstacle) {
            None => {
                found.insert(obstacle, stuck);
            }
            Some(before) => {
                let slices = before.slices.saturating_add(1);
                if stuck.bytes > before.bytes {
                    *before = stuck;
                }
                before.slices = slices;
            }
        }
    }
    let waits = found.iter().map(|(obstacle, stuck)| told(*obstacle, stuck));
    let mut remedies: Vec<Remedy> = Vec::new();
    if found.contains_key(&Obstacle::LastCopy) {
        let volumes = last::volumes(inventory, reports, node);
        remedies.push(last::bring_back(&name(inventory, node), &volumes));
        remedies.push(last::give_up());
    }
    for remedy in found.keys().flat_map(|obstacle| done_about(*obstacle)) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    (waits.collect(), remedies)
}

/// What keeps a slice on a node, and what is free where it could go.
fn obstacle(
    inventory: &Inventory,
    reports: &Reports,
    record: &SliceRecord,
    node: NodeId,
) -> Option<(Obstacle, u64)> {
    if !is_served(reports, record) {
        let is_last = reports.absence(node).is_some() && last::is_on(reports, record, node);
        if is_last {
            return Some((Obstacle::LastCopy, 0));
        }
        return Some((Obstacle::NotServed, 0));
    }
    let wish = inventory.wishes.get(&record.slice);
    if wish.is_some_and(|wish| !wish.record.nodes.contains(&node)) {
        return None;
    }
    let takes = |other: &&NodeId| inventory.is_active(**other) && record.replica(**other).is_none();
    let others = inventory.nodes.keys().filter(takes);
    let others: Vec<NodeId> = others
        .copied()
        .filter(|it| reports.seen(*it).is_some())
        .collect();
    let fits = |other: &&NodeId| may_replace(inventory, record, node, **other);
    let apart = others.iter().filter(fits);
    let seen = apart.filter_map(|other| reports.seen(*other));
    let free = seen.map(|seen| seen.spare_bytes());
    match free.max() {
        None if others.is_empty() => Some((Obstacle::TooFew, 0)),
        None => Some((Obstacle::TooFewDomains, 0)),
        Some(free) => {
            let used = slice_used_bytes(reports, record).unwrap_or(0);
            (used > free).then_some((Obstacle::NoRoom, free))
        }
    }
}

fn volume_name(inventory: &Inventory, record: &SliceRecord) -> String {
    let volume = inventory.volumes.get(&record.slice.volume);
    volume.map_or_else(
        || record.slice.volume.to_string(),
        |volume| volume.record.name.clone(),
    )
}

fn told(obstacle: Obstacle, stuck: &Stuck) -> Wait {
    let Stuck {
        slices,
        volume,
        index,
        bytes,
        free,
    } = stuck;
    let it = match slices {
        1 => format!("slice {index} of {volume}"),
        _ => format!("{slices} slices, as slice {index} of {volume}"),
    };
    wait(match obstacle {
        Obstacle::LastCopy => format!(
            "{it}, which cannot move: this node has a good copy, no other node that is there has one, and there is nothing to copy \
             from until this node is back"
        ),
        Obstacle::NotServed => format!(
            "{it}, to be served again: there is nothing to copy from, and the copy here may be the last \
             good one"
        ),
        Obstacle::TooFew => format!(
            "one more node for {it}: each other node that is up and takes replicas has a copy"
        ),
        Obstacle::TooFewDomains => format!(
            "a node of another failure domain for {it}: each that has no copy is in the domain of one that has one"
        ),
        Obstacle::NoRoom => format!(
            "room for {it}: it holds {}, and no node that may have it has more than {} to spare",
            quantity(*bytes),
            quantity(free - free % (1 << 20))
        ),
    })
}

fn done_about(obstacle: Obstacle) -> Vec<Remedy> {
    match obstacle {
        // That names the volumes.
        Obstacle::LastCopy => Vec::new(),
        Obstacle::NotServed => vec![remedy(
            "bring back what the volumes wait for, which is told with them; the node has to stay until then",
        )],
        Obstacle::TooFew => vec![add_node()],
        Obstacle::TooFewDomains => vec![add_elsewhere()],
        Obstacle::NoRoom => vec![
            Remedy {
                what: "add a device to a node that has no copy".to_owned(),
                command: Some("holdfast device add NODE PATH".to_owned()),
            },
            add_node(),
        ],
    }
}
