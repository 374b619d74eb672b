//! What there is to know about a node, apart from what follows from it for volumes.

use holdfast_api::documents::{
    Finding, FindingKind, Health, LocalMetadata, NodeStanding, Remedy, RoomLevel,
};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::NodeRecord;
use holdfast_stdx::Count;

use super::alerts::weight;
use super::explain::{metadata_remedies, metadata_words, remedy, start, wait};
use super::{absence, bad_blocks, device_findings, drain, last, standing};
use crate::reports::{Absence, Reports};

/// How it is with metadata that is full.
pub(crate) const METADATA_FULL: &str = "is full: etcd takes no change, so no volume is made, no dead node is taken out, \
                                        no slice is taken over";
/// What is said of a node that does not answer where it is not known for how long, or is not to matter.
pub(crate) const SILENT: &str = "it does not answer";
/// The same of one that was stopped.
pub(crate) const STOPPED: &str = "it was stopped";
/// For how long a node that was told to stop is not lost: longer than a machine takes to start.
pub(crate) const STOPPED_SECONDS: u64 = 600;
/// What helps where the metadata is full.
pub(crate) const METADATA_ROOM: &str = "compact etcd's history, then `etcdctl defrag` for each member, then `etcdctl alarm \
                                        disarm`; if it is full again soon, raise its quota";

/// Whether a node on which nothing can be relied is lost: it matters as much as the alarm that is raised if that lasts. It is not where
/// it was told to stop, has just started, is away for maintenance, or is no part of the cluster. That one ends again and again while
/// it starts, an alarm alone tells.
pub(crate) fn is_lost(inventory: &Inventory, reports: &Reports, node: NodeId) -> bool {
    let Some(absence) = reports.absence(node) else {
        return false;
    };
    match (standing(inventory, node), absence) {
        (NodeStanding::Removed | NodeStanding::Waiting, _) | (_, Absence::Opening) => false,
        (NodeStanding::Maintenance, Absence::Down | Absence::Stopped | Absence::Unregistered) => {
            false
        }
        (_, Absence::Stopped) => {
            let silence = reports.silence(node).map_or(0, |it| it.0);
            silence >= STOPPED_SECONDS
        }
        (_, Absence::Unregistered) => !reports.has_just_started(node),
        _ => true,
    }
}

/// What there is to know.
pub(crate) fn of(inventory: &Inventory, reports: &Reports, record: &NodeRecord) -> Vec<Finding> {
    let (node, name) = (record.node, record.name.as_str());
    let mut findings = Vec::new();
    match standing(inventory, node) {
        NodeStanding::Removed => return findings,
        NodeStanding::Waiting => return vec![waiting(name)],
        NodeStanding::Maintenance => findings.push(maintenance(name)),
        NodeStanding::Draining => findings.push(draining(inventory, reports, node, name)),
        NodeStanding::Active => {}
    }
    let metadata = reports.metadata(node).unwrap_or_default();
    let last = || last::volumes(inventory, reports, node);
    match (reports.absence(node), metadata) {
        (Some(absence), _) if absence::silence(&absence).is_some() => {
            findings.push(silent(&absence, reports.silence(node), name, &last()));
        }
        (None, LocalMetadata::Followed) => {
            let isolation = reports.isolation(node);
            findings.extend(isolation.map(|estranged| absent(&estranged, name, &last())));
        }
        (None, _) | (Some(Absence::Disbelieves(_)), _) => {
            findings.push(astray(reports, node, name, metadata));
        }
        (Some(absence), _) => findings.push(absent(&absence, name, &last())),
    }
    if reports.metadata_full(node) {
        findings.push(metadata_full());
    }
    findings.extend(device_findings::of(reports, record));
    findings.extend(bad_blocks::of(inventory, reports, record));
    findings.extend(full(reports, node, name));
    findings
}

pub(crate) fn finding(kind: FindingKind, what: String) -> Finding {
    Finding {
        kind,
        health: weight(kind),
        what,
        slices: 0,
        indexes: String::new(),
        work: None,
        waits_for: Vec::new(),
        remedies: Vec::new(),
    }
}

pub(crate) fn command(what: String, command: String) -> Remedy {
    Remedy {
        what,
        command: Some(command),
    }
}

fn waiting(name: &str) -> Finding {
    let add = command(format!("admit {name}"), format!("holdfast node add {name}"));
    Finding {
        waits_for: vec![wait(format!("an operator to admit {name}"))],
        remedies: vec![add],
        ..finding(
            FindingKind::NotAdmitted,
            "it has registered, and is given nothing before it is admitted".to_owned(),
        )
    }
}

fn maintenance(name: &str) -> Finding {
    let off = command(
        format!("end the maintenance of {name}"),
        format!("holdfast node maintenance off {name}"),
    );
    Finding {
        remedies: vec![off],
        ..finding(
            FindingKind::Maintenance,
            "it is in maintenance: it leads nothing, and nothing of it is rebuilt elsewhere"
                .to_owned(),
        )
    }
}

fn draining(inventory: &Inventory, reports: &Reports, node: NodeId, name: &str) -> Finding {
    let held = inventory.held_by(node).len();
    let left = Count::of(held, "replica");
    let cancel = |what: &str| {
        let order = format!("holdfast node drain {name} --cancel");
        command(what.to_owned(), order)
    };
    if held == 0 {
        let remove = command(
            format!("take {name} out of the cluster"),
            format!("holdfast node remove {name}"),
        );
        return Finding {
            remedies: vec![remove, cancel("have it take copies again after all")],
            ..finding(
                FindingKind::Draining,
                "it is drained, and can go".to_owned(),
            )
        };
    }
    let mut waits_for = vec![wait(format!("{left} to move away"))];
    let (obstacles, mut remedies) = drain::obstacles(inventory, reports, node);
    waits_for.extend(obstacles);
    remedies.push(cancel("let what is there stay after all"));
    Finding {
        waits_for,
        remedies,
        ..finding(
            FindingKind::Draining,
            format!(
                "it is being drained: {left} {} there still",
                left.choose("is", "are")
            ),
        )
    }
}

/// A node that does not answer, for how many seconds, or for longer.
fn silent(absence: &Absence, silence: Option<(u64, bool)>, name: &str, last: &[String]) -> Finding {
    let since = silence.map(|(seconds, is_longer)| {
        let or_longer = if is_longer { " at least" } else { "" };
        format!("has not answered for {seconds} s{or_longer}")
    });
    let what = match (absence, since) {
        (Absence::Stopped, Some(since)) => format!("{STOPPED}, and {since}"),
        (Absence::Stopped, None) => STOPPED.to_owned(),
        (_, Some(since)) => format!("it {since}"),
        (_, None) => SILENT.to_owned(),
    };
    let replace = match last {
        [] => replace(name),
        last => last::bring_back(name, last),
    };
    Finding {
        waits_for: vec![wait(absence::waits_for(absence, name))],
        remedies: vec![start(name), replace],
        ..finding(FindingKind::NodeDown, what)
    }
}

fn replace(name: &str) -> Remedy {
    remedy(format!(
        "if the machine of {name} is gone for good: have a new one take its place (an empty file `take-over` in its \
         `directory`: \"A machine that is replaced\" in docs/deployment.md), or do without (\"A machine that goes for \
         good\")"
    ))
}

/// A node that answers, and on which nothing is relied; `last` are volumes of which it has the last good copy of something.
fn absent(absence: &Absence, name: &str, last: &[String]) -> Finding {
    let kind = match absence {
        Absence::Opening => FindingKind::NodeDown,
        Absence::Unregistered => FindingKind::NotRegisteredYet,
        Absence::Estranged(_) => FindingKind::MetadataLost,
        _ => FindingKind::DevicesFailed,
    };
    Finding {
        waits_for: vec![wait(absence::waits_for(absence, name))],
        remedies: absence::helps(absence, name, last),
        ..finding(kind, format!("it {}", absence::words(absence)))
    }
}

fn astray(reports: &Reports, node: NodeId, name: &str, metadata: LocalMetadata) -> Finding {
    let why = reports.astray(node);
    let words = metadata_words(metadata, why);
    Finding {
        waits_for: vec![wait(format!("{name} to follow the metadata again"))],
        remedies: metadata_remedies(metadata, why, name),
        ..finding(FindingKind::MetadataLost, format!("it {words}"))
    }
}

/// Whichever node says it: there is one metadata.
fn metadata_full() -> Finding {
    Finding {
        waits_for: vec![wait("an operator to make room in etcd")],
        remedies: vec![remedy(format!(
            "{METADATA_ROOM}; see \"When etcd is full\" in docs/deployment.md"
        ))],
        ..finding(
            FindingKind::MetadataFull,
            format!("the metadata that it reaches {METADATA_FULL}"),
        )
    }
}

fn full(reports: &Reports, node: NodeId, name: &str) -> Option<Finding> {
    let room = reports.room(node).filter(|_| reports.is_open(node))?;
    let (health, what) = match room.level() {
        RoomLevel::Roomy => return None,
        RoomLevel::Low => {
            let used = format!("{} % of its room are used", room.used_percent());
            (Health::Healthy, used)
        }
        RoomLevel::Full => {
            let full = "full: writes that need more room than is left are refused, and no copy can be made \
                        there";
            (weight(FindingKind::NoRoom), full.to_owned())
        }
    };
    let space = remedy(format!(
        "let hosts unmap what they do not need, add a node, or give {name} larger devices"
    ));
    let delete = command(
        "delete a volume that nobody needs: ALL ITS DATA IS LOST with that".to_owned(),
        "holdfast volume delete NAME".to_owned(),
    );
    Some(Finding {
        health,
        remedies: vec![space, delete],
        ..finding(FindingKind::NoRoom, what)
    })
}
