//! RESERVE and RELEASE of SPC-2, beside persistent reservations (CRH, SPC-4 5.12.3).

use holdfast_model::record::{AccessNexus, AccessRecord};

use super::decide::{Refusal, Ruling, changed};
use super::kind;
use super::permission::is_holder;

/// RESERVE (6) and (10).
pub(super) fn reserve(record: &AccessRecord, nexus: &AccessNexus) -> Ruling {
    if !record.registrations.is_empty() {
        return beside_registrations(record, nexus);
    }
    match &record.reserved {
        Some(holder) if holder != nexus => Err(Refusal::Conflict),
        Some(_) => Ok(None),
        None => changed(AccessRecord {
            reserved: Some(nexus.clone()),
            ..record.clone()
        }),
    }
}

/// RELEASE (6) and (10).
pub(super) fn release(record: &AccessRecord, nexus: &AccessNexus) -> Ruling {
    if !record.registrations.is_empty() {
        return beside_registrations(record, nexus);
    }
    match record.reserved.as_ref() == Some(nexus) {
        true => changed(AccessRecord {
            reserved: None,
            ..record.clone()
        }),
        // SPC-2, RELEASE: of what another one has, or nobody, it is no error.
        false => Ok(None),
    }
}

/// Who has by the persistent reservation what RESERVE would give is told GOOD, and nothing is done
/// (SPC-4 5.12.3). Anybody else may not, while anybody is registered (SPC-2 5.5.1).
fn beside_registrations(record: &AccessRecord, nexus: &AccessNexus) -> Ruling {
    let admits_registrants = record
        .reservation
        .as_ref()
        .is_some_and(|reservation| kind::admits_registrants(reservation.kind));
    let is_admitted = admits_registrants && record.registration(nexus).is_some();
    match is_holder(record, nexus) || is_admitted {
        true => Ok(None),
        false => Err(Refusal::Conflict),
    }
}
