//! What there is to know about the devices of a node: those that it does without, and those that are drained.

use holdfast_api::documents::{
    Alert, Device, DeviceState, Finding, FindingKind, Remedy, Severity, Wait,
};
use holdfast_model::record::NodeRecord;

use super::explain::{remedy, wait};
use super::node_findings::{command, finding};
use crate::reports::Reports;

/// What there is to know.
pub(crate) fn of(reports: &Reports, record: &NodeRecord) -> impl Iterator<Item = Finding> {
    let devices = reports.devices(record.node).iter();
    devices.filter_map(|device| match device.state {
        _ if device.is_absent => Some(absent(&record.name, device)),
        DeviceState::Draining | DeviceState::Leaving => Some(draining(&record.name, device)),
        _ => None,
    })
}

/// What is told with the cluster's health.
pub(crate) fn alerts(reports: &Reports, record: &NodeRecord) -> impl Iterator<Item = Alert> {
    let devices = reports.devices(record.node).iter();
    let absent = devices.filter(|device| device.is_absent);
    absent.map(|device| Alert {
        severity: Severity::Error,
        subject: format!("node {}", record.name),
        detail: format!("{} {}", called(device), how(device)),
    })
}

/// Pages are of 256 KiB, so nothing is said to be 0.
pub(super) fn quantity(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0 => "0 MiB".to_owned(),
        _ if bytes < 10 << 30 => format!("{} MiB", bytes.div_ceil(MIB)),
        _ => format!("{} GiB", bytes.div_ceil(MIB << 10)),
    }
}

fn called(device: &Device) -> String {
    if device.path.is_empty() {
        return format!("device {}", device.number);
    }
    format!("device {} ({})", device.number, device.path)
}

fn how(device: &Device) -> &'static str {
    match device.state {
        DeviceState::Missing => "is missing",
        DeviceState::Lost => "has failed",
        _ => "is absent, and leaves when nothing of it is lacking",
    }
}

fn absent(node: &str, device: &Device) -> Finding {
    let number = device.number;
    let replace = command(
        "put another in its place, which must be blank".to_owned(),
        format!("holdfast device replace {node} {number} PATH"),
    );
    let remove = command(
        "do without one more device: it leaves when nothing of it is lacking".to_owned(),
        format!("holdfast device remove {node} {number}"),
    );
    let again = remedy(format!(
        "if it can be there again as it was: see that it is, and start {node} once more"
    ));
    let mut remedies: Vec<Remedy> = Vec::new();
    remedies.extend((device.state == DeviceState::Missing).then_some(again));
    if device.state != DeviceState::Leaving {
        remedies.extend([replace, remove]);
    }
    let left = device.used_bytes;
    let waits = (left > 0).then(|| Wait {
        seconds_left: device.seconds_left,
        ..wait("the other copies to bring what was on it")
    });
    Finding {
        waits_for: waits.into_iter().collect(),
        remedies,
        ..finding(
            FindingKind::DeviceAbsent,
            match left {
                0 => format!(
                    "{} {}; nothing of it is lacking",
                    called(device),
                    how(device)
                ),
                _ => format!(
                    "{} {}: {} are lacking",
                    called(device),
                    how(device),
                    quantity(left)
                ),
            },
        )
    }
}

fn draining(node: &str, device: &Device) -> Finding {
    let number = device.number;
    let cancel = command(
        "have it take data again".to_owned(),
        format!("holdfast device drain {node} {number} --cancel"),
    );
    Finding {
        waits_for: vec![Wait {
            what: format!(
                "{} to move to the node's other devices",
                quantity(device.used_bytes)
            ),
            seconds_left: device.seconds_left,
        }],
        remedies: vec![cancel],
        ..finding(
            FindingKind::DeviceDraining,
            format!("{} is being drained", called(device)),
        )
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::DeviceTier;

    use super::*;

    #[test]
    fn how_long_a_drain_takes_is_told() {
        let mut device = Device {
            number: 1,
            path: "/dev/sdb".to_owned(),
            tier: DeviceTier::Flash,
            state: DeviceState::Draining,
            journal: false,
            journal_room: false,
            is_absent: false,
            bytes: 1 << 30,
            used_bytes: 90 << 20,
            bytes_per_second: 3 << 20,
            seconds_left: Some(30),
        };
        let waits = |finding: Finding| {
            (
                finding.waits_for[0].what.clone(),
                finding.waits_for[0].seconds_left,
            )
        };
        let to_move = "90 MiB to move to the node's other devices".to_owned();
        assert_eq!(waits(draining("n1", &device)), (to_move, Some(30)));
        device.state = DeviceState::Lost;
        device.is_absent = true;
        let others = "the other copies to bring what was on it".to_owned();
        assert_eq!(waits(absent("n1", &device)), (others, Some(30)));
    }
}
