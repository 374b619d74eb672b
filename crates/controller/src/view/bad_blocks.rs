//! What there is to know about the blocks of a node that are bad, or were until just now.
//!
//! What follows for volumes is told with them. Of copies that are not in sync nothing is told: all that they lack is
//! brought.

use holdfast_api::documents::{Device, Finding, FindingKind, Health, Mending, Remedy};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;

use super::device_findings::{called, lacking};
use super::explain::{listed, remedy, wait};
use super::node_findings::{command, finding};
use crate::reports::Reports;

/// What there is to know.
pub(crate) fn of(inventory: &Inventory, reports: &Reports, record: &NodeRecord) -> Option<Finding> {
    let (node, name) = (record.node, record.name.as_str());
    let known = known(inventory, reports, node);
    let mended = reports.mending(node);
    let gone: Vec<String> = lacking(reports, node).map(called).collect();
    let devices = reports.devices(node).iter();
    let devices = devices.filter(|device| device.bad_blocks > 0 && !device.is_absent);
    let devices: Vec<&Device> = devices.collect();
    let places = || places(&devices, &gone);
    let what = match (known, mended) {
        (0, None) => return None,
        (0, Some(mended)) => format!("{} on it {}", blocks(mended.blocks), were(mended)),
        (known, None) => format!("{} known to be bad on it{}", are(known), places()),
        (known, Some(mended)) => format!(
            "{} known to be bad on it{}; {} more {}",
            are(known),
            places(),
            mended.blocks,
            were(mended)
        ),
    };
    let found = finding(FindingKind::BadBlocks, what);
    let from_others =
        format!("the bad blocks on {name} to be fetched from other copies, if these have them");
    Some(Finding {
        health: match known {
            0 => Health::Healthy,
            _ => found.health,
        },
        waits_for: (known > 0).then(|| wait(from_others)).into_iter().collect(),
        // With a device that is absent it is told what helps.
        remedies: match devices.is_empty() && !gone.is_empty() {
            true => Vec::new(),
            false => remedies(name, &devices),
        },
        ..found
    })
}

/// Bad blocks of copies that are in sync.
fn known(inventory: &Inventory, reports: &Reports, node: NodeId) -> u64 {
    let slices = reports.bad_blocks(node).filter(|(slice, _)| {
        let record = inventory.slices.get(slice);
        record.is_some_and(|record| record.in_sync().any(|other| other == node))
    });
    slices.fold(0, |sum, (_, count)| sum.saturating_add(count))
}

fn blocks(count: u64) -> String {
    match count {
        1 => "1 block".to_owned(),
        _ => format!("{count} blocks"),
    }
}

fn are(count: u64) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{} {are}", blocks(count))
}

fn were(mended: Mending) -> String {
    let were = if mended.blocks == 1 { "was" } else { "were" };
    format!(
        "{were} bad, and fetched from other copies in the last {} s",
        mended.seconds.max(1)
    )
}

/// Where they are: what was on a device that is `gone` is bad until others have brought it.
fn places(devices: &[&Device], gone: &[String]) -> String {
    if devices.is_empty() && !gone.is_empty() {
        let are = if gone.len() == 1 { "is" } else { "are" };
        return format!(" (they were on {}, which {are} absent)", listed(gone));
    }
    let one = |device: &&Device| format!("{} on {}", device.bad_blocks, called(device));
    let places: Vec<String> = devices.iter().map(one).collect();
    if places.is_empty() {
        String::new()
    } else {
        format!(" ({})", listed(&places))
    }
}

fn remedies(node: &str, devices: &[&Device]) -> Vec<Remedy> {
    const WHY: &str = "a device of which more and more is bad is about to fail: the kernel's log \
                       of the machine (`dmesg`) may say why";
    match devices {
        [device] => vec![command(
            format!("{WHY}; put another in its place, which must be blank"),
            format!("holdfast device replace {node} {} PATH", device.number),
        )],
        _ => vec![remedy(format!(
            "{WHY}; put another in its place (`holdfast device replace`)"
        ))],
    }
}
