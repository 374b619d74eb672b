//! Documents from what the metadata holds and what the nodes say.
//!
//! The two are read one after the other, so a report may be older or newer than the records. Who is
//! in sync is taken from the records, who serves from the reports.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{
    AbsentReplica, Alert, DeviceState, DeviceTier, Health, Joining, LocalJoining, LocalMetadata,
    Node, NodeCounts, NodeDetails, NodeList, NodeSlice, NodeStanding, NodeState, ReplicaRole,
    Resync, Room, Severity, Slice, Status, SyncWork, TierRoom, ToMove, Volume, VolumeCounts,
    VolumeList, VolumeSummary,
};
use holdfast_control::{Inventory, Part};
use holdfast_model::record::{
    Membership, NodeRecord, NodeStanding as Wanted, SliceRecord, VolumeRecord,
};
use holdfast_model::{NodeId, Policy, SliceId};

use crate::clock::unix_seconds;
use crate::reports::{Absence, Reports};
use crate::tags::Tagged;

mod absence;
mod alarms;
mod alerts;
mod assessed;
mod bad_blocks;
mod causes;
mod changes;
mod crowded;
mod device_findings;
mod drain;
mod explain;
mod holders;
mod lacking;
pub(crate) mod last;
mod metadata;
mod node_findings;
mod prospect;
mod protection;
mod scrub;
mod served;
mod tasks;
mod work;

use alerts::Alerts;
use served::{is_served, server};
use work::{Missing, MissingState};

pub(crate) use alarms::{Progress, alarm_observations, in_maintenance, nobody_follows, timestamp};
pub(crate) use changes::{Change, Snapshot, in_words, span};
pub(crate) use explain::{explain, unreached};
pub(crate) use served::empty;
pub(crate) use tasks::tasks;

pub(crate) fn status(inventory: &Inventory, reports: &Reports) -> Status {
    let (status, alerts) = status_and_alerts(inventory, reports);
    Status {
        alerts: alerts.all(),
        ..status
    }
}

/// How the cluster is, without its alerts, and these.
fn status_and_alerts(inventory: &Inventory, reports: &Reports) -> (Status, Alerts) {
    let assessed = assessed::all(inventory, reports);
    let explanation = explain::explained(inventory, reports, &assessed);
    let mut health = alerts::health(&explanation);
    let mut alerts = alerts::of(inventory, &explanation, reports);
    if inventory.nodes.is_empty() {
        health = Health::Unavailable;
        alerts.add([Alert {
            severity: Severity::Error,
            subject: "cluster".to_owned(),
            detail: "no node has registered yet: start the nodes".to_owned(),
        }]);
    }
    let (nodes, pool) = nodes_up(inventory, reports);
    let mut volumes = VolumeCounts::default();
    for volume in &assessed {
        let of_volume = volume.health();
        health = health.max(of_volume);
        let alert = volume_alert(volume.volume, &volume.healths);
        alerts.add_of_state(alert.map(|alert| lacking::explained(inventory, volume, alert)));
        alerts.add(crowded::alerts(volume));
        volumes.total += 1;
        match of_volume {
            Health::Healthy => volumes.healthy += 1,
            Health::Degraded => volumes.degraded += 1,
            Health::Unavailable => volumes.unavailable += 1,
        }
    }
    let status = Status {
        cluster: inventory.cluster.record.cluster.to_string(),
        health,
        nodes,
        metadata_members: metadata::counts(reports),
        volumes,
        pool,
        tiers: tiers(inventory, reports),
        promised_bytes: promised_bytes_of(inventory),
        protection: explanation.protection,
        alerts: Vec::new(),
        revision: inventory.revision.0,
    };
    (status, alerts)
}

/// What volumes promise, with their copies.
fn promised_bytes_of(inventory: &Inventory) -> u64 {
    let records = inventory.volumes.values().map(|volume| &volume.record);
    let promised = records.map(|record| record.bytes.saturating_mul(record.policy.copies() as u64));
    promised.fold(0, u64::saturating_add)
}

/// The nodes of the cluster, counted, and the room on those that are up, and are not to go.
fn nodes_up(inventory: &Inventory, reports: &Reports) -> (NodeCounts, Room) {
    let (mut nodes, mut pool) = (NodeCounts::default(), Room::default());
    for node in inventory.nodes.keys() {
        let standing = standing(inventory, *node);
        if matches!(standing, NodeStanding::Removed | NodeStanding::Waiting) {
            continue;
        }
        nodes.total += 1;
        nodes.in_maintenance += u32::from(standing == NodeStanding::Maintenance);
        let takes_part = reports.takes_part(*node);
        nodes.up += u32::from(takes_part);
        nodes.not_ready += u32::from(reports.is_up(*node) && !takes_part);
        let is_to_go = standing == NodeStanding::Draining;
        nodes.draining += u32::from(is_to_go);
        if let Some(room) = reports.room(*node).filter(|_| !is_to_go) {
            pool.bytes = pool.bytes.saturating_add(room.bytes);
            pool.used_bytes = pool.used_bytes.saturating_add(room.used_bytes);
        }
    }
    (nodes, pool)
}

/// The room on devices that take data, of the same nodes, by class. A class of which there is none is left out.
fn tiers(inventory: &Inventory, reports: &Reports) -> Vec<TierRoom> {
    let takes_data = |node: &&NodeId| {
        let standing = standing(inventory, **node);
        matches!(standing, NodeStanding::Active | NodeStanding::Maintenance)
    };
    let devices = inventory.nodes.keys().filter(takes_data);
    let devices = devices.flat_map(|node| reports.devices(*node));
    let in_use = devices.filter(|it| it.state == DeviceState::InUse && !it.is_absent);
    let mut tiers = [DeviceTier::Flash, DeviceTier::Capacity].map(|tier| TierRoom {
        tier,
        ..TierRoom::default()
    });
    for device in in_use {
        let of_it = tiers.iter_mut().filter(|it| it.tier == device.tier);
        for TierRoom { devices, room, .. } in of_it {
            *devices += 1;
            room.bytes = room.bytes.saturating_add(device.bytes);
            room.used_bytes = room.used_bytes.saturating_add(device.used_bytes);
        }
    }
    tiers.into_iter().filter(|it| it.devices > 0).collect()
}

/// What a node is to the cluster.
fn standing(inventory: &Inventory, node: NodeId) -> NodeStanding {
    match inventory.part_of(node) {
        Part::Waiting => NodeStanding::Waiting,
        Part::Of(Wanted::Active) => NodeStanding::Active,
        Part::Of(Wanted::Maintenance) => NodeStanding::Maintenance,
        Part::Of(Wanted::Draining) => NodeStanding::Draining,
        Part::Of(Wanted::Removed) => NodeStanding::Removed,
    }
}

/// Whether a node's replica of a slice is to go, or to be rebuilt elsewhere.
fn leaves(inventory: &Inventory, node: NodeId, slice: &SliceRecord) -> bool {
    let wish = inventory.wishes.get(&slice.slice);
    let part = inventory.part_of(node);
    matches!(part, Part::Of(Wanted::Draining | Wanted::Removed))
        || wish.is_some_and(|wish| !wish.record.nodes.contains(&node))
}

/// A node, and what is on it.
pub(crate) fn node_details(inventory: &Inventory, reports: &Reports, node: NodeId) -> NodeDetails {
    let slices = inventory.slices_on(node).map(|record| {
        let id = record.slice;
        let membership = record.replica(node).map(|replica| replica.membership);
        let role = match membership {
            Some(Membership::InSync) if record.primary == node => ReplicaRole::Primary,
            Some(Membership::InSync) => ReplicaRole::InSync,
            Some(Membership::Joining { .. }) => ReplicaRole::Joining,
            Some(Membership::Absent { .. }) | None => ReplicaRole::Absent,
        };
        NodeSlice {
            volume: inventory.volumes[&id.volume].record.name.clone(),
            index: id.index,
            role,
            bytes_lacking: match role {
                ReplicaRole::Primary | ReplicaRole::InSync => None,
                ReplicaRole::Joining | ReplicaRole::Absent => {
                    work::lacking_bytes(inventory, reports, record, node)
                }
            },
            used_bytes: slice_used_bytes(reports, record),
            leaves: leaves(inventory, node, record),
        }
    });
    let mut slices: Vec<_> = slices.collect();
    slices.sort_by(|one, other| (&one.volume, one.index).cmp(&(&other.volume, other.index)));
    let held = all_held(inventory, reports).remove(&node);
    NodeDetails {
        node: node_document(
            inventory,
            reports,
            &inventory.nodes[&node],
            &held.unwrap_or_default(),
            &all_missing(inventory, reports),
        ),
        slices,
    }
}

/// What there is to know about a volume whose slices are so.
fn volume_alert(volume: &VolumeRecord, slices: &[Health]) -> Option<Alert> {
    let worst = worst_of(slices);
    let (severity, what) = match worst {
        Health::Healthy => return None,
        Health::Degraded => {
            let what = [
                "has fewer good copies than its policy says",
                "have fewer good copies than the policy says",
            ];
            (Severity::Warning, what)
        }
        Health::Unavailable => (Severity::Error, ["is not served", "are not served"]),
    };
    let count = slices.iter().filter(|health| **health == worst).count();
    Some(Alert {
        severity,
        subject: format!("volume {}", volume.name),
        detail: some_of(count as u64, slices.len() as u64, what),
    })
}

/// How many of a volume's slices are so, in words: `what` is that of one, and of several.
fn some_of(count: u64, slices: u64, what: [&str; 2]) -> String {
    match (count, slices) {
        (_, 1) => format!("its only slice {}", what[0]),
        (1, _) => format!("1 of {slices} slices {}", what[0]),
        _ => format!("{count} of {slices} slices {}", what[1]),
    }
}

pub(crate) fn nodes(inventory: &Inventory, reports: &Reports) -> NodeList {
    let missing = all_missing(inventory, reports);
    let held = all_held(inventory, reports);
    let nothing = Held::default();
    let nodes = inventory.nodes.values().map(|record| {
        let held = held.get(&record.node).unwrap_or(&nothing);
        node_document(inventory, reports, record, held, &missing)
    });
    NodeList {
        nodes: nodes.collect(),
        next: None,
    }
}

/// What a node has of slices.
#[derive(Default)]
struct Held<'a> {
    replicas: u32,
    /// Those that it leads, and that somebody serves.
    primaries: u32,
    /// Those that are to go.
    leaving: Vec<&'a SliceRecord>,
}

/// The same of all nodes: slices are looked at once, for there may be thousands.
fn all_held<'a>(inventory: &'a Inventory, reports: &Reports) -> BTreeMap<NodeId, Held<'a>> {
    let mut all: BTreeMap<NodeId, Held<'a>> = BTreeMap::new();
    let volumes = inventory.volumes.values();
    for slice in volumes.flat_map(|volume| inventory.slices_of(&volume.record)) {
        if is_served(reports, slice) {
            all.entry(slice.primary).or_default().primaries += 1;
        }
        for replica in &slice.replicas {
            let held = all.entry(replica.node).or_default();
            held.replicas += 1;
            if leaves(inventory, replica.node, slice) {
                held.leaving.push(slice);
            }
        }
    }
    all
}

/// What all slices lack of what they are to have.
fn all_missing(inventory: &Inventory, reports: &Reports) -> Vec<Missing> {
    let volumes = inventory.volumes.values();
    let slices = volumes.flat_map(|volume| inventory.slices_of(&volume.record));
    slices
        .flat_map(|slice| work::missing(inventory, reports, slice))
        .collect()
}

fn node_document(
    inventory: &Inventory,
    reports: &Reports,
    record: &NodeRecord,
    held: &Held<'_>,
    missing: &[Missing],
) -> Node {
    let node = record.node;
    let sent = missing
        .iter()
        .filter(|one| one.moves() && one.source == Some(node));
    let received = missing
        .iter()
        .filter(|one| one.state == MissingState::Moves && one.target == node);
    let absence = reports.absence(node);
    let standing = standing(inventory, node);
    let is_drained = standing == NodeStanding::Draining && inventory.held_by(node).is_empty();
    Node {
        name: record.name.clone(),
        node: node.0,
        state: match &absence {
            None => NodeState::Up,
            Some(_) => NodeState::Down,
        },
        answers: reports.is_up(node),
        stopped: absence == Some(Absence::Stopped),
        metadata_believed: reports.metadata(node).and_then(LocalMetadata::is_believed),
        awaited_device: match absence {
            Some(Absence::Awaits(device, _)) => Some(device),
            _ => None,
        },
        portal: record.portal.clone(),
        api: record.api.clone(),
        incarnation: record.incarnation.0,
        replicas: held.replicas,
        primaries: held.primaries,
        sessions: reports.sessions_at(node),
        room: reports.room(node),
        work_per_second: reports.work_at(node),
        standing,
        is_drained,
        site: inventory.site_of(node).map(str::to_owned),
        failure_domain: inventory.domain_of(node).map(str::to_owned),
        to_move: to_move((inventory, reports), node, &held.leaving, missing),
        to_send: at_rate(sent, reports.send_rate(node)),
        to_receive: at_rate(received, reports.receive_rate(node)),
        etag: Tagged::Node(node).tag(inventory),
        versions: reports.versions(node).cloned(),
    }
}

/// What has to go from a node, as fast as copies of it are made elsewhere.
fn to_move(
    (inventory, reports): (&Inventory, &Reports),
    node: NodeId,
    leaving: &[&SliceRecord],
    missing: &[Missing],
) -> ToMove {
    let ids: BTreeSet<SliceId> = leaving.iter().map(|slice| slice.slice).collect();
    let copies = missing
        .iter()
        .filter(|one| one.moves() && ids.contains(&one.slice));
    let mut left: BTreeMap<SliceId, u64> = BTreeMap::new();
    for copy in copies.clone() {
        let bytes = left.entry(copy.slice).or_default();
        *bytes = copy.bytes.max(*bytes);
    }
    let mut to_move = ToMove {
        bytes_per_second: work::sum(reports, copies).bytes_per_second,
        ..ToMove::default()
    };
    for slice in leaving {
        let used = slice_used_bytes(reports, slice).unwrap_or(0);
        to_move.slices = to_move.slices.saturating_add(1);
        to_move.bytes = to_move.bytes.saturating_add(used);
        // What has no place yet is copied as a whole, and what others have only is to be let go.
        let is_copied = inventory.wishes.get(&slice.slice).is_some_and(|wish| {
            let nodes = &wish.record.nodes;
            let has_it = |other: &NodeId| slice.in_sync().any(|it| it == *other);
            !nodes.contains(&node) && nodes.iter().all(has_it)
        });
        let left = match left.get(&slice.slice) {
            Some(left) => *left,
            None if is_copied => 0,
            None => used,
        };
        to_move.bytes_left = to_move.bytes_left.saturating_add(left);
    }
    // What nobody serves there is nothing to copy from, however little it is known to hold.
    let all_move = leaving.iter().all(|slice| is_served(reports, slice));
    if all_move {
        to_move.seconds_left = work::seconds(to_move.bytes_left, to_move.bytes_per_second);
    }
    to_move
}

/// What has to be copied, as fast as that goes.
fn at_rate<'a>(missing: impl Iterator<Item = &'a Missing>, bytes_per_second: u64) -> SyncWork {
    let mut work = SyncWork {
        bytes_per_second,
        ..SyncWork::default()
    };
    for one in missing {
        work.replicas = work.replicas.saturating_add(1);
        work.bytes = work.bytes.saturating_add(one.bytes);
    }
    work.seconds_left = work::seconds(work.bytes, bytes_per_second);
    work
}

pub(crate) fn volumes(inventory: &Inventory, reports: &Reports) -> VolumeList {
    let summary = |record: &VolumeRecord| VolumeSummary {
        name: record.name.clone(),
        volume: record.volume.0,
        bytes: record.bytes,
        used_bytes: used_bytes(inventory, reports, record),
        policy: record.policy,
        health: volume_health(inventory, reports, record),
        target: record.target.clone(),
        lun: record.lun,
        sessions: reports.sessions_with(record.volume),
        etag: Tagged::Volume(record.volume).tag(inventory),
    };
    let mut volumes: Vec<_> = inventory
        .volumes
        .values()
        .map(|volume| summary(&volume.record))
        .collect();
    volumes.sort_by(|left, right| left.name.cmp(&right.name));
    VolumeList {
        volumes,
        next: None,
    }
}

pub(crate) fn volume(inventory: &Inventory, reports: &Reports, record: &VolumeRecord) -> Volume {
    let slices = inventory
        .slices_of(record)
        .map(|slice| slice_document(inventory, reports, slice));
    Volume {
        name: record.name.clone(),
        bytes: record.bytes,
        used_bytes: used_bytes(inventory, reports, record),
        policy: record.policy,
        health: volume_health(inventory, reports, record),
        slices: slices.collect(),
        resync: Resync {
            bytes_moved: bytes_moved(inventory, reports, record),
            work: volume_work(inventory, reports, record),
        },
        scrub: scrub::of(inventory, reports, record, unix_seconds()),
        access: Some(crate::access::of(inventory, record)),
        etag: Tagged::Volume(record.volume).tag(inventory),
    }
}

/// What is left to be copied of a volume, at the rate at which its own replicas are brought up to date.
fn volume_work(inventory: &Inventory, reports: &Reports, record: &VolumeRecord) -> SyncWork {
    let slices = || inventory.slices_of(record);
    let missing: Vec<Missing> = slices()
        .flat_map(|slice| work::missing(inventory, reports, slice))
        .collect();
    let joining = slices().flat_map(|slice| {
        let progress = |node| progress(reports, slice, node);
        slice.joining().filter_map(progress)
    });
    let rate = joining.map(|joining| joining.bytes_per_second);
    let work = at_rate(missing.iter(), rate.fold(0, u64::saturating_add));
    let all_move = missing.iter().all(Missing::moves);
    SyncWork {
        seconds_left: work.seconds_left.filter(|_| all_move),
        ..work
    }
}

/// What a node is called.
fn name(inventory: &Inventory, node: NodeId) -> String {
    let found = inventory.nodes.get(&node);
    found.map_or_else(|| node.to_string(), |found| found.name.clone())
}

fn slice_document(inventory: &Inventory, reports: &Reports, record: &SliceRecord) -> Slice {
    let name = |node: NodeId| name(inventory, node);
    let joining = record.joining().map(|node| {
        let progress = progress(reports, record, node).copied();
        let progress = progress.unwrap_or_default();
        let left = progress.bytes_total.saturating_sub(progress.bytes_done);
        Joining {
            node: name(node),
            bytes_done: progress.bytes_done,
            bytes_total: progress.bytes_total,
            bytes_per_second: progress.bytes_per_second,
            seconds_left: work::seconds(left, progress.bytes_per_second)
                .filter(|_| progress.bytes_total > 0),
        }
    });
    let missing = work::missing(inventory, reports, record);
    let (lost, in_sync): (Vec<NodeId>, Vec<NodeId>) = record
        .in_sync()
        .partition(|node| holders::has_lost(reports, record, *node));
    let absent = missing
        .into_iter()
        .map(|one| one.target)
        .chain(lost)
        .filter(|node| !record.joining().any(|other| other == *node))
        .map(|node| AbsentReplica {
            node: name(node),
            bytes_lacking: work::lacking_bytes(inventory, reports, record, node),
        });
    Slice {
        index: record.slice.index,
        epoch: record.epoch.0,
        primary: name(record.primary),
        served: is_served(reports, record),
        in_sync: in_sync.into_iter().map(name).collect(),
        joining: joining.collect(),
        absent: absent.collect(),
    }
}

fn slice_health(reports: &Reports, record: &SliceRecord, policy: Policy) -> Health {
    if !is_served(reports, record) {
        return Health::Unavailable;
    }
    let all_up = record.in_sync().all(|node| reports.takes_part(node));
    let all_good = reports
        .replicas(record.slice)
        .filter(|(node, _)| record.in_sync().any(|other| other == *node))
        .all(|(_, slice)| slice.bad_blocks == 0);
    if all_up && all_good && record.in_sync().count() >= policy.copies() {
        Health::Healthy
    } else {
        Health::Degraded
    }
}

fn volume_health(inventory: &Inventory, reports: &Reports, record: &VolumeRecord) -> Health {
    worst_of(&slice_healths(inventory, reports, record))
}

fn slice_healths(inventory: &Inventory, reports: &Reports, record: &VolumeRecord) -> Vec<Health> {
    let slices = inventory.slices_of(record);
    let healths = slices.map(|slice| slice_health(reports, slice, record.policy));
    healths.collect()
}

fn worst_of(slices: &[Health]) -> Health {
    slices.iter().copied().max().unwrap_or(Health::Unavailable)
}

/// How far a replica is that the record takes for joining.
fn progress<'a>(
    reports: &'a Reports,
    record: &SliceRecord,
    node: NodeId,
) -> Option<&'a LocalJoining> {
    let (_, server) = server(reports, record)?;
    server.joining.iter().find(|joining| joining.node == node.0)
}

/// What was copied to bring replicas up to date: in syncs that have ended, as the records say, and in
/// those under way.
fn bytes_moved(inventory: &Inventory, reports: &Reports, record: &VolumeRecord) -> u64 {
    let moved = |slice: &SliceRecord| {
        let joining = slice.joining();
        let under_way = joining.filter_map(|node| progress(reports, slice, node));
        slice.bytes_moved + under_way.map(|joining| joining.bytes_moved).sum::<u64>()
    };
    inventory.slices_of(record).map(moved).sum()
}

/// What the serving replicas hold; where none serves, what the fullest of those in sync does.
fn used_bytes(inventory: &Inventory, reports: &Reports, record: &VolumeRecord) -> Option<u64> {
    let slices = inventory.slices_of(record);
    slices.map(|slice| slice_used_bytes(reports, slice)).sum()
}

/// What a copy of a slice takes: what its primary has, from which others are made; where nobody serves it, the most that one in sync has.
pub(crate) fn slice_used_bytes(reports: &Reports, slice: &SliceRecord) -> Option<u64> {
    let served = server(reports, slice).map(|(_, slice)| slice.used_bytes);
    served.or_else(|| {
        let in_sync = |node: &NodeId| slice.in_sync().any(|one| one == *node);
        let replicas = reports
            .replicas(slice.slice)
            .filter(|(node, _)| in_sync(node));
        replicas.map(|(_, slice)| slice.used_bytes).max()
    })
}

#[cfg(test)]
pub(crate) mod tests;
