//! Good copies of which no other one is there: whoever takes the place of their node, or empties it, gives them up.
//!
//! Invariants:
//! - a copy that is known to be gone is no good copy;
//! - nothing is proposed that gives up a last good copy without saying so.

use std::collections::BTreeSet;

use holdfast_api::documents::Remedy;
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::SliceRecord;

use super::explain::{listed, remedy};
use super::holders::has_lost;
use crate::reports::Reports;

/// Whether a node has a good copy of a slice, as far as is known, and no other node with a good one takes part.
pub(super) fn is_on(reports: &Reports, record: &SliceRecord, node: NodeId) -> bool {
    let has = |other: NodeId| !has_lost(reports, record, other);
    let mut others = record.in_sync().filter(|other| *other != node);
    record.in_sync().any(|one| one == node)
        && has(node)
        && !others.any(|other| has(other) && reports.takes_part(other))
}

/// The volumes of slices of which the last good copy is on a node.
pub(super) fn volumes(inventory: &Inventory, reports: &Reports, node: NodeId) -> Vec<String> {
    let slices = inventory.slices_on(node);
    let slices = slices.filter(|record| is_on(reports, record, node));
    let names = slices.filter_map(|record| inventory.volumes.get(&record.slice.volume));
    let names: BTreeSet<String> = names.map(|volume| volume.record.name.clone()).collect();
    names.into_iter().collect()
}

/// What a node has that nobody else has, in words.
pub(super) fn words(node: &str, volumes: &[String]) -> String {
    let noun = if volumes.len() == 1 {
        "volume"
    } else {
        "volumes"
    };
    format!(
        "{node} has good copies of slices of {noun} {}, and no other node that is there has one",
        listed(volumes)
    )
}

/// What is said with advice to take a node's place.
pub(super) fn warning(node: &str, volumes: &[String]) -> String {
    format!(
        "; BUT ONLY IF nothing can bring its devices back: {}, and this gives them up",
        words(node, volumes)
    )
}

/// What is left if it cannot be brought back.
pub(super) fn give_up() -> Remedy {
    Remedy {
        what: "if its devices are gone for good, delete the volume, and bring it back from a backup of the hosts: ALL ITS DATA IS \
               LOST with that, older copies on other nodes too"
            .to_owned(),
        command: Some("holdfast volume delete NAME".to_owned()),
    }
}

/// Why a node cannot be removed, nor drained before it is back; nothing if that is not so.
pub(crate) fn hint(
    inventory: &Inventory,
    reports: &Reports,
    node: NodeId,
    name: &str,
) -> Option<String> {
    let volumes = volumes(inventory, reports, node);
    let is_so = reports.absence(node).is_some() && !volumes.is_empty();
    is_so.then(|| {
        format!(
            "{}: bring it back with its devices, then drain it; if these are gone for good, delete what is lost (`holdfast volume \
             delete`): older copies are served by nobody",
            words(name, &volumes)
        )
    })
}

/// What is said of a node in whose place no other one is to be, nor blank devices.
pub(super) fn bring_back(node: &str, volumes: &[String]) -> Remedy {
    remedy(format!(
        "bring {node} back with its devices, in another machine if its own is broken: {}. A new machine in its place, or blank \
         devices, gives these copies up, and what is on the slices is LOST then",
        words(node, volumes)
    ))
}
