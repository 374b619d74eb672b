//! `holdfast device`: the devices of a node.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use holdfast_api::ApiClient;
use holdfast_api::documents::{
    AwaitedCause, Detached, Device, DeviceChange, DeviceList, DeviceState, DeviceTier,
};

use super::client;
use super::protection::about;
use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Output, bytes, table};

/// Between two looks at how much is left.
const LOOK: Duration = Duration::from_millis(500);
/// After so many looks people are told again.
const LOOKS_PER_WORD: u32 = 10;

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// List the devices of a node
    List {
        /// The node's name
        node: String,
    },
    /// Give a node one more device, which must be blank
    Add {
        /// The node's name
        node: String,
        /// The device: an absolute path on the node's machine
        path: String,
        /// Its class
        #[arg(long, value_enum, default_value_t = Tier::Flash)]
        tier: Tier,
        /// Leave room on it for the node's journal, so that the journal's device can be drained
        #[arg(long)]
        journal: bool,
    },
    /// Have everything that a device holds go to the node's other devices
    Drain {
        /// The node's name
        node: String,
        /// The device: its number, or its path
        device: String,
        /// Wait until it holds nothing
        #[arg(long)]
        wait: bool,
        /// Call it off: the device takes data again, and what has gone elsewhere stays there
        #[arg(long, conflicts_with = "wait")]
        cancel: bool,
    },
    /// Remove a drained device from its node, or one that is missing or lost
    Remove {
        /// The node's name
        node: String,
        /// The device: its number, or its path
        device: String,
        /// Give up what was on a missing or lost device and is nowhere else
        #[arg(long)]
        give_up: bool,
    },
    /// Have a new device take the place of another: add, drain and remove in one
    Replace {
        /// The node's name
        node: String,
        /// The device that is to leave: its number, or its path
        device: String,
        /// The device that takes its place, which must be blank: an absolute path on the node's machine
        path: String,
        /// The new one's class
        #[arg(long, value_enum, default_value_t = Tier::Flash)]
        tier: Tier,
        /// Wait until the old one has left
        #[arg(long)]
        wait: bool,
    },
}

/// The class of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Fast
    Flash,
    /// Large
    Capacity,
}

impl Tier {
    pub(super) const fn document(self) -> DeviceTier {
        match self {
            Self::Flash => DeviceTier::Flash,
            Self::Capacity => DeviceTier::Capacity,
        }
    }
}

/// Asks a node about its devices, or changes them.
pub(crate) async fn run(
    global: &Global,
    output: &Output,
    command: DeviceCommand,
) -> Result<(), Failure> {
    let client = client(global);
    if let DeviceCommand::List { node } = &command {
        let list = client.devices(node).await?;
        return show(output, &list);
    }
    let (node, change, awaited) = order(&client, command).await?;
    let mut list = client.change_devices(&node, &change).await?;
    let mut looks = 0;
    while let Some(device) = awaited.and_then(|number| draining(&list, number)) {
        if looks % LOOKS_PER_WORD == 0 {
            output.talk(&left_to_move(device));
        }
        looks += 1;
        tokio::time::sleep(LOOK).await;
        // A node that is being restarted goes on by itself.
        match client.devices(&node).await {
            Ok(found) if !found.devices.is_empty() => list = found,
            Ok(_) => {}
            Err(error) => output.talk(&format!("{node} says nothing of its devices: {error}")),
        }
    }
    show(output, &list)
}

/// The node, what is to be done there, and the device for which that is waited.
async fn order(
    client: &ApiClient,
    command: DeviceCommand,
) -> Result<(String, DeviceChange, Option<u16>), Failure> {
    let order = match command {
        DeviceCommand::List { .. } => unreachable!("it changes nothing"),
        DeviceCommand::Add {
            node,
            path,
            tier,
            journal,
        } => {
            let change = DeviceChange::Add {
                path,
                tier: tier.document(),
                replaces: None,
                journal_room: journal,
            };
            (node, change, None)
        }
        DeviceCommand::Drain {
            node,
            device,
            wait,
            cancel,
        } => {
            let device = number(client, &node, &device).await?;
            (node, drain(device, cancel), wait.then_some(device))
        }
        DeviceCommand::Remove {
            node,
            device,
            give_up,
        } => {
            let device = number(client, &node, &device).await?;
            (node, DeviceChange::Remove { device, give_up }, None)
        }
        DeviceCommand::Replace {
            node,
            device,
            path,
            tier,
            wait,
        } => {
            let old = number(client, &node, &device).await?;
            let change = DeviceChange::Add {
                path,
                tier: tier.document(),
                replaces: Some(old),
                journal_room: false,
            };
            (node, change, wait.then_some(old))
        }
    };
    Ok(order)
}

fn drain(device: u16, is_cancelled: bool) -> DeviceChange {
    if is_cancelled {
        DeviceChange::Resume { device }
    } else {
        DeviceChange::Drain { device }
    }
}

/// The number of the device that is meant.
async fn number(client: &ApiClient, node: &str, device: &str) -> Result<u16, Failure> {
    if let Ok(number) = device.parse() {
        return Ok(number);
    }
    let list = client.devices(node).await?;
    let mut devices = list.devices.iter();
    let found = devices.find(|known| known.path == device);
    found.map(|known| known.number).ok_or_else(|| {
        Failure::new(format!("{node} has no device {device}")).hint(format!(
            "`holdfast device list {node}` shows those that it has"
        ))
    })
}

/// A device that is drained; nothing once that is over.
fn draining(list: &DeviceList, number: u16) -> Option<&Device> {
    let mut devices = list.devices.iter();
    let device = devices.find(|device| device.number == number)?;
    let goes = matches!(device.state, DeviceState::Draining | DeviceState::Leaving);
    goes.then_some(device)
}

/// What has to go from it.
fn left_to_move(device: &Device) -> String {
    let left = bytes(device.used_bytes);
    match device.seconds_left {
        Some(seconds) => format!("{left} left to move: {}", about(seconds)),
        None => format!("{left} left to move"),
    }
}

fn show(output: &Output, list: &DeviceList) -> Result<(), Failure> {
    output.result(list, || text(list))
}

fn text(list: &DeviceList) -> String {
    if let Some(device) = &list.awaited_device {
        return awaits(device, list.awaited_cause);
    }
    if list.devices.is_empty() {
        return "the node's devices are not open\n".to_owned();
    }
    let rows: Vec<_> = list.devices.iter().map(row).collect();
    table(
        [
            "DEVICE", "PATH", "TIER", "STATE", "JOURNAL", "USED", "SIZE", "EMPTY IN",
        ],
        &rows,
    )
}

/// What an earlier version, or a later one, does not say is in the findings.
fn awaits(device: &str, cause: Option<AwaitedCause>) -> String {
    let (why, says) = match cause {
        Some(AwaitedCause::Missing) => (
            ", which is not there: it starts without it soon, if it can",
            "what may be done",
        ),
        Some(AwaitedCause::Needed) => (
            ", which is not there, and without which it cannot start",
            "what may be done",
        ),
        Some(AwaitedCause::Failed) => (
            ", which has failed, and without which it cannot start: it is tried again each minute",
            "what may be done",
        ),
        Some(AwaitedCause::CutShort) => (
            ", which is shorter than it was, and without which it cannot start",
            "what may be done",
        ),
        Some(AwaitedCause::Other) | None => ("", "why, and what may be done"),
    };
    format!(
        "the node waits for its device {device}{why}; its devices are not open meanwhile: `holdfast status --explain` \
         says {says}\n"
    )
}

fn journal(device: &Device) -> &'static str {
    match (device.journal, device.journal_room) {
        (true, _) => "yes",
        (false, true) => "room",
        (false, false) => "-",
    }
}

/// What is done with it; and that it is not there any more, if it was taken away under the node.
fn state(device: &Device) -> String {
    let gone = match device.detached.filter(|_| !device.is_absent) {
        Some(Detached::CutShort) => "cut short",
        Some(_) => "detached",
        None => return device.state.as_str().to_owned(),
    };
    match device.state {
        DeviceState::InUse => gone.to_owned(),
        state => format!("{}, {gone}", state.as_str()),
    }
}

fn row(device: &Device) -> [String; 8] {
    let is_kept = device.state == DeviceState::InUse || device.used_bytes == 0;
    let empty_in = match device.seconds_left {
        _ if is_kept => "-".to_owned(),
        Some(seconds) => about(seconds),
        None => "not known".to_owned(),
    };
    [
        device.number.to_string(),
        device.path.clone(),
        device.tier.as_str().to_owned(),
        state(device),
        journal(device).to_owned(),
        bytes(device.used_bytes),
        bytes(device.bytes),
        empty_in,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_until_a_drain_is_over() {
        let device = |number, state, used_bytes| Device {
            number,
            path: format!("/dev/{number}"),
            tier: DeviceTier::Flash,
            state,
            journal: number == 0,
            journal_room: number == 2,
            is_absent: false,
            bytes: 1 << 30,
            used_bytes,
            bytes_per_second: 1 << 20,
            seconds_left: (state == DeviceState::Draining).then_some(used_bytes >> 20),
            drain_bytes: None,
            bad_blocks: 0,
            detached: None,
            latency_p99_us: None,
        };
        let list = DeviceList {
            devices: vec![
                device(0, DeviceState::InUse, 5 << 20),
                device(1, DeviceState::Draining, 3 << 20),
                device(2, DeviceState::Drained, 0),
                device(4, DeviceState::Leaving, 0),
            ],
            awaited_device: None,
            awaited_cause: None,
        };
        let left = [0, 1, 2, 3, 4].map(|number| draining(&list, number).map(left_to_move));
        let told = "3 MiB left to move: about 3 s".to_owned();
        let gone = "0 B left to move".to_owned();
        assert_eq!(left, [None, Some(told), None, None, Some(gone)]);
        let text = text(&list);
        let line = |number| text.lines().nth(number).unwrap();
        assert!(line(2).contains("draining"), "{text}");
        assert!(line(2).ends_with("about 3 s"), "{text}");
        assert!(line(1).ends_with('-') && line(3).ends_with('-'), "{text}");
        assert!(line(3).contains("room"), "{text}");
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn a_device_that_was_taken_away_is_not_told_as_in_use() {
        let mut device = Device {
            number: 0,
            path: "/dev/0".to_owned(),
            tier: DeviceTier::Flash,
            state: DeviceState::InUse,
            journal: true,
            journal_room: false,
            is_absent: false,
            bytes: 1 << 30,
            used_bytes: 0,
            bytes_per_second: 0,
            seconds_left: None,
            drain_bytes: None,
            bad_blocks: 0,
            detached: None,
            latency_p99_us: None,
        };
        assert_eq!(row(&device)[3], "in-use");
        for (detached, told) in [
            (Detached::Nothing, "detached"),
            (Detached::Another, "detached"),
            (Detached::CutShort, "cut short"),
        ] {
            device.detached = Some(detached);
            assert_eq!(row(&device)[3], told);
        }
        device.state = DeviceState::Draining;
        assert_eq!(row(&device)[3], "draining, cut short");
        // The node does without it.
        (device.state, device.is_absent) = (DeviceState::Lost, true);
        assert_eq!(row(&device)[3], "lost");
    }

    #[test]
    fn why_a_device_is_waited_for_is_told() {
        let told = |awaited_cause| {
            text(&DeviceList {
                awaited_device: Some("/dev/9".to_owned()),
                awaited_cause,
                ..DeviceList::default()
            })
        };
        for (cause, why) in [
            (
                AwaitedCause::Missing,
                "is not there: it starts without it soon",
            ),
            (
                AwaitedCause::Needed,
                "is not there, and without which it cannot",
            ),
            (AwaitedCause::Failed, "has failed, and without which"),
            (
                AwaitedCause::CutShort,
                "is shorter than it was, and without which",
            ),
        ] {
            let told = told(Some(cause));
            let begins = format!("the node waits for its device /dev/9, which {why}");
            assert!(told.starts_with(&begins), "{told}");
            assert!(told.contains("says what may be done"), "{told}");
        }
        // It may have failed, or the node may never start without it.
        for unknown in [None, Some(AwaitedCause::Other)] {
            let told = told(unknown);
            assert!(told.contains("says why, and what may be done"), "{told}");
            assert!(!told.contains("there") && !told.contains("without"));
        }
    }
}
