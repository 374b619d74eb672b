//! What becomes of the copies on a node that is down.
//!
//! It repeats what `control` plans by, for people: a plan is made by whoever steers.

use holdfast_control::{Inventory, Part};
use holdfast_model::NodeId;
use holdfast_model::record::{NodeStanding, SliceRecord};

use super::slice_used_bytes;
use crate::reports::Reports;

/// What becomes of a copy whose node is down, unless the node comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prospect {
    /// It is made on another node, as soon as it has its turn.
    Due,
    /// It is made on another node in so many seconds.
    In(u64),
    /// It is made on another node after the repair delay; whoever steers has not said when.
    Later,
    /// No other node can have it: none is up, active, without a copy, and has room.
    NoPlace,
    /// The node is in maintenance: nothing of it is made elsewhere.
    Maintenance,
}

/// The prospect of a slice's copy on a node that is down.
pub(crate) fn of(
    inventory: &Inventory,
    reports: &Reports,
    record: &SliceRecord,
    node: NodeId,
) -> Prospect {
    let part = inventory.part_of(node);
    if part == Part::Of(NodeStanding::Maintenance) {
        return Prospect::Maintenance;
    }
    if !has_place(inventory, reports, record) {
        return Prospect::NoPlace;
    }
    if part != Part::Of(NodeStanding::Active) {
        return Prospect::Due;
    }
    let delay = inventory.settings.record.repair_delay_seconds;
    match reports.silence(node) {
        Some((silent, _)) if silent >= delay => Prospect::Due,
        Some((silent, _)) => Prospect::In(delay - silent),
        None => Prospect::Later,
    }
}

/// Whether a slice's copy on a node that is down is about to be made on another one.
pub(crate) fn is_due(
    inventory: &Inventory,
    reports: &Reports,
    record: &SliceRecord,
    node: NodeId,
) -> bool {
    of(inventory, reports, record, node) == Prospect::Due
}

/// Whether some node could have one more copy of a slice: all that it is known to hold fits there.
pub(crate) fn has_place(inventory: &Inventory, reports: &Reports, record: &SliceRecord) -> bool {
    let used = slice_used_bytes(reports, record).unwrap_or(0);
    let fit = |node: &NodeId| {
        let seen = reports.seen(*node);
        inventory.is_active(*node)
            && record.replica(*node).is_none()
            && seen.is_some_and(|seen| used == 0 || used <= seen.spare_bytes())
    };
    inventory.nodes.keys().any(fit)
}
