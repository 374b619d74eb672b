//! REGISTER, REGISTER AND IGNORE EXISTING KEY, REGISTER AND MOVE (SPC-4 5.12.7 and 5.12.8).

use alloc::vec::Vec;

use holdfast_model::NodeId;
use holdfast_model::record::{AccessNexus, AccessRecord, Registration};

use super::decide::{
    Refusal, Ruling, changed, check_key, check_room, put, release_if_unheld, remove, reservation,
};
use super::request::{Others, Out};
use super::transport_id::TransportId;
use crate::Sense;

/// REGISTER, or (`ignores_key`) REGISTER AND IGNORE EXISTING KEY.
pub(super) fn register(
    record: &AccessRecord,
    nexus: &AccessNexus,
    ports: &[NodeId],
    out: &Out,
    ignores_key: bool,
) -> Ruling {
    let key_of = |nexus| record.registration(nexus).map_or(0, |known| known.key);
    // Zero stands for no registration on either side.
    if !ignores_key && out.key != key_of(nexus) {
        return Err(Refusal::Conflict);
    }
    if let Others::Register(_) = &out.others
        && (key_of(nexus) != 0 || out.action_key == 0)
    {
        return Err(Refusal::Check(Sense::invalid_parameter(20, Some(3))));
    }
    let targets = targets(nexus, ports, out.all_target_ports);
    if out.action_key == 0 && targets.iter().all(|target| key_of(target) == 0) {
        return Ok(None);
    }
    // ALL_TG_PT: as if it had come through each port (SPC-4 6.16.3), so that it must not meet a key
    // there that it does not know.
    let is_known = |key| key == 0 || key == out.key || key == out.action_key;
    if !ignores_key && !targets.iter().all(|target| is_known(key_of(target))) {
        return Err(Refusal::Conflict);
    }
    let mut after = record.clone();
    after.persists = out.persists;
    if out.action_key == 0 {
        for target in &targets {
            remove(&mut after, target);
        }
        release_if_unheld(&mut after);
        return changed(after);
    }
    for nexus in targets {
        put(&mut after, registration(nexus, out));
    }
    register_others(&mut after, record, nexus, ports, out)?;
    check_room(&after)?;
    changed(after)
}

/// SPEC_I_PT: registers those who are not registered yet.
fn register_others(
    after: &mut AccessRecord,
    record: &AccessRecord,
    sender: &AccessNexus,
    ports: &[NodeId],
    out: &Out,
) -> Result<(), Refusal> {
    let Others::Register(ids) = &out.others else {
        return Ok(());
    };
    for id in ids {
        for initiator_port in initiator_ports(record, sender, id)? {
            for nexus in targets(&initiator_port, ports, out.all_target_ports) {
                if after.registration(&nexus).is_none() {
                    put(after, registration(nexus, out));
                }
            }
            // Not only at the end: a list may name many, and each on every port.
            check_room_so_far(after)?;
        }
    }
    Ok(())
}

fn check_room_so_far(after: &AccessRecord) -> Result<(), Refusal> {
    match after.registrations.len() > crate::limits::REGISTRATIONS_MAX {
        true => check_room(after),
        false => Ok(()),
    }
}

/// The initiator ports that a TransportID means, as they would be on the sender's target port. All
/// of a node's are those that are known (SPC-4 7.6.4.6): here those who are registered, and the
/// sender.
fn initiator_ports(
    record: &AccessRecord,
    sender: &AccessNexus,
    id: &TransportId,
) -> Result<Vec<AccessNexus>, Refusal> {
    let port = sender.port;
    let (initiator, mut isids) = match id {
        TransportId::Port { initiator, isid } => (initiator, alloc::vec![*isid]),
        TransportId::Node { initiator } => {
            let registered = record.registrations.iter().map(|known| &known.nexus);
            let known = registered.chain([sender]);
            let isids = known.filter(|known| known.initiator == *initiator);
            (initiator, isids.map(|known| known.isid).collect())
        }
    };
    isids.sort_unstable();
    isids.dedup();
    if isids.is_empty() {
        return Err(Refusal::Check(Sense::invalid_parameter(28, None)));
    }
    let nexus = |isid| AccessNexus {
        initiator: initiator.clone(),
        isid,
        port,
    };
    Ok(isids.into_iter().map(nexus).collect())
}

/// The nexus, or all of its initiator port.
fn targets(nexus: &AccessNexus, ports: &[NodeId], all_target_ports: bool) -> Vec<AccessNexus> {
    let mut targets = alloc::vec![nexus.clone()];
    if all_target_ports {
        let others = ports.iter().filter(|port| **port != nexus.port);
        targets.extend(others.map(|port| AccessNexus {
            port: *port,
            ..nexus.clone()
        }));
    }
    targets
}

fn registration(nexus: AccessNexus, out: &Out) -> Registration {
    Registration {
        nexus,
        key: out.action_key,
        all_target_ports: out.all_target_ports,
    }
}

/// REGISTER AND MOVE (SPC-4 5.12.8).
pub(super) fn register_and_move(
    record: &AccessRecord,
    nexus: &AccessNexus,
    ports: &[NodeId],
    out: &Out,
) -> Ruling {
    let Others::Move {
        initiator,
        isid,
        port,
        unregisters,
    } = &out.others
    else {
        panic!("the parameter list says where the reservation moves");
    };
    check_key(record, nexus, out.key)?;
    // What all hold is nobody's to move.
    let held = record
        .reservation
        .as_ref()
        .filter(|reservation| reservation.holder.as_ref() == Some(nexus))
        .ok_or(Refusal::Conflict)?;
    if ports.binary_search(port).is_err() {
        return Err(Refusal::Check(Sense::invalid_parameter(18, None)));
    }
    let destination = AccessNexus {
        initiator: initiator.clone(),
        isid: *isid,
        port: *port,
    };
    if destination == *nexus {
        return Err(Refusal::Check(Sense::invalid_parameter(24, None)));
    }
    let mut after = record.clone();
    after.persists = out.persists;
    after.reservation = Some(reservation(held.kind, &destination));
    put(&mut after, registration(destination, out));
    if *unregisters {
        remove(&mut after, nexus);
    }
    check_room(&after)?;
    changed(after)
}
