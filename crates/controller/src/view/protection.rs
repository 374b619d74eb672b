//! How far the cluster is from every volume having all its copies, such that nodes may be started again.
//!
//! Invariants:
//! - what is waited for is told once, whatever follows from it for one slice or another;
//! - what is on a device that is gone when its node is started again is not said to be protected;
//! - no time is told while something is waited for that does not come by itself.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::documents::{Health, Protection, SyncWork, Wait};
use holdfast_control::{Inventory, Part};
use holdfast_model::NodeId;
use holdfast_model::record::NodeStanding;

use super::assessed::Assessed;
use super::causes::{Cause, Past};
use super::device_findings::{called, lacking};
use super::explain::{wait, waits_for};
use super::prospect::Prospect;
use super::work::{self, Missing};
use super::{absence, name};
use crate::reports::{Absence, Reports};

/// What is waited for, by what comes first of it.
type Waits = BTreeMap<String, BTreeSet<Wait>>;

/// How far it is.
pub(super) fn of(inventory: &Inventory, reports: &Reports, volumes: &[Assessed<'_>]) -> Protection {
    if inventory.nodes.is_empty() {
        // Nothing is protected, whatever there is.
        let first = wait("the first node of the cluster: none has registered yet");
        return Protection {
            waits_for: vec![first],
            ..Protection::default()
        };
    }
    let mut protection = Protection {
        protected: true,
        ..Protection::default()
    };
    let mut waits = Waits::new();
    let mut missing: Vec<&Missing> = Vec::new();
    let mut mending: BTreeSet<NodeId> = BTreeSet::new();
    for volume in volumes {
        protection.protected &= volume.health() == Health::Healthy;
        let healths = volume.healths.iter();
        let lacking = healths.filter(|health| **health != Health::Healthy);
        let lacking = u32::try_from(lacking.count()).unwrap_or(u32::MAX);
        protection.slices = protection.slices.saturating_add(lacking);
        for (cause, group) in &volume.causes {
            missing.extend(&group.missing);
            match cause {
                cause if goes_on(cause) => continue,
                Cause::BadBlocks {
                    on,
                    is_mended: true,
                } if on.iter().all(|node| is_filled(reports, *node)) => {
                    mending.extend(on);
                    continue;
                }
                _ => {}
            }
            let (first, told) = (
                first(inventory, cause),
                waits_for(inventory, reports, cause, group),
            );
            for one in told {
                let first = first.clone().unwrap_or_else(|| one.what.clone());
                waits.entry(first).or_default().insert(one);
            }
        }
    }
    protection.work = work::sum(reports, missing);
    add_filling(reports, &mending, &mut protection.work);
    let mut waits: Vec<Wait> = waits.into_iter().map(told_once).collect();
    if !volumes.is_empty() {
        waits.extend(detached(inventory, reports));
    }
    // It may lack volumes, and says nothing of those that it has.
    let mut nodes = inventory.nodes.keys();
    if nodes.any(|node| reports.astray(*node).is_some()) {
        waits.push(wait("the right metadata, which nodes do not find"));
    }
    if !waits.is_empty() {
        protection.protected = false;
        protection.work.seconds_left = None;
    }
    waits.sort();
    protection.waits_for = waits;
    protection
}

/// What others bring to these nodes that was on absent devices is to be copied as well.
fn add_filling(reports: &Reports, nodes: &BTreeSet<NodeId>, work: &mut SyncWork) {
    for device in nodes.iter().flat_map(|node| lacking(reports, *node)) {
        work.bytes = work.bytes.saturating_add(device.used_bytes);
        work.bytes_per_second = work
            .bytes_per_second
            .saturating_add(device.bytes_per_second);
        let both = work.seconds_left.zip(device.seconds_left);
        work.seconds_left = both.map(|(one, other)| one.max(other));
    }
}

/// Whether what a cause waits for comes by itself, in a time that can be told from what is to be copied.
fn goes_on(cause: &Cause) -> bool {
    match cause {
        Cause::Syncing { past, .. } => *past != Past::NoRoom,
        Cause::Down { prospect, .. } => *prospect == Prospect::Due,
        _ => false,
    }
}

/// What comes first of what a cause waits for, if more is told with it, or it is called otherwise elsewhere.
fn first(inventory: &Inventory, cause: &Cause) -> Option<String> {
    match cause {
        Cause::Down { node, absence, .. } => {
            Some(absence::waits_for(absence, &name(inventory, *node)))
        }
        Cause::Silent {
            node,
            absence: Absence::Down,
        } => Some(absence::waits_for(&Absence::Down, &name(inventory, *node))),
        _ => None,
    }
}

/// Where different things follow from it, these are told with the volumes.
fn told_once((first, all): (String, BTreeSet<Wait>)) -> Wait {
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => wait(first),
    }
}

/// Whether what is bad on a node is what others bring that was on absent devices, in a time that can be told.
fn is_filled(reports: &Reports, node: NodeId) -> bool {
    let all = || lacking(reports, node);
    all().next().is_some() && all().all(|device| device.seconds_left.is_some())
}

/// Devices that their nodes go on with, and do not find when they are started again.
fn detached(inventory: &Inventory, reports: &Reports) -> Vec<Wait> {
    let nodes = inventory.nodes.values();
    let nodes =
        nodes.filter(|node| inventory.part_of(node.node) != Part::Of(NodeStanding::Removed));
    let waits = nodes.flat_map(|node| {
        let devices = reports.devices(node.node).iter();
        let devices = devices.filter(|device| {
            let has_something = device.used_bytes > 0 || device.journal;
            device.detached.is_some() && !device.is_absent && has_something
        });
        devices.map(|device| {
            wait(format!(
                "{} of {}, taken away while it is in use, to be replaced, drained or there again: what is on it is lost to {} \
                 when that is started again",
                called(device),
                node.name,
                node.name
            ))
        })
    });
    waits.collect()
}
