//! Causes in words: what is wrong, what is waited for, and what an operator may do.
//!
//! Invariants:
//! - nothing that loses data is proposed without saying so;
//! - what goes on by itself is told apart from what does not.

use holdfast_api::Problem;
use holdfast_api::documents::{
    Astray, Explanation, Finding, FindingKind, Health, LocalMetadata, LocalReport, NodeFindings,
    Protection, Rejected, Remedy, ReplicaCondition, VolumeFindings, Wait,
};
use holdfast_control::{Inventory, Part};
use holdfast_model::record::{NodeStanding, VolumeRecord};
use holdfast_model::{NodeId, Policy};
use holdfast_stdx::Count;

use super::assessed::{self, Assessed};
use super::causes::{Cause, Group, Holder, Past};
use super::prospect::Prospect;
use super::work;
use super::{absence, crowded, holders, last, metadata, name, node_findings, protection};
use crate::reports::{Absence, Reports};
use crate::trust::removal;

/// Why the cluster is not healthy.
pub(crate) fn explain(inventory: &Inventory, reports: &Reports) -> Explanation {
    explained(inventory, reports, &assessed::all(inventory, reports))
}

/// The same, where the volumes have been looked at.
pub(super) fn explained(
    inventory: &Inventory,
    reports: &Reports,
    volumes: &[Assessed<'_>],
) -> Explanation {
    let mut nodes: Vec<NodeFindings> = rejected(inventory, reports).into_iter().collect();
    for node in inventory.nodes.values() {
        let findings = node_findings::of(inventory, reports, node);
        if !findings.is_empty() {
            nodes.push(NodeFindings {
                node: node.name.clone(),
                findings,
            });
        }
    }
    let found = volumes.iter();
    let found = found.filter_map(|volume| of_volume(inventory, reports, volume));
    let mut found: Vec<VolumeFindings> = found.collect();
    found.sort_by(|one, other| one.volume.cmp(&other.volume));
    Explanation {
        protection: protection::of(inventory, reports, volumes),
        metadata: metadata::findings(reports, |node| name(inventory, node)),
        nodes,
        volumes: found,
        revision: inventory.revision.0,
        known: None,
    }
}

/// What a node knows by itself, where the metadata cannot be read, and why.
pub(crate) fn unreached(report: &LocalReport, problem: &Problem) -> Explanation {
    let serving = report.slices.iter().filter(|slice| slice.serving).count();
    let own = if report.open {
        format!(
            "this node holds {} and serves {}, which goes on as long as their other copies are there",
            Count::of(report.slices.len(), "replica"),
            Count::of(serving, "slice")
        )
    } else {
        "the devices of this node are not open yet, or have failed: it serves nothing until they are open".to_owned()
    };
    let what = format!(
        "{}: it is not known how the other nodes are; {own}",
        problem.detail
    );
    let finding = Finding {
        waits_for: vec![wait("the metadata of the cluster")],
        remedies: problem.hint.as_deref().into_iter().map(remedy).collect(),
        ..node_findings::finding(FindingKind::MetadataLost, what)
    };
    let waits_for = finding.waits_for.clone();
    let alone = Reports::of([report.clone()]);
    Explanation {
        metadata: metadata::findings(&alone, |_| report.name.clone()),
        protection: Protection {
            waits_for,
            ..Protection::default()
        },
        nodes: vec![NodeFindings {
            node: report.name.clone(),
            findings: vec![finding],
        }],
        ..Explanation::default()
    }
}

/// What the node in this process knows of itself, where another process is the node of its number. To remove a node
/// that is well is no advice, nor is to take its place before it is stopped. That one was removed is no harm to the
/// cluster.
fn rejected(inventory: &Inventory, reports: &Reports) -> Option<NodeFindings> {
    let report = reports.rejected()?;
    let Rejected {
        mut why,
        mut remedies,
    } = report.rejected.clone()?;
    let well = inventory
        .nodes
        .values()
        .filter(|node| reports.is_up(node.node));
    for node in well {
        let remove = removal(&node.name);
        remedies.retain(|remedy| !remedy.contains(&remove));
        if node.node.0 != report.node {
            continue;
        }
        why.push_str(&format!("; {} answers at {} now", node.name, node.api));
        let in_its_place = remedies.iter_mut().filter(|it| it.contains("`take-over`"));
        for remedy in in_its_place {
            let stop = format!(
                "stop the machine that answers as {} first, then ",
                node.name
            );
            remedy.insert_str(0, &stop);
        }
    }
    let last = last::volumes(inventory, reports, NodeId(report.node));
    if !last.is_empty() {
        let node = name(inventory, NodeId(report.node));
        let in_its_place = remedies.iter_mut().filter(|it| it.contains("`take-over`"));
        in_its_place.for_each(|remedy| remedy.push_str(&last::warning(&node, &last)));
    }
    let finding = node_findings::finding(FindingKind::NotRegistered, why);
    let finding = Finding {
        waits_for: vec![wait("an operator")],
        remedies: remedies.into_iter().map(remedy).collect(),
        health: match inventory.part_of(NodeId(report.node)) {
            Part::Of(NodeStanding::Removed) => Health::Healthy,
            _ => finding.health,
        },
        ..finding
    };
    Some(NodeFindings {
        node: format!("{} (this node)", report.name),
        findings: vec![finding],
    })
}

fn of_volume(
    inventory: &Inventory,
    reports: &Reports,
    assessed: &Assessed<'_>,
) -> Option<VolumeFindings> {
    let volume = assessed.volume;
    let causes = assessed.causes.iter().map(|(cause, group)| Finding {
        slices: u32::try_from(group.indexes.len()).unwrap_or(u32::MAX),
        indexes: runs(&group.indexes),
        work: (!group.missing.is_empty()).then(|| work::sum(reports, &group.missing)),
        waits_for: waits_for(inventory, reports, cause, group),
        remedies: remedies(inventory, reports, cause, group),
        ..node_findings::finding(kind(cause), what(inventory, volume, cause, group))
    });
    let mut findings: Vec<Finding> = causes.collect();
    findings.extend(crowded::of_volume(inventory, reports, assessed));
    (!findings.is_empty()).then(|| VolumeFindings {
        volume: volume.name.clone(),
        health: assessed.health(),
        findings,
    })
}

fn kind(cause: &Cause) -> FindingKind {
    match cause {
        Cause::NotServed { .. } => FindingKind::NotServed,
        Cause::WritesWait { .. } => FindingKind::WritesWait,
        Cause::BadBlocks { .. } => FindingKind::BadBlocks,
        Cause::Silent { .. } => FindingKind::NodeSilent,
        Cause::Down { .. } => FindingKind::NodeDown,
        Cause::Syncing { .. } => FindingKind::Syncing,
        Cause::TooFew { .. } => FindingKind::NoPlace,
    }
}

fn what(inventory: &Inventory, volume: &VolumeRecord, cause: &Cause, group: &Group) -> String {
    let policy = volume.policy;
    match cause {
        Cause::NotServed { needed, holders } => holders::what(inventory, *needed, holders, group),
        Cause::WritesWait { lost } => format!(
            "nothing is written, nor read: without {} fewer copies would be left than the {} that {policy} writes to at least",
            names(inventory, lost),
            policy.copies_min()
        ),
        Cause::BadBlocks { on, is_mended } => {
            let blocks = Count::of(group.bad_blocks, "block");
            let others = match (is_mended, on.len()) {
                (false, 1) => ", and no other copy that is there has what was in them",
                _ => "",
            };
            format!(
                "{blocks} {} known to be bad on {}{others}",
                blocks.choose("is", "are"),
                names(inventory, on)
            )
        }
        Cause::Silent { node, absence } => format!(
            "{} {}, and its copy counts as good still",
            name(inventory, *node),
            absence::words(absence)
        ),
        Cause::Down { node, absence, .. } => {
            let node = name(inventory, *node);
            match absence::silence(absence) {
                Some(words) => format!("{node} {words}, and with it one of the copies of {policy}"),
                None => format!(
                    "{node} {}; {} in sync without it",
                    absence::words(absence),
                    copies_in_sync(policy, group)
                ),
            }
        }
        Cause::Syncing { node, past } => {
            let node = name(inventory, *node);
            match past {
                Past::NoRoom => {
                    format!(
                        "the copy on {node} cannot be brought up to date: {node} has no room for it"
                    )
                }
                Past::Known => format!("the copy on {node} is being brought up to date"),
                Past::New => format!("a copy is being made on {node}"),
                Past::Damaged => format!(
                    "the copy on {node} is made anew: something durable was lost from its journal"
                ),
                Past::Lacking => format!(
                    "the copy on {node} is made good: a part of it was on a device that is absent"
                ),
                Past::Emptied => {
                    format!("the copy on {node} is made anew: its devices are not those of before")
                }
            }
        }
        Cause::TooFew { .. } => format!("there are fewer copies than {policy} says"),
    }
}

/// How many copies are in sync, of how many, as in "1 of the 2 copies of mirror2 is".
fn copies_in_sync(policy: Policy, group: &Group) -> String {
    let (low, high) = group.in_sync.unwrap_or_default();
    let verb = if high == 1 { "is" } else { "are" };
    let some = if low == high {
        low.to_string()
    } else {
        format!("{low} to {high}")
    };
    let all = policy.copies();
    if all == 1 {
        return "a whole copy is".to_owned();
    }
    format!("{some} of the {all} copies of {policy} {verb}")
}

/// What a cause waits for.
pub(super) fn waits_for(
    inventory: &Inventory,
    reports: &Reports,
    cause: &Cause,
    group: &Group,
) -> Vec<Wait> {
    match cause {
        Cause::NotServed { holders, .. } => holders::waits_for(inventory, reports, holders),
        Cause::WritesWait { lost } => {
            vec![wait(format!("{} to come back", names(inventory, lost)))]
        }
        Cause::BadBlocks { on, is_mended } => {
            let on = names(inventory, on);
            vec![wait(if *is_mended {
                format!("the bad blocks on {on} to be fetched from another copy, if that has them")
            } else {
                format!("the bad blocks on {on} to be written anew: no copy is known to have them")
            })]
        }
        Cause::Silent {
            node,
            absence: Absence::Down,
        } => vec![wait(format!("{} to answer", name(inventory, *node)))],
        Cause::Silent { node, absence } => {
            let node = name(inventory, *node);
            vec![wait(absence::waits_for(absence, &node))]
        }
        Cause::Down {
            node,
            absence,
            prospect,
        } => vec![down(&name(inventory, *node), absence, *prospect)],
        Cause::Syncing {
            node,
            past: Past::NoRoom,
        } => {
            let lacking = work::sum(reports, &group.missing).bytes;
            let free = reports.room(*node).map_or(0, |room| room.free_bytes());
            let node = name(inventory, *node);
            vec![wait(format!(
                "room on {node}: up to {lacking} bytes are to be copied there, and {free} are free"
            ))]
        }
        Cause::Syncing { node, .. } => vec![Wait {
            what: format!("{} to have everything", name(inventory, *node)),
            seconds_left: work::sum(reports, &group.missing).seconds_left,
        }],
        Cause::TooFew { has_place: true } => {
            vec![wait("a node to be chosen for one more copy")]
        }
        Cause::TooFew { has_place: false } => vec![wait("another node with room")],
    }
}

fn down(node: &str, absence: &Absence, prospect: Prospect) -> Wait {
    let back = absence::waits_for(absence, node);
    let held = absence::silence(absence).map_or(node, |_| "it");
    let elsewhere = || format!("{back}; else what {held} held is rebuilt elsewhere");
    let (what, seconds_left) = match prospect {
        Prospect::Due => (
            format!("what {node} held to be rebuilt elsewhere, each slice in its turn"),
            None,
        ),
        Prospect::In(seconds) => (elsewhere(), Some(seconds)),
        Prospect::Later => (format!("{}, after the repair delay", elsewhere()), None),
        Prospect::NoPlace => (
            format!("{back}: no other node is up, without a copy, and has room"),
            None,
        ),
        Prospect::Maintenance => (
            format!("{back}: it is in maintenance, nothing of it is rebuilt elsewhere"),
            None,
        ),
    };
    Wait { what, seconds_left }
}

fn remedies(inventory: &Inventory, reports: &Reports, cause: &Cause, group: &Group) -> Vec<Remedy> {
    let helps = |node: NodeId, absence: &Absence| {
        let last = last::volumes(inventory, reports, node);
        absence::helps(absence, &name(inventory, node), &last)
    };
    match cause {
        Cause::NotServed { holders, .. } => holders::remedies(inventory, reports, holders, group),
        Cause::WritesWait { lost } => {
            let helps = |node: &NodeId| {
                let absence = reports.absence(*node).unwrap_or(Absence::Down);
                helps(*node, &absence)
            };
            lost.iter().flat_map(helps).collect()
        }
        Cause::BadBlocks {
            is_mended: true, ..
        }
        | Cause::TooFew { has_place: true } => Vec::new(),
        Cause::Syncing {
            node,
            past: Past::NoRoom,
        } => make_room(&name(inventory, *node)),
        Cause::Syncing { .. } => Vec::new(),
        Cause::BadBlocks {
            is_mended: false, ..
        } => {
            let mut remedies = Vec::new();
            let mut nodes = inventory.nodes.keys();
            if nodes.any(|node| !reports.is_up(*node)) {
                remedies.push(remedy("start nodes that are down and may have the blocks"));
            }
            remedies.push(remedy(
                "if nobody else has them, what was in them is LOST: write them anew from the hosts, from a backup if need be. Reading \
                 one of them is a MEDIUM ERROR with its address until then",
            ));
            remedies
        }
        Cause::Silent { node, absence } => helps(*node, absence),
        // It is there, and what it lacks is mended with it.
        Cause::Down { node, absence, .. } if absence::silence(absence).is_none() => {
            helps(*node, absence)
        }
        Cause::Down { node, prospect, .. } => {
            let delay = inventory.settings.record.repair_delay_seconds;
            when_down(&name(inventory, *node), *prospect, delay)
        }
        Cause::TooFew { has_place: false } => vec![add_node()],
    }
}

/// A repair delay, in seconds, that is short and still no restart is longer than: proposed to those who
/// have a longer one.
const SHORT_DELAY_SECONDS: u64 = 5 * 60;

fn when_down(node: &str, prospect: Prospect, delay_seconds: u64) -> Vec<Remedy> {
    let mut remedies = vec![start(node)];
    match prospect {
        Prospect::Due => {}
        Prospect::In(_) | Prospect::Later => {
            remedies.push(Remedy {
                what: format!("if {node} is not to come back: rebuild elsewhere what it held, now"),
                command: Some(format!("holdfast node drain {node}")),
            });
            if delay_seconds > SHORT_DELAY_SECONDS {
                remedies.push(Remedy {
                    what: "rebuild what silent nodes held sooner".to_owned(),
                    command: Some("holdfast settings set --repair-delay 5m".to_owned()),
                });
            }
        }
        Prospect::NoPlace => remedies.push(add_node()),
        Prospect::Maintenance => remedies.push(Remedy {
            what: format!("end the maintenance of {node}: what it held is rebuilt elsewhere then"),
            command: Some(format!("holdfast node maintenance off {node}")),
        }),
    }
    remedies
}

/// What an operator may do about a node that is full: the copy goes on by itself then, or is made elsewhere.
fn make_room(node: &str) -> Vec<Remedy> {
    vec![
        Remedy {
            what: format!("give {node} one more device"),
            command: Some(format!("holdfast device add {node} PATH")),
        },
        remedy("let hosts unmap what they do not need, or delete a volume that nobody needs"),
        Remedy {
            what: "call off a drain because of which the copy is made there".to_owned(),
            command: Some("holdfast node drain NAME --cancel".to_owned()),
        },
        add_node(),
    ]
}

pub(crate) fn add_node() -> Remedy {
    Remedy {
        what: "start one more node, and admit it; or make room on those there are".to_owned(),
        command: Some("holdfast node add NAME".to_owned()),
    }
}

pub(crate) fn add_elsewhere() -> Remedy {
    Remedy {
        what: "start one more node, in a failure domain that has no copy, and admit it".to_owned(),
        command: Some("holdfast node add NAME".to_owned()),
    }
}

pub(crate) fn start(node: &str) -> Remedy {
    remedy(format!(
        "start {node}: on its machine `systemctl start holdfast-node`; one of a demo by the line that the demo printed when it \
         ended (`command` in `demo.json`)"
    ))
}

pub(crate) fn remedy(what: impl Into<String>) -> Remedy {
    Remedy {
        what: what.into(),
        command: None,
    }
}

pub(crate) fn wait(what: impl Into<String>) -> Wait {
    Wait {
        what: what.into(),
        seconds_left: None,
    }
}

/// Nodes as people name them: "n1 and n3".
pub(crate) fn names(inventory: &Inventory, nodes: &[NodeId]) -> String {
    let names: Vec<String> = nodes.iter().map(|node| name(inventory, *node)).collect();
    listed(&names)
}

/// Several as people name them: "n1 and n3".
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => "others".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Numbers in order as runs: "0-3 7". Of many runs the first are told.
pub(crate) fn runs(indexes: &[u32]) -> String {
    const RUNS_MAX: usize = 16;
    let runs = indexes.chunk_by(|one, next| one + 1 == *next);
    let mut told: Vec<String> = runs
        .clone()
        .take(RUNS_MAX)
        .map(|run| match run {
            [one] => one.to_string(),
            run => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    if runs.count() > RUNS_MAX {
        told.push("...".to_owned());
    }
    told.join(" ")
}

/// What is the matter between a node and the metadata, after the node's name. `why` it does not believe it, earlier
/// versions do not say.
pub(crate) fn metadata_words(metadata: LocalMetadata, why: Option<&Astray>) -> String {
    match (metadata, why) {
        (LocalMetadata::Followed, _) => "follows the metadata".to_owned(),
        (LocalMetadata::Unreached, _) => "does not reach the metadata".to_owned(),
        (LocalMetadata::Behind, Some(Astray { why, .. })) => {
            format!("does not believe the metadata: {why}")
        }
        (LocalMetadata::Behind, None) => {
            "does not believe the metadata, which has gone back, or is another cluster's".to_owned()
        }
    }
}

/// What an operator may do where a node called `name` does not follow the metadata.
pub(crate) fn metadata_remedies(
    metadata: LocalMetadata,
    why: Option<&Astray>,
    name: &str,
) -> Vec<Remedy> {
    match (metadata, why) {
        (LocalMetadata::Behind, Some(Astray { remedies, .. })) => {
            remedies.iter().map(remedy).collect()
        }
        (LocalMetadata::Behind, None) => vec![remedy(format!(
            "the log of {name} says why it does not believe it, and what may be done"
        ))],
        _ => vec![remedy(format!(
            "look at the way from {name} to the metadata; its log tells what it tries"
        ))],
    }
}

/// Whether anybody of these could lead if its node were well.
pub(crate) fn may_lead(holder: &Holder) -> bool {
    !matches!(holder, Holder::Says(says) if has_nothing(says.what))
}

/// Whether a replica that says so has lost what it held.
pub(super) const fn has_nothing(condition: ReplicaCondition) -> bool {
    matches!(
        condition,
        ReplicaCondition::Damaged | ReplicaCondition::OtherStore | ReplicaCondition::Unnamed
    )
}
