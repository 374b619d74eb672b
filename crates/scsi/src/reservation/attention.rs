//! What others are told when a command has changed the reservations (SPC-4 5.12.11).

use holdfast_model::record::{AccessNexus, AccessRecord};

use super::kind;
use crate::UnitAttention;

/// Service actions of PERSISTENT RESERVE OUT (SPC-4 6.16.2).
const REGISTER: u8 = 0x00;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_AND_IGNORE: u8 = 0x06;

/// What `nexus` has to be told if the record that it was served by was `old`, and is `new` now.
///
/// It is exact for one change. Of several, the last one is known, and what has become of the nexus
/// is: it hears of a registration that it has no more, and of a reservation that is gone or of
/// another type, but not what became good again in between. Who changed the record last hears
/// nothing.
#[must_use]
pub fn attentions(
    old: &AccessRecord,
    new: &AccessRecord,
    nexus: &AccessNexus,
) -> Option<UnitAttention> {
    // Who was not registered is told nothing by any of the clauses.
    if new.changes == old.changes || old.registration(nexus).is_none() {
        return None;
    }
    let last = new.last.as_ref();
    if last.is_some_and(|last| last.nexus == *nexus) {
        return None;
    }
    let action = last.and_then(|last| last.action);
    if new.registration(nexus).is_some() {
        return is_to_know_of_release(old, new, action)
            .then_some(UnitAttention::ReservationsReleased);
    }
    match action {
        // SPC-4 5.12.11, Clearing.
        Some(CLEAR) => Some(UnitAttention::ReservationsPreempted),
        // ALL_TG_PT: as if each port had been told itself.
        Some(REGISTER | REGISTER_AND_IGNORE) if is_same_port(last.map(|it| &it.nexus), nexus) => {
            None
        }
        // SPC-4 5.12.11, Preempting and Removing registrations.
        _ => Some(UnitAttention::RegistrationsPreempted),
    }
}

fn is_same_port(one: Option<&AccessNexus>, other: &AccessNexus) -> bool {
    one.is_some_and(|one| one.initiator == other.initiator && one.isid == other.isid)
}

/// Those who stay registered are told that a reservation which admitted them is gone, whether it
/// was released or its holder unregistered (SPC-4 5.12.11, Releasing and Unregistering), and that
/// PREEMPT made any reservation one of another type (SPC-4 5.12.11, Preempting persistent
/// reservations).
fn is_to_know_of_release(old: &AccessRecord, new: &AccessRecord, action: Option<u8>) -> bool {
    let Some(before) = old.reservation.as_ref().map(|it| it.kind) else {
        return false;
    };
    let after = new.reservation.as_ref().map(|it| it.kind);
    if after == Some(before) {
        return false;
    }
    let is_preempted = after.is_some() && matches!(action, Some(PREEMPT | PREEMPT_AND_ABORT));
    kind::admits_registrants(before) || is_preempted
}
