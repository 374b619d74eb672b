//! Why slices are not as they should be: from the metadata and what the nodes say, without words.
//!
//! Slices with the same cause are one group: a volume has thousands.
//!
//! Invariants:
//! - a slice that is not healthy has a cause;
//! - a cause says nothing that differs from slice to slice for no reason that matters: amounts are summed.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{
    Astray, Health, LocalCondition, LocalMetadata, LocalSlice, ReplicaCondition,
};
use holdfast_control::Inventory;
use holdfast_model::record::{Membership, SliceRecord, VolumeRecord};
use holdfast_model::{Epoch, NodeId, Sequence};

use super::holders::has_lost;
use super::prospect::{self, Prospect};
use super::work::{self, Missing, MissingState};
use super::{is_served, server};
use crate::reports::{Absence, Reports};

/// Why a slice is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// Nobody serves it, and why none of those does that were in sync.
    NotServed {
        /// So many of them have to be there.
        needed: usize,
        holders: Vec<(NodeId, Holder)>,
    },
    /// No write is done, because these are gone, and too few copies would remain without them.
    WritesWait { lost: Vec<NodeId> },
    /// Copies have bad blocks.
    BadBlocks {
        on: Vec<NodeId>,
        /// Some other copy has none.
        is_mended: bool,
    },
    /// A copy counts as good, and nothing on its node is relied on.
    Silent { node: NodeId, absence: Absence },
    /// A copy does not count as good, for nothing on its node is relied on.
    Down {
        node: NodeId,
        absence: Absence,
        prospect: Prospect,
    },
    /// A copy is being brought up to date, or waits for its turn.
    Syncing { node: NodeId, past: Past },
    /// There are fewer copies than the policy says, and nobody is to get one.
    TooFew { has_place: bool },
}

/// What is the matter with a replica that was in sync, of a slice that nobody serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// Nothing on its node is relied on.
    Absent(Absence),
    /// The node does not follow the metadata; and why it does not believe it, if it says so.
    Astray(LocalMetadata, Option<Astray>),
    /// The node has not taken the slice up.
    Unready,
    /// It follows another, which does not lead.
    Follows,
    /// What it says.
    Says(LocalCondition),
}

/// What a copy that is not up to date was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Past {
    /// It was there, and comes back.
    Known,
    /// It is new there.
    New,
    /// Something durable was lost.
    Damaged,
    /// A device of the node is absent.
    Lacking,
    /// The node's devices were emptied, or replaced.
    Emptied,
    /// It was there in part, and waits for room on its node.
    NoRoom,
}

/// Slices of a volume with the same cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Which, in order.
    pub(crate) indexes: Vec<u32>,
    /// The lowest and the highest of their configurations.
    pub(crate) epochs: Option<(Epoch, Epoch)>,
    /// How many of their copies are in sync, at least and at most.
    pub(crate) in_sync: Option<(usize, usize)>,
    /// What is to be copied for it.
    pub(crate) missing: Vec<Missing>,
    pub(crate) bad_blocks: u64,
    /// Nodes with copies that are not in sync, and held something when they last were.
    pub(crate) older: BTreeSet<NodeId>,
}

/// The causes of all slices of a volume that are not as they should be; `healths` says how they are.
pub(crate) fn of_volume(
    inventory: &Inventory,
    reports: &Reports,
    volume: &VolumeRecord,
    healths: &[Health],
) -> BTreeMap<Cause, Group> {
    let mut groups: BTreeMap<Cause, Group> = BTreeMap::new();
    let slices = inventory.slices_of(volume).zip(healths);
    for (record, _) in slices.filter(|(_, health)| **health != Health::Healthy) {
        for (cause, missing) in of_slice(inventory, reports, record, volume) {
            let group = groups.entry(cause).or_default();
            group.indexes.push(record.slice.index);
            let (low, high) = group.epochs.unwrap_or((record.epoch, record.epoch));
            group.epochs = Some((low.min(record.epoch), high.max(record.epoch)));
            let in_sync = record.in_sync().count();
            let (low, high) = group.in_sync.unwrap_or((in_sync, in_sync));
            group.in_sync = Some((low.min(in_sync), high.max(in_sync)));
            group.missing.extend(missing);
            group.older.extend(older(reports, record));
            group.bad_blocks = group.bad_blocks.saturating_add(bad_blocks(reports, record));
        }
    }
    groups
}

fn of_slice(
    inventory: &Inventory,
    reports: &Reports,
    record: &SliceRecord,
    volume: &VolumeRecord,
) -> Vec<(Cause, Option<Missing>)> {
    if !is_served(reports, record) {
        return vec![(not_served(reports, record), None)];
    }
    let mut causes = Vec::new();
    let stuck = server(reports, record).and_then(|(_, server)| stuck(server));
    causes.extend(stuck.map(|lost| (Cause::WritesWait { lost }, None)));
    causes.extend(bad(reports, record).map(|cause| (cause, None)));
    let silent = record
        .in_sync()
        .filter_map(|node| Some((node, reports.isolation(node)?)));
    causes.extend(silent.map(|(node, absence)| (Cause::Silent { node, absence }, None)));
    let missing = work::missing(inventory, reports, record);
    let wanted = record.in_sync().count() + missing.len();
    // One that is to go does not count; one that is on its way elsewhere does.
    if wanted < volume.policy.copies() {
        let has_place = prospect::has_place(inventory, reports, record);
        causes.push((Cause::TooFew { has_place }, None));
    }
    for one in missing {
        let node = one.target;
        let cause = match one.state {
            MissingState::NodeDown | MissingState::Replaced => Cause::Down {
                node,
                // There is one, or this state is another one.
                absence: reports.isolation(node).unwrap_or(Absence::Down),
                prospect: prospect::of(inventory, reports, record, node),
            },
            MissingState::Moves | MissingState::NoSource => Cause::Syncing {
                node,
                past: past(inventory, reports, record, node),
            },
        };
        causes.push((cause, Some(one)));
    }
    causes
}

fn not_served(reports: &Reports, record: &SliceRecord) -> Cause {
    let holders: Vec<_> = record
        .in_sync()
        .map(|node| (node, holder(reports, record, node)))
        .collect();
    let needed = usize::from(record.copies_min).max(1).min(holders.len());
    Cause::NotServed { needed, holders }
}

fn holder(reports: &Reports, record: &SliceRecord, node: NodeId) -> Holder {
    let metadata = reports.metadata(node).unwrap_or_default();
    let astray = || Holder::Astray(metadata, reports.astray(node).cloned());
    match reports.isolation(node) {
        Some(Absence::Disbelieves(_)) => return astray(),
        Some(absence) => return Holder::Absent(absence),
        None => {}
    }
    let replica = reports.replica(node, record.slice);
    let condition = replica.and_then(|replica| replica.condition.clone());
    match (metadata, replica, condition) {
        (LocalMetadata::Unreached | LocalMetadata::Behind, ..) => astray(),
        (_, None, _) => Holder::Unready,
        (_, Some(_), Some(condition)) => Holder::Says(condition),
        (_, Some(_), None) => Holder::Follows,
    }
}

/// Nodes with copies that are not in sync, and held something when they last were.
fn older(reports: &Reports, record: &SliceRecord) -> impl Iterator<Item = NodeId> {
    let held = record.replicas.iter().filter(|it| match it.membership {
        Membership::InSync => false,
        Membership::Joining { stable } | Membership::Absent { stable } => stable != Sequence::ZERO,
    });
    let nodes = held.map(|it| it.node);
    nodes.filter(|node| !has_lost(reports, record, *node))
}

/// Without whom nothing is committed, of a slice that is served.
fn stuck(server: &LocalSlice) -> Option<Vec<NodeId>> {
    let condition = server.condition.as_ref()?;
    let is_stuck = condition.what == ReplicaCondition::Stuck;
    is_stuck.then(|| condition.nodes.iter().map(|node| NodeId(*node)).collect())
}

fn bad(reports: &Reports, record: &SliceRecord) -> Option<Cause> {
    let in_sync = |node: NodeId| record.in_sync().any(|other| other == node);
    let replicas = || {
        let replicas = reports.replicas(record.slice);
        replicas.filter(|(node, _)| in_sync(*node))
    };
    let on: Vec<NodeId> = replicas()
        .filter(|(_, slice)| slice.bad_blocks > 0)
        .map(|(node, _)| node)
        .collect();
    // What has lost everything knows of no bad blocks either, and has nothing to mend others with.
    let is_mended =
        replicas().any(|(node, slice)| slice.bad_blocks == 0 && !has_lost(reports, record, node));
    (!on.is_empty()).then_some(Cause::BadBlocks { on, is_mended })
}

fn bad_blocks(reports: &Reports, record: &SliceRecord) -> u64 {
    let replicas = reports.replicas(record.slice);
    let in_sync = replicas.filter(|(node, _)| record.in_sync().any(|other| other == *node));
    in_sync.fold(0, |sum, (_, slice)| sum.saturating_add(slice.bad_blocks))
}

fn past(inventory: &Inventory, reports: &Reports, record: &SliceRecord, node: NodeId) -> Past {
    let Some(named) = record.replica(node) else {
        return Past::New;
    };
    let store = inventory.nodes.get(&node).map(|node| node.store);
    let replica = reports.replica(node, record.slice);
    let condition = replica.and_then(|replica| replica.condition.as_ref());
    match condition.map(|condition| condition.what) {
        Some(ReplicaCondition::NoRoom) => Past::NoRoom,
        Some(ReplicaCondition::Damaged) => Past::Damaged,
        Some(ReplicaCondition::Lacks) => Past::Lacking,
        Some(ReplicaCondition::OtherStore) => Past::Emptied,
        _ if store.is_some_and(|store| store != named.store) => Past::Emptied,
        _ => Past::Known,
    }
}
