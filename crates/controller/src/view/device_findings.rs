//! What there is to know about the devices of a node: those that it does without, those that it will do without when
//! it is started again, and those that are drained.

use holdfast_api::documents::{Detached, Device, DeviceState, Finding, FindingKind, Remedy, Wait};
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;

use super::explain::{remedy, wait};
use super::node_findings::{command, finding};
use crate::reports::Reports;

/// What there is to know.
pub(crate) fn of(reports: &Reports, record: &NodeRecord) -> impl Iterator<Item = Finding> {
    let (name, all) = (record.name.as_str(), reports.devices(record.node));
    all.iter().flat_map(move |device| {
        let state = match device.state {
            _ if device.is_absent => Some(absent(name, device)),
            DeviceState::Draining | DeviceState::Leaving => Some(draining(name, device, all)),
            _ => None,
        };
        let how = device.detached.filter(|_| !device.is_absent);
        let detached = how.map(|how| detached(name, device, how, all));
        detached.into_iter().chain(state)
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

pub(super) fn called(device: &Device) -> String {
    if device.path.is_empty() {
        return format!("device {}", device.number);
    }
    format!("device {} ({})", device.number, device.path)
}

/// The absent devices of a node of which something is lacking.
pub(super) fn lacking(reports: &Reports, node: NodeId) -> impl Iterator<Item = &Device> {
    let devices = reports.devices(node).iter();
    devices.filter(|device| device.is_absent && device.used_bytes > 0)
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
        "have the node go on with one device less: this one leaves when nothing of it is lacking"
            .to_owned(),
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

/// Of a device that is drained it is told with that how it goes on.
fn detached(node: &str, device: &Device, how: Detached, all: &[Device]) -> Finding {
    let number = device.number;
    let is_cut = how == Detached::CutShort;
    let back = remedy(match how {
        Detached::CutShort => format!(
            "do not start {node} again before the device has left: meanwhile what was behind its end is fetched from the other \
             copies"
        ),
        _ => format!(
            "if it is still there under another name, give it its path back; do not start {node} again before, nor \
             before the device has left"
        ),
    });
    let replace = command(
        "put another in its place, which must be blank: what is on it goes there, as long as the node runs".to_owned(),
        format!("holdfast device replace {node} {number} PATH"),
    );
    let drain = command(
        "have all that is on it moved to the node's other devices".to_owned(),
        format!("holdfast device drain {node} {number} --wait"),
    );
    let remove = command(
        "take it out of the node: nothing is on it any more".to_owned(),
        format!("holdfast device remove {node} {number}"),
    );
    let takes = |it: &Device| {
        it.number != number
            && it.state == DeviceState::InUse
            && !it.is_absent
            && it.detached.is_none()
    };
    let mut remedies = vec![back];
    match device.state {
        DeviceState::InUse => {
            remedies.push(replace);
            remedies.extend(all.iter().any(takes).then_some(drain));
        }
        DeviceState::Drained => remedies.push(remove),
        // That goes on.
        _ => {}
    }
    let journal = if device.journal {
        ", the node's journal among it,"
    } else {
        ""
    };
    let (called, words) = (called(device), how.words());
    let what = if is_cut {
        format!(
            "{called} was cut short while it is in use: {words}; {node} goes on with the rest of it until it ends, and does \
             not use it{journal} when it is started again"
        )
    } else {
        format!(
            "{called} was taken away while it is in use: {words}; {node} goes on with it until it ends, and all that is on \
             it{journal} is gone when it is started again"
        )
    };
    Finding {
        waits_for: vec![wait("an operator")],
        remedies,
        ..finding(FindingKind::DeviceDetached, what)
    }
}

fn draining(node: &str, device: &Device, all: &[Device]) -> Finding {
    let number = device.number;
    let cancel = command(
        "have it take data again".to_owned(),
        format!("holdfast device drain {node} {number} --cancel"),
    );
    let (mut waits_for, mut remedies) = obstacles(node, device, all);
    if waits_for.is_empty() {
        let left = quantity(device.used_bytes);
        waits_for.push(Wait {
            what: format!("{left} to move to the node's other devices"),
            seconds_left: device.seconds_left,
        });
    }
    remedies.push(cancel);
    Finding {
        waits_for,
        remedies,
        ..finding(
            FindingKind::DeviceDraining,
            format!("{} is being drained", called(device)),
        )
    }
}

/// What a drain waits for that does not come by itself, and what an operator may do about it.
fn obstacles(node: &str, device: &Device, all: &[Device]) -> (Vec<Wait>, Vec<Remedy>) {
    let takes = |it: &&Device| {
        it.number != device.number && it.state == DeviceState::InUse && !it.is_absent
    };
    let others: Vec<&Device> = all.iter().filter(takes).collect();
    let free = others.iter().fold(0, |sum: u64, other| {
        sum.saturating_add(other.bytes.saturating_sub(other.used_bytes))
    });
    let (mut waits, mut remedies) = (Vec::new(), Vec::new());
    if device.used_bytes > free {
        waits.push(wait(format!(
            "room: {} are on it, and the node's other devices that take data have {} to spare",
            quantity(device.used_bytes),
            quantity(free - free % (1 << 20))
        )));
        remedies.push(command(
            "give the node another device, which must be blank".to_owned(),
            format!("holdfast device add {node} PATH"),
        ));
    }
    if device.journal && !others.iter().any(|other| other.journal_room) {
        waits.push(wait(
            "a place for the node's journal, which is on it: no other device that takes data has room for it",
        ));
        remedies.push(command(
            "give the node another device, with room for the journal".to_owned(),
            format!("holdfast device add {node} PATH --journal"),
        ));
    }
    (waits, remedies)
}

#[cfg(test)]
mod tests {
    use holdfast_api::documents::DeviceTier;

    use super::*;

    fn drained() -> Device {
        Device {
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
            drain_bytes: None,
            bad_blocks: 0,
            detached: None,
            latency_p99_us: None,
        }
    }

    fn other(used_bytes: u64) -> Device {
        Device {
            number: 2,
            state: DeviceState::InUse,
            used_bytes,
            ..drained()
        }
    }

    #[test]
    fn a_drain_that_cannot_go_on_says_so() {
        let told = |device: &Device, others: &[Device]| {
            let all = [std::slice::from_ref(device), others].concat();
            let finding = draining("n1", device, &all);
            let waits = finding.waits_for.into_iter().map(|wait| wait.what);
            let commands = finding.remedies.into_iter().filter_map(|it| it.command);
            let (waits, commands): (Vec<String>, Vec<String>) =
                (waits.collect(), commands.collect());
            (waits.join("; "), commands.join("; "))
        };
        let cancel = "holdfast device drain n1 1 --cancel";
        let add = "holdfast device add n1 PATH";
        // 64 MiB are free there, and what is on its way out itself does not count.
        let gone = Device {
            number: 3,
            state: DeviceState::Draining,
            ..other(0)
        };
        let full = [other((1 << 30) - (64 << 20)), gone];
        let (waits, commands) = told(&drained(), &full);
        assert_eq!(
            waits,
            "room: 90 MiB are on it, and the node's other devices that take data have 64 MiB to spare"
        );
        assert_eq!(commands, format!("{add}; {cancel}"));
        let (_, commands) = told(&drained(), &[other(0)]);
        assert_eq!(commands, cancel);
        let journal = Device {
            journal: true,
            ..drained()
        };
        let (waits, commands) = told(&journal, &[other(0)]);
        assert!(
            waits.starts_with("a place for the node's journal"),
            "{waits}"
        );
        assert_eq!(commands, format!("{add} --journal; {cancel}"));
        let room = Device {
            journal_room: true,
            ..other(0)
        };
        let (_, commands) = told(&journal, &[room]);
        assert_eq!(commands, cancel);
        let (waits, _) = told(&journal, &full);
        assert_eq!(waits.split("; ").count(), 2, "{waits}");
    }

    #[test]
    fn a_device_that_was_taken_away_is_told_with_what_saves_it() {
        let mut device = Device {
            state: DeviceState::InUse,
            journal: true,
            ..drained()
        };
        let told = |device: &Device, others: &[Device]| {
            let all = [std::slice::from_ref(device), others].concat();
            let finding = detached("n1", device, Detached::Nothing, &all);
            let commands = finding.remedies.into_iter().filter_map(|it| it.command);
            (finding.what, commands.collect::<Vec<_>>().join("; "))
        };
        let replace = "holdfast device replace n1 1 PATH";
        let (what, commands) = told(&device, &[]);
        assert_eq!(
            what,
            "device 1 (/dev/sdb) was taken away while it is in use: nothing is at its path any more; n1 goes on with it \
             until it ends, and all that is on it, the node's journal among it, is gone when it is started again"
        );
        assert_eq!(commands, replace);
        let (_, commands) = told(&device, &[other(0)]);
        let drain = "holdfast device drain n1 1 --wait";
        assert_eq!(commands, format!("{replace}; {drain}"));
        // Nothing is moved to what is gone as well.
        let gone = Device {
            detached: Some(Detached::Another),
            ..other(0)
        };
        assert_eq!(told(&device, &[gone]).1, replace);
        // A part of it is.
        let mut shorter = device.clone();
        let finding = detached("n1", &shorter, Detached::CutShort, &[device.clone()]);
        assert_eq!(
            finding.what,
            "device 1 (/dev/sdb) was cut short while it is in use: its file is shorter than it was; n1 goes on with the \
             rest of it until it ends, and does not use it, the node's journal among it, when it is started again"
        );
        let remedies = finding.remedies.iter().map(|it| it.command.as_deref());
        assert_eq!(remedies.collect::<Vec<_>>(), [None, Some(replace)]);
        shorter.state = DeviceState::Drained;
        let remove = "holdfast device remove n1 1";
        let finding = detached("n1", &shorter, Detached::CutShort, &[]);
        assert_eq!(finding.remedies[1].command.as_deref(), Some(remove));
        for (state, commands) in [
            (DeviceState::Drained, remove),
            (DeviceState::Draining, ""),
            (DeviceState::Leaving, ""),
        ] {
            device.state = state;
            assert_eq!(told(&device, &[other(0)]).1, commands, "{state:?}");
        }
    }

    #[test]
    fn how_long_a_drain_takes_is_told() {
        let mut device = drained();
        let waits = |finding: Finding| {
            (
                finding.waits_for[0].what.clone(),
                finding.waits_for[0].seconds_left,
            )
        };
        let to_move = "90 MiB to move to the node's other devices".to_owned();
        assert_eq!(
            waits(draining("n1", &device, &[other(0)])),
            (to_move, Some(30))
        );
        device.state = DeviceState::Lost;
        device.is_absent = true;
        let others = "the other copies to bring what was on it".to_owned();
        assert_eq!(waits(absent("n1", &device)), (others, Some(30)));
    }
}
