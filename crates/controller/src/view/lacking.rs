//! What the status says of a volume that has fewer good copies than its policy says: which copies those are, and whether hosts or data
//! suffer from it.

use std::collections::BTreeSet;

use holdfast_api::documents::{Alert, Health};
use holdfast_control::Inventory;
use holdfast_model::NodeId;

use super::assessed::Assessed;
use super::causes::Cause;

/// Nodes that are named; a cluster may have more.
const NODES_NAMED_MAX: usize = 3;

/// The alert of a volume, with what is known of its copies if it is degraded.
pub(super) fn explained(inventory: &Inventory, volume: &Assessed<'_>, alert: Alert) -> Alert {
    if volume.health() != Health::Degraded {
        return alert;
    }
    let mut nodes = BTreeSet::new();
    let mut is_harmless = true;
    for cause in volume.causes.keys() {
        match cause {
            Cause::Down { node, .. } | Cause::Silent { node, .. } | Cause::Syncing { node, .. } => {
                nodes.insert(*node);
            }
            Cause::BadBlocks { on, is_mended } => {
                nodes.extend(on);
                is_harmless &= is_mended;
            }
            Cause::NotServed { .. } | Cause::WritesWait { .. } => is_harmless = false,
            Cause::TooFew { .. } => {}
        }
    }
    let mut detail = alert.detail;
    if let Some(copies) = copies_on(inventory, &nodes) {
        detail.push_str(&format!(" ({copies} not good)"));
    }
    if is_harmless {
        detail.push_str("; nothing is lost, and hosts are served");
    }
    Alert { detail, ..alert }
}

/// Whose copies they are, as the subject of what is said of them; nothing if there are none.
fn copies_on(inventory: &Inventory, nodes: &BTreeSet<NodeId>) -> Option<String> {
    let name = |node: &NodeId| {
        let record = inventory.nodes.get(node);
        record.map_or_else(|| node.to_string(), |record| record.name.clone())
    };
    let named: Vec<String> = nodes.iter().take(NODES_NAMED_MAX).map(name).collect();
    let more = match nodes.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.join(", ");
    match nodes.len() {
        0 => None,
        1 => Some(format!("that on {named} is")),
        _ => Some(format!("those on {named}{more} are")),
    }
}
