//! Long work under way, from what the metadata and the nodes say of it anyway: nobody keeps tasks.
//!
//! Invariants:
//! - an id is made of what is done and with what, so that it is the same at every look, through every node.

use holdfast_api::documents::{DeviceState, Node, NodeStanding, Task, TaskKind};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::{SliceRecord, VolumeRecord};

use super::work::{self, Missing};
use super::{name, progress, scrub};
use crate::clock::unix_seconds;
use crate::reports::Reports;

/// Stands between the parts of an id: none of them has it, and a path takes it as it is.
const SEPARATOR: char = '~';

/// Those there are, by their ids.
pub(crate) fn tasks(inventory: &Inventory, reports: &Reports) -> Vec<Task> {
    let mut tasks = creations(inventory);
    for volume in inventory.volumes.values() {
        let volume = &volume.record;
        tasks.extend(scrub_of(inventory, reports, volume));
        for slice in inventory.slices_of(volume) {
            let missing = work::missing(inventory, reports, slice);
            let moves = missing.into_iter().filter(Missing::moves);
            tasks.extend(moves.map(|one| copy(inventory, reports, volume, slice, &one)));
        }
    }
    let nodes = super::nodes(inventory, reports).nodes;
    for node in nodes {
        if node.standing == NodeStanding::Draining && !node.is_drained {
            tasks.push(node_drain(inventory, &node));
        }
        tasks.extend(device_drains(reports, NodeId(node.node), &node.name));
    }
    tasks.sort_by(|left, right| left.id.cmp(&right.id));
    tasks
}

/// One of which nothing else is known.
fn task(kind: TaskKind, parts: &[&str], subject: String) -> Task {
    let mut id = kind.as_str().to_owned();
    for part in parts {
        id.push(SEPARATOR);
        id.push_str(part);
    }
    Task {
        id,
        kind,
        subject,
        volume: None,
        node: None,
        is_waiting: false,
        began_seconds: None,
        bytes_done: None,
        bytes_total: None,
        bytes_left: None,
        bytes_per_second: 0,
        seconds_left: None,
        can_cancel: false,
    }
}

/// Volumes that have a name, and no record yet. One whose making was cut short is among them until it is cleared away.
fn creations(inventory: &Inventory) -> Vec<Task> {
    let names = inventory.names.iter();
    let made = names.filter(|(_, name)| {
        let volume = name.record.volume;
        inventory.makings.contains(&volume) && !inventory.volumes.contains_key(&volume)
    });
    made.map(|(name, _)| Task {
        volume: Some(name.clone()),
        ..task(TaskKind::Creation, &[name], format!("volume {name}"))
    })
    .collect()
}

fn copy(
    inventory: &Inventory,
    reports: &Reports,
    volume: &VolumeRecord,
    slice: &SliceRecord,
    missing: &Missing,
) -> Task {
    // What is wished for is somewhere else than what there is, or was.
    let kind = match inventory.wishes.get(&slice.slice) {
        Some(wish) if wish.record.nodes.contains(&missing.target) => TaskKind::Move,
        _ => TaskKind::Sync,
    };
    let node = name(inventory, missing.target);
    let index = slice.slice.index.to_string();
    let subject = format!("slice {index} of volume {}, to {node}", volume.name);
    let progress = progress(reports, slice, missing.target).filter(|it| it.bytes_total > 0);
    let rate = progress.map_or(0, |progress| progress.bytes_per_second);
    Task {
        volume: Some(volume.name.clone()),
        node: Some(node.clone()),
        is_waiting: progress.is_none(),
        bytes_done: progress.map(|progress| progress.bytes_done),
        bytes_total: progress.map(|progress| progress.bytes_total),
        bytes_left: Some(missing.bytes),
        bytes_per_second: rate,
        seconds_left: work::seconds(missing.bytes, rate),
        ..task(kind, &[&volume.name, &index, &node], subject)
    }
}

fn scrub_of(inventory: &Inventory, reports: &Reports, volume: &VolumeRecord) -> Option<Task> {
    let run = scrub::of(inventory, reports, volume, unix_seconds()).running?;
    let done = run.findings.bytes_read;
    Some(Task {
        volume: Some(volume.name.clone()),
        began_seconds: Some(run.began_seconds),
        bytes_done: Some(done),
        bytes_total: Some(done.saturating_add(run.bytes_left)),
        bytes_left: Some(run.bytes_left),
        bytes_per_second: run.bytes_per_second,
        seconds_left: run.seconds_left,
        ..task(
            TaskKind::Scrub,
            &[&volume.name],
            format!("volume {}", volume.name),
        )
    })
}

fn node_drain(inventory: &Inventory, node: &Node) -> Task {
    let work = node.to_move;
    let begun = inventory.drains.get(&NodeId(node.node));
    let begun = begun.map(|record| record.bytes);
    let [bytes_done, bytes_total] = part_done(begun, work.bytes_left);
    Task {
        node: Some(node.name.clone()),
        is_waiting: work.bytes_per_second == 0,
        bytes_done,
        bytes_total,
        bytes_left: Some(work.bytes_left),
        bytes_per_second: work.bytes_per_second,
        seconds_left: work.seconds_left,
        can_cancel: true,
        ..task(
            TaskKind::NodeDrain,
            &[&node.name],
            format!("node {}", node.name),
        )
    }
}

/// What is done, and all of it, by what there was at the beginning, if that is known. Hosts may have written more since.
fn part_done(begun: Option<u64>, left: u64) -> [Option<u64>; 2] {
    let total = begun.map(|begun| begun.max(left));
    [total.map(|total| total - left), total]
}

fn device_drains(reports: &Reports, node: NodeId, name: &str) -> Vec<Task> {
    let devices = reports.devices(node).iter();
    let going = devices
        .filter(|device| matches!(device.state, DeviceState::Draining | DeviceState::Leaving));
    going
        .map(|device| {
            let number = device.number.to_string();
            let subject = format!("device {number} of node {name} ({})", device.path);
            let [bytes_done, bytes_total] = part_done(device.drain_bytes, device.used_bytes);
            Task {
                node: Some(name.to_owned()),
                is_waiting: device.bytes_per_second == 0,
                bytes_done,
                bytes_total,
                bytes_left: Some(device.used_bytes),
                bytes_per_second: device.bytes_per_second,
                seconds_left: device.seconds_left,
                can_cancel: !device.is_absent,
                ..task(TaskKind::DeviceDrain, &[name, &number], subject)
            }
        })
        .collect()
}
