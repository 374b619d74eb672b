//! PREEMPT, PREEMPT AND ABORT (SPC-4 5.12.11, Preempting).

use holdfast_model::record::{AccessNexus, AccessRecord, ReservationKind};

use super::decide::{Change, Refusal, Ruling, check_key, release_if_unheld, reservation};
use super::kind;
use super::request::Out;
use crate::Sense;

/// PREEMPT, or (`aborts`) PREEMPT AND ABORT.
pub(super) fn preempt(
    record: &AccessRecord,
    nexus: &AccessNexus,
    out: &Out,
    kind: Option<ReservationKind>,
    aborts: bool,
) -> Ruling {
    check_key(record, nexus, out.key)?;
    let held_by_all = record
        .reservation
        .as_ref()
        .is_some_and(|reservation| kind::is_held_by_all(reservation.kind));
    let holder_key = record
        .reservation
        .as_ref()
        .and_then(|reservation| reservation.holder.as_ref())
        .and_then(|holder| record.registration(holder))
        .map(|registration| registration.key);
    let key = out.action_key;
    let takes_over = match key {
        // All who hold it, where all do. Nobody else is registered with the key zero.
        0 if held_by_all => true,
        0 => return Err(Refusal::Check(Sense::invalid_parameter(8, None))),
        key => holder_key == Some(key),
    };
    let is_known = |key| record.registrations.iter().any(|known| known.key == key);
    if !takes_over && !is_known(key) {
        return Err(Refusal::Conflict);
    }
    let mut after = record.clone();
    // Who takes a reservation over stays registered; who only removes registrations may well remove
    // its own.
    after.registrations.retain(|known| {
        let is_meant = key == 0 || known.key == key;
        !is_meant || (takes_over && known.nexus == *nexus)
    });
    if takes_over {
        // Only now do SCOPE and TYPE mean anything.
        let kind = kind.ok_or(Refusal::Check(Sense::invalid_cdb_field(2, None)))?;
        after.reservation = Some(reservation(kind, nexus));
    } else {
        release_if_unheld(&mut after);
    }
    let removed = |known: &&AccessNexus| aborts && after.registration(known).is_none();
    let before = record.registrations.iter().map(|known| &known.nexus);
    let abort = before.filter(removed).cloned().collect();
    Ok(Some(Change {
        record: after,
        abort,
    }))
}
