//! Copies that share a site, while another site has none of their slice.
//!
//! It repeats what `control` plans by, for people. Slices that lack copies are left out: what they lack comes first.

use std::collections::BTreeMap;

use holdfast_api::documents::{Alert, Finding, FindingKind, Health, Remedy, Severity, Wait};
use holdfast_control::{Inventory, on_more_sites};
use holdfast_model::NodeId;
use holdfast_model::record::{SliceRecord, VolumeRecord};

use super::assessed::Assessed;
use super::explain::{add_node, runs, wait};
use super::node_findings::finding;
use super::slice_used_bytes;
use crate::reports::Reports;

/// How it comes that a slice is on fewer sites than it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It is on its way.
    Moves,
    /// It moves when nothing else is to be done.
    Waits,
    /// No node of another site has room for it.
    NoRoom,
}

/// What there is to know about a volume.
pub(super) fn of_volume(
    inventory: &Inventory,
    reports: &Reports,
    assessed: &Assessed<'_>,
) -> Vec<Finding> {
    let mut stages: BTreeMap<Stage, Vec<u32>> = BTreeMap::new();
    for (slice, others) in &assessed.crowded {
        let stage = stage(inventory, reports, slice, others);
        stages.entry(stage).or_default().push(slice.slice.index);
    }
    let told = |(stage, indexes): (Stage, Vec<u32>)| Finding {
        slices: u32::try_from(indexes.len()).unwrap_or(u32::MAX),
        indexes: runs(&indexes),
        waits_for: vec![waits_for(stage)],
        remedies: remedies(stage),
        ..finding(
            FindingKind::SharedSite,
            "copies are in one site, and another site has none".to_owned(),
        )
    };
    stages.into_iter().map(told).collect()
}

/// What to tell of a volume in one line.
pub(super) fn alert(assessed: &Assessed<'_>) -> Option<Alert> {
    let (volume, count) = (assessed.volume, assessed.crowded.len());
    (count > 0).then(|| Alert {
        severity: Severity::Warning,
        subject: format!("volume {}", volume.name),
        detail: format!(
            "{count} of {} slices have copies in one site, and none in another",
            volume.slice_count()
        ),
    })
}

/// The slices that could be on more sites, and the nodes with which they would be; `healths` says how all are.
pub(super) fn slices<'a>(
    inventory: &'a Inventory,
    volume: &VolumeRecord,
    healths: &[Health],
) -> Vec<(&'a SliceRecord, Vec<NodeId>)> {
    let slices = inventory.slices_of(volume).zip(healths);
    let healthy = slices.filter(|(_, health)| **health == Health::Healthy);
    let crowded = healthy.filter_map(|(slice, _)| {
        let others = on_more_sites(inventory, slice);
        (!others.is_empty()).then_some((slice, others))
    });
    crowded.collect()
}

fn stage(
    inventory: &Inventory,
    reports: &Reports,
    slice: &SliceRecord,
    others: &[NodeId],
) -> Stage {
    let wish = inventory.wishes.get(&slice.slice);
    if wish.is_some_and(|wish| others.iter().any(|it| wish.record.nodes.contains(it))) {
        return Stage::Moves;
    }
    let used = slice_used_bytes(reports, slice).unwrap_or(0);
    let has_room = |node: &NodeId| {
        let seen = reports.seen(*node);
        seen.is_none_or(|seen| !seen.is_tight() && used <= seen.spare_bytes())
    };
    if others.iter().any(has_room) {
        Stage::Waits
    } else {
        Stage::NoRoom
    }
}

fn waits_for(stage: Stage) -> Wait {
    wait(match stage {
        Stage::Moves => "the copy in another site to have everything",
        Stage::Waits => {
            "its turn: copies move apart, a few at a time, when every node is up and no volume lacks a copy"
        }
        Stage::NoRoom => {
            "room in another site: a node takes such a copy as long as a tenth of it is free"
        }
    })
}

fn remedies(stage: Stage) -> Vec<Remedy> {
    match stage {
        Stage::Moves | Stage::Waits => Vec::new(),
        Stage::NoRoom => vec![
            Remedy {
                what: "add a device to a node in a site that has no copy".to_owned(),
                command: Some("holdfast device add NODE PATH".to_owned()),
            },
            add_node(),
        ],
    }
}
