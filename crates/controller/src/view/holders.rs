//! Why nobody serves a slice, in words: what is the matter with each replica that might.

use holdfast_api::documents::{
    Device, LocalCondition, LocalMetadata, Remedy, ReplicaCondition, Wait,
};
use holdfast_control::Inventory;
use holdfast_model::NodeId;
use holdfast_model::record::SliceRecord;

use super::causes::{Group, Holder};
use super::device_findings::{called, lacking};
use super::explain::{
    has_nothing, may_lead, metadata_remedies, metadata_words, names, remedy, wait,
};
use super::{absence, last, name};
use crate::reports::Reports;

/// Whether a node says that it has lost what it held of a slice.
pub(super) fn has_lost(reports: &Reports, record: &SliceRecord, node: NodeId) -> bool {
    let replica = reports.replica(node, record.slice);
    let condition = replica.and_then(|replica| replica.condition.as_ref());
    condition.is_some_and(|condition| has_nothing(condition.what))
}

/// What is wrong.
pub(crate) fn what(
    inventory: &Inventory,
    needed: usize,
    holders: &[(NodeId, Holder)],
    group: &Group,
) -> String {
    let nodes: Vec<NodeId> = holders.iter().map(|(node, _)| *node).collect();
    let epochs = match group.epochs {
        Some((low, high)) if low != high => format!("epochs {} to {}", low.0, high.0),
        Some((epoch, _)) => format!("epoch {}", epoch.0),
        None => "no epoch".to_owned(),
    };
    let who = match (holders.len(), needed) {
        (1, _) => format!("only {} was in sync in {epochs}", names(inventory, &nodes)),
        (all, needed) => format!(
            "of {}, which were in sync in {epochs}, {} to be there",
            names(inventory, &nodes),
            match needed {
                1 => "1 has".to_owned(),
                needed if needed == all => "every one has".to_owned(),
                needed => format!("{needed} have"),
            }
        ),
    };
    let each = holders
        .iter()
        .map(|(node, holder)| format!("{} {}", name(inventory, *node), words(inventory, holder)));
    let each: Vec<String> = each.collect();
    format!("not served: {who}; {}", each.join("; "))
}

/// What is the matter with one of them, after its name.
fn words(inventory: &Inventory, holder: &Holder) -> String {
    match holder {
        Holder::Absent(absence) => match absence::silence(absence) {
            Some(words) => words.to_owned(),
            None => format!("is up, and {}", absence::words(absence)),
        },
        Holder::Astray(metadata, why) => metadata_words(*metadata, why.as_ref()),
        Holder::Unready => "is up, and has not taken it up yet".to_owned(),
        Holder::Follows => "follows another one, and is about to find that nobody leads".to_owned(),
        Holder::Says(says) => said(inventory, says),
    }
}

fn said(inventory: &Inventory, says: &LocalCondition) -> String {
    let nodes: Vec<NodeId> = says.nodes.iter().map(|node| NodeId(*node)).collect();
    let nodes = names(inventory, &nodes);
    match says.what {
        ReplicaCondition::Stuck => format!("leads, and waits for {nodes}"),
        ReplicaCondition::Begins if says.nodes.is_empty() => {
            "is about to lead, when its own disk has written".to_owned()
        }
        ReplicaCondition::Begins => format!("is to lead, and cannot without {nodes}"),
        ReplicaCondition::Queued => "wants to lead, and waits for its turn".to_owned(),
        ReplicaCondition::Asks if says.nodes.is_empty() => {
            "wants to lead, when a lease has ended".to_owned()
        }
        ReplicaCondition::Asks => format!("wants to lead, and asks {nodes} how far they are"),
        ReplicaCondition::StandsBack => format!("lets {nodes} lead, which is further"),
        ReplicaCondition::Doubts => format!(
            "does not lead for a minute without having heard {nodes}: its journal ended in a bad group, \
             and something may be missing"
        ),
        ReplicaCondition::Proposes => "wants to lead, and waits for the metadata".to_owned(),
        ReplicaCondition::Joins => format!("is being brought up to date by {nodes}"),
        ReplicaCondition::Offers => "is not in sync".to_owned(),
        ReplicaCondition::NoRoom => "is not in sync, and waits for room on its node".to_owned(),
        ReplicaCondition::Damaged => {
            "has lost something durable, and cannot lead: it has to be copied from another"
                .to_owned()
        }
        ReplicaCondition::Lacks => {
            "lacks what was on a device that is absent, and cannot lead: another copy has to bring it, or the \
             device has to be there again when the node starts"
                .to_owned()
        }
        ReplicaCondition::OtherStore => {
            "has other devices than those that held it, and cannot lead".to_owned()
        }
        ReplicaCondition::Unnamed => "holds none of it any more".to_owned(),
        ReplicaCondition::Unrecorded => {
            "finds no record of it in the metadata, or one from before".to_owned()
        }
        ReplicaCondition::Other => "is up, and does not lead".to_owned(),
    }
}

/// What is waited for: as soon as enough of it has come, the slice is served.
pub(crate) fn waits_for(
    inventory: &Inventory,
    reports: &Reports,
    holders: &[(NodeId, Holder)],
) -> Vec<Wait> {
    if let Some(asked) = reports.disbelieving_asked() {
        // Who leads by other metadata cannot be told from this.
        let asked = name(inventory, asked);
        return vec![wait(format!(
            "{asked}, which was asked, to follow the metadata again: what is told here is what it does not believe"
        ))];
    }
    let is_astray = |(_, holder): &(NodeId, Holder)| matches!(holder, Holder::Astray(..));
    // Who does not believe the metadata takes no part in who leads: nobody can say that it is a moment.
    let when = match holders.iter().any(is_astray) {
        true => "",
        false => ", in a moment",
    };
    let waits = holders.iter().filter_map(|(id, holder)| {
        let node = name(inventory, *id);
        let what = match holder {
            Holder::Absent(absence) => absence::waits_for(absence, &node),
            Holder::Astray(..) => format!("{node} to follow the metadata again"),
            Holder::Unready | Holder::Follows => format!("{node} to lead{when}"),
            Holder::Says(_) if !may_lead(holder) => return None,
            Holder::Says(says) => {
                let others = says
                    .nodes
                    .iter()
                    .map(|node| NodeId(*node))
                    .collect::<Vec<_>>();
                match says.what {
                    ReplicaCondition::Begins | ReplicaCondition::Asks if !others.is_empty() => {
                        format!("{} to answer {node}", names(inventory, &others))
                    }
                    ReplicaCondition::Doubts => format!(
                        "{} to answer {node}, or a minute from its start",
                        names(inventory, &others)
                    ),
                    ReplicaCondition::Proposes => format!("the metadata to answer {node}"),
                    ReplicaCondition::Lacks => what_lacks(reports, *id, &node, holders.len() == 1),
                    _ => format!("{node} to lead{when}"),
                }
            }
        };
        Some(wait(what))
    });
    let waits: Vec<Wait> = waits.collect();
    if waits.is_empty() {
        let nodes: Vec<NodeId> = holders.iter().map(|(node, _)| *node).collect();
        let nodes = names(inventory, &nodes);
        return vec![wait(format!("the devices of {nodes} as they were"))];
    }
    waits
}

/// What a node waits for that lacks what was on a device.
fn what_lacks(reports: &Reports, id: NodeId, node: &str, is_only: bool) -> String {
    match (is_only, lacking(reports, id).next()) {
        (true, None) => format!("{node} to be started again"),
        (true, Some(_)) => {
            format!("the device that is absent to be there again when {node} starts")
        }
        (false, _) => {
            format!("what {node} lacks: from another copy, or from the device that is absent")
        }
    }
}

/// What an operator may do.
pub(crate) fn remedies(
    inventory: &Inventory,
    reports: &Reports,
    holders: &[(NodeId, Holder)],
    group: &Group,
) -> Vec<Remedy> {
    if let Some(asked) = reports.disbelieving_asked() {
        let believes = |node: &&NodeId| reports.metadata(**node) == Some(LocalMetadata::Followed);
        let elsewhere = inventory.nodes.keys().find(believes).map(|node| {
            let node = name(inventory, *node);
            remedy(format!(
                "ask {node}, which believes the metadata that it reaches, how the volumes are (`--api`; `holdfast node \
                 list` tells where it answers)"
            ))
        });
        let why = reports.astray(asked);
        let helps = metadata_remedies(LocalMetadata::Behind, why, &name(inventory, asked));
        return elsewhere.into_iter().chain(helps).collect();
    }
    let mut remedies = Vec::new();
    for (id, holder) in holders {
        let node = name(inventory, *id);
        match holder {
            Holder::Absent(absence) => {
                let last = last::volumes(inventory, reports, *id);
                remedies.extend(absence::helps(absence, &node, &last));
            }
            Holder::Astray(metadata, why) => {
                // That of one node may be that of the others.
                let mut more = metadata_remedies(*metadata, why.as_ref(), &node);
                more.retain(|one| !remedies.contains(one));
                remedies.extend(more);
            }
            Holder::Unready | Holder::Follows | Holder::Says(_) => {}
        }
    }
    let lacks = |holder: &Holder| matches!(holder, Holder::Says(says) if says.what == ReplicaCondition::Lacks);
    let able = holders.iter().filter(|(_, holder)| may_lead(holder));
    if able.clone().all(|(_, holder)| lacks(holder)) {
        for (node, _) in able.clone() {
            remedies.extend(made_good(inventory, reports, *node));
        }
    }
    if able.count() == 0 {
        let nodes: Vec<NodeId> = holders.iter().map(|(node, _)| *node).collect();
        remedies.push(lost(inventory, &nodes, group));
    }
    remedies
}

/// What helps a node that lacks what was on a device, where no other copy can bring it.
fn made_good(inventory: &Inventory, reports: &Reports, node: NodeId) -> Vec<Remedy> {
    let absent: Vec<&Device> = lacking(reports, node).collect();
    let node = name(inventory, node);
    let mut remedies = Vec::new();
    for device in &absent {
        let called = called(device);
        remedies.push(remedy(format!(
            "put {called} back into {node}, and start {node} again"
        )));
        remedies.push(Remedy {
            what: format!(
                "if {called} is gone for good: give up what only it had, which is LOST with that, and start {node} again"
            ),
            command: Some(format!(
                "holdfast device remove {node} {} --give-up",
                device.number
            )),
        });
    }
    if absent.is_empty() {
        remedies.push(remedy(format!(
            "start {node} again: it leads with what it has then, if what it lacks was given up"
        )));
    }
    remedies
}

/// Nobody has what was acknowledged last. Older copies are led by no order: neither by `holdfast recover`.
fn lost(inventory: &Inventory, nodes: &[NodeId], group: &Group) -> Remedy {
    let nodes = names(inventory, nodes);
    let mut what = format!(
        "put the devices back into {nodes} that held it; if they are gone for good, what was on these slices is LOST"
    );
    let older: Vec<NodeId> = group.older.iter().copied().collect();
    if !older.is_empty() {
        let older = names(inventory, &older);
        what.push_str(&format!(
            ": {older} may hold older copies, without what was written since, and no command of this version has hosts served from \
             them (`holdfast recover` neither); they stay on the devices of {older} until the volume is deleted"
        ));
    }
    what.push_str(
        "; delete the volume then (`holdfast volume delete`), make it anew, and bring it back from a backup of the hosts",
    );
    remedy(what)
}
